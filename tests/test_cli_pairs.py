"""From a user's own pairs and rankings to a served model, on the command line."""

import json
import sys
from pathlib import Path

import pytest
import tiny_mlu
import tiny_pairs
import warm

ASK = Path(__file__).resolve().parents[1] / "examples" / "ask.py"


def train(run_cli, folder, task, model):
    """Train a run on the files in the folder."""
    settings = tiny_pairs.overrides(
        folder, task, model, training__steps=20, training__checkpoint_every=20
    )
    run, data = str(folder / "run"), settings.pop("data.train")
    words = f"train {task} --data {data} --run {run} --model {model} --quiet".split()
    code, _, err = run_cli(*words, *tiny_mlu.arguments(settings))
    assert (code, err) == (0, "")
    return run


def ask(folder, *texts):
    """Return an exported model's answers, from a process without this package and Keras."""
    ended = warm.run([sys.executable, ASK, folder, *texts], text=True, before=warm.WITHOUT_KERAS)
    return ended.stdout.splitlines() if ended.returncode == 0 else ended.stderr.splitlines()[-1:]


@pytest.mark.complete
def test_candidates_to_a_served_ranker(run_cli, tmp_path):
    run = train(run_cli, tiny_pairs.files(tmp_path, "rank"), "rank", "decomposable_coda")
    code, out, _ = run_cli("evaluate", run, "--json")
    assert code == 0 and json.loads(out)["questions"] == 50
    _, out, _ = run_cli("predict", run, "the cat\ta dog\tthe old cat\t")
    expected = json.loads(out)
    code, _, err = run_cli("export", run, "--to", str(tmp_path))
    # The exported model does not have the speed of this process's loops.
    assert code == 0 and err.startswith("note: CoDA's compiled loops") and "--compile" in err
    served = ask(tmp_path / "run" / "1", "the cat", "a dog", "the old cat", "")
    assert [line.split(" ", 1)[1] for line in served] == expected["ranked"]
    scores = [float(line.split()[0]) for line in served]
    assert scores == pytest.approx(expected["scores"], abs=1e-3) and scores[-1] == 0
