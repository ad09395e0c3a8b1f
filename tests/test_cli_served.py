"""From a user's own files to a served model, on the command line, where texts are the answer."""

import json

import pytest
import tiny_mlu
import tiny_pairs
import tiny_sequences
import warm
from test_cli_bad_input import assert_one_line

SHORT = {"training__steps": 20, "training__checkpoint_every": 20}


@pytest.fixture
def served(run_cli, cli_prints, tmp_path):
    """Return a function from a training to its measurement, an answer, and the served answer."""

    def make(words, settings, *texts):
        run = str(tmp_path / "run")
        train = ("train", *words, "--run", run, "--quiet", *tiny_mlu.arguments(settings))
        cli_prints(*train)
        record = str(tmp_path / "results.jsonl")
        measured = cli_prints("evaluate", run, "--json", "--record", record)
        _, answer, _ = run_cli("predict", run, "\t".join(texts))
        code, _, err = run_cli("export", run, "--to", str(tmp_path))
        # The exported model does not have the speed of this process's loops.
        assert code == 0 and err.startswith("note: CoDA's compiled loops") and "--compile" in err
        # From a process without this package and Keras.
        words = [warm.ROOT / "examples/ask.py", tmp_path / "run/1", *texts]
        printed = warm.printed(words, before=warm.WITHOUT_KERAS)
        return json.loads(measured), json.loads(answer), printed.splitlines()

    return make


@pytest.mark.complete
def test_candidates_to_a_served_ranker(served, tmp_path):
    model, folder = "decomposable_coda", tiny_pairs.files(tmp_path, "rank")
    settings = tiny_pairs.overrides(folder, "rank", model, **SHORT)
    words = ("rank", "--data", settings.pop("data.train"), "--model", model)
    figures, expected, lines = served(words, settings, "the cat", "a dog", "the old cat", "")
    assert figures["questions"] == 50
    assert [line.split(" ", 1)[1] for line in lines] == expected["ranked"]
    scores = [float(line.split()[0]) for line in lines]
    assert scores == pytest.approx(expected["scores"], abs=1e-3) and scores[-1] == 0


@pytest.mark.complete
def test_two_files_to_a_served_translator(served, run_cli, tmp_path):
    model, folder = "seq2seq_coda", tiny_sequences.files(tmp_path)
    settings = tiny_sequences.overrides(folder, "translate", model, **SHORT)
    source, target = settings.pop("data.train").split(",")
    words = ("translate", "--source", source, "--target", target, "--model", model)
    figures, expected, lines = served(words, settings, "a dog runs")
    recorded = json.loads((tmp_path / "results.jsonl").read_text())
    assert recorded["signature"] == figures["signature"]
    assert lines == [expected["answer"], f"log-probability {expected['log_probability']:.4f}"]
    _, out, _ = run_cli("predict", str(tmp_path / "run"), "a dog runs", "--weights")
    explained = json.loads(out)
    assert len(explained["weights"]) == len(explained["answer_pieces"])
    assert {name: explained[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", "--source", "a.en"], "give --source FILE and --target FILE together"),
        (["translate", "--source=a", "--target=b", "--data=c"], "together, and not with --data"),
        (
            ["translate", "--data", __file__],
            "data.train is '.*.py': give two files with one text per line, as SOURCE,TARGET",
        ),
        (
            ["translate", "--source=a,b.en", "--target=b.de"],
            "--source 'a,b.en': the path must not have a comma, because .* SOURCE,TARGET: rename",
        ),
        (
            ["classify", "--data=a,b.tsv"],
            r"cannot read a \(a part of 'a,b.tsv', split at its commas\): No such file",
        ),
        (
            ["translate", "--data", ",".join([__file__] * 3)],
            "as SOURCE,TARGET .*; a path must not have a comma",
        ),
        (
            ["translate", "--preset", "own"],
            "data.train is '': give two files with one text per line",
        ),
        (
            ["mlu", "--source=a", "--target=b"],
            "--source 'a' --target 'b': task mlu generates its own data and accepts no file",
        ),
    ],
)
def test_files_that_are_not_named_rightly_are_one_line(words, message, run_cli, tmp_path):
    assert_one_line(run_cli("train", *words, "--run", str(tmp_path / "run"), "--quiet"), message)
