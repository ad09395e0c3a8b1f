"""From a user's own two files to a served translator, on the command line."""

import json

import pytest
import tiny_mlu
import tiny_sequences
from test_cli_bad_input import assert_one_line
from test_cli_pairs import ask


@pytest.mark.complete
def test_two_files_to_a_served_translator(run_cli, tmp_path):
    tiny_sequences.files(tmp_path)
    settings = tiny_sequences.overrides(
        tmp_path, "translate", "seq2seq_coda", training__steps=20, training__checkpoint_every=20
    )
    del settings["data.train"]
    run = str(tmp_path / "run")
    words = f"train translate --source {tmp_path}/train.en --target {tmp_path}/train.de --quiet"
    words = [*words.split(), "--model=seq2seq_coda", "--run", run, *tiny_mlu.arguments(settings)]
    code, _, err = run_cli(*words)
    assert (code, err) == (0, "")
    record = tmp_path / "results.jsonl"
    code, out, err = run_cli("evaluate", run, "--json", "--record", str(record))
    assert (code, err) == (0, "")
    assert json.loads(record.read_text())["signature"] == json.loads(out)["signature"]
    _, out, _ = run_cli("predict", run, "a dog runs")
    expected = json.loads(out)
    _, out, _ = run_cli("predict", run, "a dog runs", "--weights")
    explained = json.loads(out)
    assert len(explained["weights"]) == len(explained["answer_pieces"])
    assert {name: explained[name] for name in expected} == expected
    code, _, err = run_cli("export", run, "--to", str(tmp_path))
    assert code == 0 and err.startswith("note: CoDA's compiled loops stay here"), err
    served = ask(tmp_path / "run" / "1", "a dog runs")
    assert served == [expected["answer"], f"log-probability {expected['log_probability']:.4f}"]


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
            ["translate", "--preset", "own"],
            "data.train is '': give two files with one text per line",
        ),
        (
            ["mlu", "--source=a", "--target=b"],
            "--data 'a,b': task mlu generates its own data and accepts no file",
        ),
    ],
)
def test_files_that_are_not_named_rightly_are_one_line(words, message, run_cli, tmp_path):
    assert_one_line(run_cli("train", *words, "--run", str(tmp_path / "run"), "--quiet"), message)
