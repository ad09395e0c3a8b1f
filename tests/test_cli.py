import io
import json
import logging
import re
import sys

import pytest
import tiny_mlu

from keras_quasiattn import __version__
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks import catalogue
from keras_quasiattn.lab.training import RunFolder

COMMANDS = [
    *("tasks", "train", "tune", "evaluate", "predict"),
    *("show", "report", "export", "serve-check"),
]

# The commands, if nothing fails


def test_from_training_to_a_saved_model(cli_prints, mlu_data, quick_export, tmp_path):
    run, data = str(tmp_path / "mlu-soft"), f"--data-dir={mlu_data}"
    words = f"train mlu --model=softmax --run={run} --seed=5 {data} --quiet".split()
    train = (*words, *tiny_mlu.settings())
    (line,) = cli_prints(*train).splitlines()
    assert json.loads(line)["run"] == run and 0 < json.loads(line)["validation"]["loss"] < 6
    config = RunFolder.open(run).config
    assert config["command"] == " ".join(("quasiattn", *train))
    assert (config["task_config"]["model"], config["task_config"]["seed"]) == ("softmax", 5)

    figures = json.loads(cli_prints("evaluate", run, "--limit", "40", data, "--json"))
    assert (figures.pop("run"), figures.pop("split")) == (run, "test")
    low, high = figures.pop("intervals")["sequence_accuracy"]
    assert low <= figures["sequence_accuracy"] <= high
    # The model is a Transformer with softmax, whose weights are never negative.
    assert (figures["negative_share"], figures["drop_without_negative"]) == (0.0, 0.0)
    negative = {"negative_share", "drop_without_negative"}
    assert figures.keys() == {"sequence_accuracy", "by_kind", "questions"} | negative
    assert figures["questions"] == 40
    assert RunFolder.open(run).metrics()["test, first 40"] == figures

    answers = cli_prints("predict", run, tiny_mlu.QUESTION, "x=1,y=2,x-x").splitlines()
    rows = [json.loads(line) for line in answers]
    assert [row["input"] for row in rows] == [tiny_mlu.QUESTION, "x=1,y=2,x-x"]
    assert all(row["log_probability"] < 0 and isinstance(row["answer"], str) for row in rows)

    saved = tmp_path / "saved"
    assert cli_prints("export", run, "--to", str(saved)) == f"{saved}/mlu-soft/1\n"
    about = json.loads((saved / "mlu-soft/1/assets.extra/about.json").read_text())
    assert about["metrics"]["test, first 40"] == figures

    before = tiny_mlu.contents(tmp_path)
    told, *_ = cli_prints(*(argument for argument in train if argument != "--quiet")).splitlines()
    assert told == f"{run} is finished: nothing to train"
    assert tiny_mlu.contents(tmp_path) == before


def test_predict_reads_standard_input(run_cli, mlu_run, monkeypatch):
    typed = io.TextIOWrapper(io.BytesIO(b"x=1,y=2,x+y\nx=3,y=4,x+y\n"))
    monkeypatch.setattr(sys, "stdin", typed)
    code, out, _ = run_cli("predict", str(mlu_run), "-", tiny_mlu.QUESTION)
    assert code == 0
    inputs = [json.loads(line)["input"] for line in out.splitlines()]
    assert inputs == ["x=1,y=2,x+y", "x=3,y=4,x+y", tiny_mlu.QUESTION]


def test_tasks_fit_on_a_screen(cli_prints):
    out = cli_prints("tasks")
    assert len(out.splitlines()) <= 40  # they were 1,977
    for expected in ("mlu: arithmetic in characters", "coda, softmax, universal", "demo, paper"):
        assert expected in out


def test_a_task_explains_its_models_presets_and_options(run_cli, cli_prints):
    out = cli_prints("tasks", "mlu", "--preset", "paper", "--model", "softmax")
    for expected in (
        r"softmax +a Transformer with softmax\n",
        r"demo +sums and differences",
        r"data.low=-1000 +smallest number\n",
        r"model.attention=softmax +name of the attention\n",
        r"training.jit_compile=False +compile the updates with XLA",
    ):
        assert re.search(expected, out), expected
    assert "model.coda" not in out
    assert run_cli("tasks", "--preset", "own")[0] == 1
    assert run_cli("tasks", "mlu", "--preset", "own")[0] == 1


def test_the_slowest_model_was_the_usual_one_for_own_texts(run_cli):
    _, own, _ = run_cli("tasks", "classify", "--preset", "own")
    assert "and the model words_gated" in " ".join(own.split())
    _, published, _ = run_cli("tasks", "classify", "--preset", "trec")
    assert "and the model bilstm_gated" in " ".join(published.split())


def test_every_model_and_option_has_a_sentence_and_no_sentence_is_left_over():
    described = [tasks.describe(name) for name in tasks.available()]
    models = {model for task in described for model in task.models}
    options = {
        option
        for task in described
        for preset in task.presets.values()
        for model in task.models
        for option in preset.for_model(model).options()
    }
    assert (set(catalogue.MODELS), set(catalogue.OPTIONS)) == (models, options)
    assert all(catalogue.MODELS.values()) and all(catalogue.OPTIONS.values())


def test_help_of_a_task_names_its_models_and_presets(run_cli):
    for command in ("train", "tune"):
        code, out, _ = run_cli(command, "classify", "--help")
        assert code == 0 and "Models of classify:\n  bilstm_gated " in out
        assert "Presets of classify:\n  trec " in out and "--set NAME=VALUE" in out
    assert "Models" not in run_cli("train", "--help")[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_examples(command, cli_prints):
    examples = cli_prints(command, "--help").partition("\nExamples:\n")[2].splitlines()
    assert examples and examples[0].startswith(f"  quasiattn {command}")


def test_help_and_version(run_cli):
    code, out, _ = run_cli("--help")
    assert code == 0 and "Examples:\n  quasiattn tasks\n" in out
    assert all(f"\n  {command} " in out for command in COMMANDS)
    assert run_cli("--version") == (0, f"quasiattn, version {__version__}\n", "")
    code, out, err = run_cli()
    assert code == 2 and "Examples:" in err


# Fresh processes


def test_a_report_had_a_paragraph_of_tensorflow_about_retracing(run_cli, caplog):
    with caplog.at_level(logging.WARNING, "tensorflow"):
        run_cli("--version")
        assert not logging.getLogger("tensorflow").isEnabledFor(logging.WARNING)


@pytest.mark.long
def test_bytes_that_are_not_utf8(mlu_run):
    # In a fresh process: TensorFlow is silent while it loads, and while it runs.
    ended = tiny_mlu.quasiattn("predict", str(mlu_run), "-", b"\xff\xfe", input=b"x=1,y=2,x+y")
    assert ended.returncode == 1 and ended.stdout == b""
    (line,) = ended.stderr.splitlines()
    assert line.startswith(b"quasiattn: cannot read '\\udcff\\udcfe' as an expression")
