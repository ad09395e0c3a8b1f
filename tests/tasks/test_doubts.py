"""Warnings about a failed model, at the end of training and in `evaluate`."""

import json
import shutil

import pytest
import tiny
import tiny_pairs
import tiny_texts

from keras_quasiattn.lab.tasks import measured
from keras_quasiattn.lab.tasks.classify import Classify
from keras_quasiattn.lab.tasks.measured import Measured, behind_simple_methods, open_gates
from keras_quasiattn.lab.training import train


@pytest.fixture
def unfinished(texts_run, tmp_path):
    """Return a copy of a run whose finished model is still to be written."""
    run = shutil.copytree(texts_run, tmp_path / "run")
    (run / "model.keras").unlink()
    return run


def test_what_a_model_failed_at_was_not_mentioned_by_training_or_evaluate(
    unfinished, run_cli, monkeypatch
):
    better = {"bag_of_words": Measured({"accuracy": 1.5, "macro_f1": 1.5})}
    monkeypatch.setattr(Classify, "measure_baselines", lambda *_: better)
    monkeypatch.setattr(measured, "_OPEN", -1.0)
    code, out, _ = run_cli("finish", str(unfinished))
    assert code == 0 and "warning: the accuracy on validation is " in out
    assert "and a bag of words has 1.500" in out
    assert "warning: the gates stayed open (density " in out
    assert "this is soft attention; a higher model.gate_cost closes them" in out
    code, out, err = run_cli("evaluate", str(unfinished), "--limit", "10", "--json")
    assert code == 0 and json.loads(out)["accuracy"] <= 1
    first, second = err.splitlines()
    assert first.startswith("warning: the gates stayed open")
    assert second.startswith("warning: the accuracy on test is ")


@pytest.mark.long
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("name", ["pairs", "rank"])
def test_every_task_with_simple_methods_is_judged_by_its_figure(name, request, tmp_path, capsys):
    folder = request.getfixturevalue(f"{name}_data")
    # The rate is too low for any weight to change.
    task = tiny_pairs.make(
        *(folder, name, "decomposable"),
        training__learning_rate=1e-9,
        training__steps=2,
        training__checkpoint_every=1,
    )
    run = train(task, tmp_path / "run")
    simple = task.measure_baselines("validation")["bag_of_words"].figures[task.figure]
    assert run.metrics()["validation"][task.figure] < simple
    out = capsys.readouterr().out
    assert f"warning: the {task.figure} on validation is " in out and "a bag of words has" in out


@pytest.mark.parametrize(
    ("ours", "told"), [(0.6, 2), (0.65, 2), (0.66, 1), (0.74, 1), (0.75, 0), (0.8, 0)]
)
def test_as_good_as_the_majority_is_nothing_learned_and_below_words_is_said(ours, told):
    simple = {
        "majority": Measured({"accuracy": 0.65, "macro_f1": 0.4}),
        "bag_of_words": Measured({"accuracy": 0.75, "macro_f1": 0.7}),
    }
    where = ("accuracy", "test", "more rows")
    lines = behind_simple_methods({"accuracy": ours, "macro_f1": 0.9}, simple, *where)
    assert len(lines) == told and all(line.startswith("warning: ") for line in lines)
    assert behind_simple_methods({"accuracy": ours}, {}, *where) == []


@pytest.mark.parametrize(
    ("model", "options", "advised"),
    [
        ("words_gated", {}, "1.000: word vectors, more rows"),
        ("words_gated", {"data__vectors": "mine.txt"}, "1.000: more rows"),
        ("transformer", {}, "1.000: more rows"),
        ("encoder", {"model__encoder": "place"}, "1.000: more rows"),
    ],
)
def test_word_vectors_were_advised_where_a_model_cannot_take_them(
    model, options, advised, tmp_path
):
    given = {"data.train": "train.tsv", **tiny.dotted(options)}
    task = tiny.make("classify", model, tmp_path, given)
    simple = {"bag_of_words": Measured({"accuracy": 1.0})}
    (line,) = task.doubts({"accuracy": 0.5}, simple, "test")
    assert advised in line


def test_a_model_chosen_by_macro_f1_is_judged_by_it(texts_data):
    task = tiny_texts.make(texts_data, "words_gated", training__select="macro_f1")
    simple = {"majority": Measured({"accuracy": 0.9, "macro_f1": 0.3})}
    assert task.doubts({"accuracy": 0.5, "macro_f1": 0.4, "density": 0.1}, simple, "test") == []
    (line,) = task.doubts({"accuracy": 0.95, "macro_f1": 0.2}, simple, "test")
    assert "macro_f1 on test is 0.200" in line


@pytest.mark.parametrize("name", ["density", "multi_head_gated_density"])
def test_densities_above_those_of_the_paper_are_open_gates(name):
    (line,) = open_gates({name: 0.84, "accuracy": 1.0}, "model.gate_cost")
    assert "the gates stayed open" in line and "this is soft attention" in line and "0.84" in line
    assert open_gates({name: 0.61, "accuracy": 1.0}, "model.gate_cost") == []
