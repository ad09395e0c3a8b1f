import time

import numpy as np
import pytest
import tiny
import tiny_sequences
from tiny import prepared

from keras_quasiattn.errors import UserError

# With `reduce`, lambda1's `self`, brackets and division: programs of a poorly trained model.
FAILING = [
    *("[ invoke1 [ lambda1 [ self arg1 ] ] a ]", "[ / a 0 ]", "[ + a 1", "[ + a 1 ] ]"),
    *("", "[ unknown a ]"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_sequences.files(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def task(folder):
    made = prepared(tiny_sequences.make(folder, "programs", "transformer"))
    return made


def answering(task, programs, monkeypatch):
    """Return the metrics of a model that answers the first training texts with these programs."""
    rows = [{"answer": program.encode(), "log_probability": 0.0} for program in programs]
    monkeypatch.setattr(type(task), "_answers", lambda self, model, texts: rows)
    return dict(task.evaluate(task.build_model(), "train", limit=len(programs)))


def test_programs_that_pass_are_more_than_those_that_are_exact(task, monkeypatch):
    wanted = [target.decode() for target in task._data.splits["train"].target[:4]]
    figures = answering(task, ["[ + 0 a ]", wanted[1], "[ + 1 a ]", "[ + a a ]"], monkeypatch)
    assert wanted[0] == "[ + a 0 ]" and wanted[2] == "[ + a 1 ]"
    assert (figures["sequence_accuracy"], figures["program_accuracy"]) == (0.25, 0.75)
    assert figures["examples"] == 4 and figures["perplexity"] > 1


def test_programs_that_loop_or_fail_or_cannot_be_read_do_not_pass(task, monkeypatch):
    started = time.monotonic()
    assert answering(task, FAILING, monkeypatch)["program_accuracy"] == 0
    assert time.monotonic() - started < 60


def test_every_program_comes_back_from_its_pieces(task):
    programs = ["[ filter a [ partial0 b < ] ]", '[ str_split a " " ]']
    ids = task.tokenizer.tokenize(programs)
    assert task.tokenizer.detokenize(ids).numpy().tolist() == [text.encode() for text in programs]


def test_problems_are_made_by_rule(tmp_path):
    sizes = {"data.train_problems": 20, "data.validation_problems": 8, "data.test_problems": 8}
    made = tiny.make("programs", "transformer_coda", tmp_path, sizes, preset="generated")
    made.prepare()
    assert len(made._data.splits["train"]) == 20
    assert made.describe_data()["note"] == "problems by rule, not the published ones"
    inputs, target, weights = next(iter(made.training_data(0)))
    assert np.isfinite(made.loss()(target, made.build_model()(inputs), weights))
    made.check_input(made.example)


def test_a_program_is_held_out_with_all_its_texts(folder):
    made = tiny_sequences.make(folder, "programs", data__validation="", data__validation_share=0.4)
    whole, note = made._load()
    train, validation = (set(whole.splits[split].target) for split in ("train", "validation"))
    assert train and validation and not train & validation
    assert note.startswith("validation is ") and note.endswith(" of 30 training rows, by hash")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": ["a"], "short_tree": ["+", "a"', "line 1: not JSON"),
        (
            '{"text": ["a"]}',
            "line 1: short_tree, args, return_type, tests missing from the problem",
        ),
        ("", "has no problems"),
    ],
)
def test_a_file_that_is_of_another_form_is_one_line(line, message, tmp_path):
    (tmp_path / "train.jsonl").write_text(line + "\n")
    made = tiny_sequences.make(tmp_path, "programs", data__validation="", data__test="")
    with pytest.raises(UserError, match=message) as caught:
        made.prepare()
    assert len(str(caught.value).splitlines()) == 1


def test_no_file_and_no_problems_are_one_line(tmp_path):
    with pytest.raises(UserError, match="data.train is '': name a file, with --data FILE"):
        tiny_sequences.make(tmp_path, "programs", data__train="").prepare()
    sizes = {"data.test_problems": 0}
    empty = tiny.make("programs", "transformer", tmp_path, sizes, preset="generated")
    with pytest.raises(UserError, match="every split must have at least one problem"):
        empty.prepare()
