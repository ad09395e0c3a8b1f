"""`quasiattn evaluate`: tables for people, JSON for programs, and a user's own files."""

import json
import re
import shutil

import numpy as np
import pytest
import tiny_texts
from test_cli_bad_input import assert_one_line

from keras_quasiattn.lab.cli.commands import _say
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.metrics.intervals import bootstrap, wilson


@pytest.fixture
def own(texts_run, tmp_path):
    """Return a copy of a run, whose metrics may be changed."""
    return shutil.copytree(texts_run, tmp_path / "mine")


def test_people_get_a_table_beside_both_baselines_with_intervals(cli_prints, own):
    out = cli_prints("evaluate", str(own), "--limit", "30")
    title, _, head, model, majority, words, *rest = out.splitlines()
    assert title == "classify, test: 30 examples; in parentheses, the 95% interval"
    assert head.split() == ["accuracy", "macro", "f1"]
    figures = RunFolder.open(own).metrics()["test, first 30"]
    low, high = wilson(figures["accuracy"], 30)
    assert model.split("  ")[0] == str(own)
    told = f"{figures['accuracy']:.3f} ({low:.3f} to {high:.3f})"
    assert model.split("  ", 1)[1].split("  ") == [told, f"{figures['macro_f1']:.3f}"]
    assert majority.split()[:2] == ["majority", f"{figures['majority_accuracy']:.3f}"]
    assert words.split()[:4] == ["bag", "of", "words", f"{figures['bag_of_words_accuracy']:.3f}"]
    assert any(
        line.split() == ["per", "class", *["precision", "recall", "f1", "count"]] for line in rest
    )
    assert "{" not in out


def test_a_file_of_ones_own_is_measured_as_the_test_file(cli_prints, own, texts_data, tmp_path):
    split = json.loads(cli_prints("evaluate", str(own), "--json"))
    lines = (texts_data / "test.tsv").read_text().replace("text\tlabel", "Question\tKind")
    (tmp_path / "new.tsv").write_text(lines)
    words = ["--data", str(tmp_path / "new.tsv"), "--columns", "text=Question,label=Kind"]
    of_file = json.loads(cli_prints("evaluate", str(own), *words, "--json"))
    assert of_file.pop("split") == str(tmp_path / "new.tsv") and split.pop("split") == "test"
    assert of_file == split
    metrics = RunFolder.open(own).metrics()
    assert metrics[str(tmp_path / "new.tsv")] == metrics["test"]  # which stays
    assert split["intervals"].keys() == {
        *("accuracy", "majority_accuracy", "bag_of_words_accuracy")
    }


def test_figures_of_a_few_examples_replaced_those_of_all(cli_prints, own, tmp_path):
    """The card of an export then had the accuracy on one example as that of the test."""
    RunFolder.open(own).write_metrics("test", {"accuracy": 0.75})
    record = tmp_path / "results.jsonl"
    cli_prints("evaluate", str(own), "--limit", "1", "--record", str(record))
    metrics = RunFolder.open(own).metrics()
    assert metrics["test"] == {"accuracy": 0.75} and metrics["test, first 1"]["accuracy"] in (0, 1)
    assert json.loads(record.read_text())["split"] == "test, first 1"


def test_a_file_is_measured_where_the_training_data_are_missing(run_cli, own, texts_data):
    config = json.loads((own / "config.json").read_text())
    config["task_config"]["options"]["data.train"] = "/none/train.tsv"
    (own / "config.json").write_text(json.dumps(config))
    (own / "manifest.json").unlink(missing_ok=True)
    code, out, err = run_cli("evaluate", str(own), "--data", str(texts_data / "test.tsv"))
    assert code == 0, err
    assert err.startswith("no baselines to compare with: cannot read /none/train.tsv")
    assert "majority" not in out and "accuracy" in out


def test_changed_data_were_measured_and_recorded_as_those_of_the_run(
    run_cli, own, texts_data, tmp_path
):
    config = json.loads((own / "config.json").read_text())
    file = tiny_texts.write(tmp_path / "train.tsv", tiny_texts.rows(40, seed=9))
    config["task_config"]["options"]["data.train"] = str(file)
    (own / "config.json").write_text(json.dumps(config))
    (own / "manifest.json").unlink(missing_ok=True)
    message = "was started with the data .*, and they are now train.tsv sha256:.*: restore them"
    assert_one_line(run_cli("evaluate", str(own)), message)
    # The baselines learned from them, and stood beside a model that did not.
    code, out, err = run_cli("evaluate", str(own), "--data", str(texts_data / "test.tsv"))
    assert code == 0 and re.match(f"no baselines to compare with: .* {message}", err), err
    assert "majority" not in out and "accuracy" in out


def test_a_figure_that_overflowed_was_printed_as_no_json(run_cli, own, monkeypatch, capsys):
    def wrong(constant):
        raise AssertionError(constant)

    figures = {"most": float("inf"), "per_class": {"a": {"f1": float("nan")}}}
    monkeypatch.setattr(
        "keras_quasiattn.lab.tasks.subtraction.subtraction", lambda *arguments: figures
    )
    code, out, _ = run_cli("evaluate", str(own), "--limit", "3", "--json")
    found = json.loads(out, parse_constant=wrong)
    assert code == 0 and found["most"] is None and found["per_class"] == {"a": {"f1": None}}
    _say(RunFolder.open(own))
    found = json.loads(capsys.readouterr().out, parse_constant=wrong)
    assert found["test, first 3"]["most"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "{tmp}/labels.tsv"], "labels.tsv, line 2: no class of the model has the label"),
        (["--data", "{tmp}/none.tsv"], "cannot read .*none.tsv: No such file"),
        (["--data", "{tmp}/labels.tsv", "--columns", "txt=a"], "unknown column 'txt'"),
        (["--split", "tset"], "unknown split 'tset'"),
    ],
)
def test_wrong_files_are_one_line_and_change_nothing(words, message, run_cli, own, tmp_path):
    tiny_texts.write(tmp_path / "labels.tsv", [("who?", "ANIMAL")])
    before = (own / "metrics.json").read_bytes()
    arguments = [word.format(tmp=tmp_path) for word in words]
    assert_one_line(run_cli("evaluate", str(own), *arguments), message)
    assert (own / "metrics.json").read_bytes() == before


def test_what_does_not_go_together_is_refused(run_cli, own):
    for words in (["--split", "test", "--data", "a.tsv"], ["--columns", "text=a"]):
        code, _, err = run_cli("evaluate", str(own), *words)
        assert (code, len(err.splitlines())) == (2, 1)


def test_data_of_ones_own_are_refused_by_a_task_without(run_cli, mlu_run):
    outcome = run_cli("evaluate", str(mlu_run), "--data", "a.tsv")
    assert_one_line(outcome, "task mlu makes its own data: measure a split of it")


def test_intervals_hold_their_share():
    """Of many samples, about 95% have an interval that contains the true value."""
    generator = np.random.default_rng(3)
    hits = generator.binomial(40, 0.9, 2000)
    bounds = [wilson(hit / 40, 40) for hit in hits]
    assert 0.93 < np.mean([low <= 0.9 <= high for low, high in bounds]) < 0.98
    samples = generator.beta(2, 1, (60, 80))
    bounds = [bootstrap(sample) for sample in samples]
    assert np.mean([low <= 2 / 3 <= high for low, high in bounds]) > 0.85
    assert wilson(0.0, 5)[0] == 0 and wilson(1.0, 5)[1] == 1
