import collections
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tiny_mlu
from tools import long_except

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.data import split_of
from keras_quasiattn.lab.training import RunFolder

MODELS = ("coda", "softmax", "universal", "universal_coda")


@pytest.fixture(scope="module")
def trained(mlu_run, mlu_data):
    folder = RunFolder.open(mlu_run, finished=True)
    return folder.task(mlu_data), folder.load_model()


def test_training_makes_the_loss_small(mlu_run):
    history = RunFolder.open(mlu_run).history()
    assert [row["step"] for row in history] == [10, 20]
    assert history[1]["val_loss"] < history[0]["val_loss"] < np.log(258)
    assert RunFolder.open(mlu_run).metrics()["validation"]["loss"] == pytest.approx(
        history[1]["val_loss"]
    )


def test_all_of_a_split_is_measured(trained):
    task, model = trained
    size = task._builder().info.splits["validation"].num_examples
    figures = task.evaluate(model, "validation")
    by_kind = figures.pop("by_kind")  # its shares make up the accuracy
    examples = task._examples("validation").as_numpy_iterator()
    sizes = collections.Counter(task.grammar.parse(row["expression"]).kind for row in examples)
    assert by_kind.keys() == sizes.keys()
    right = sum(by_kind[kind] * count for kind, count in sizes.items())
    assert right == pytest.approx(figures["sequence_accuracy"] * size)
    assert figures == {"sequence_accuracy": pytest.approx(0.05, abs=0.05), "questions": size}


def test_predict_is_the_served_function(trained):
    task, model = trained
    questions = [
        row["expression"].decode() for row in task._examples("test").take(600).as_numpy_iterator()
    ]
    answers = task.predict(model, questions)
    served_by = task.serving_signature(model)
    served = served_by.function(tf.constant(questions))
    assert [spec.name for spec in served_by.input_signature] == ["text"] and not served_by.resources
    assert [row["input"] for row in answers] == questions
    assert [row["answer"] for row in answers] == [
        b.decode("utf-8", "replace") for b in served["answer"].numpy()
    ]
    np.testing.assert_allclose(
        [row["log_probability"] for row in answers], served["log_probability"].numpy(), rtol=1e-5
    )
    assert len({row["log_probability"] for row in answers}) > 100
    assert all(row["log_probability"] < 0 for row in answers)
    assert task.predict(model, []) == []


def test_answer_that_is_not_utf8_is_text(trained, monkeypatch):
    # A poorly trained model may answer with any bytes. The export compares this text with its own.
    task, model = trained
    output = {"answer": tf.constant([b"\xff1"]), "log_probability": tf.constant([-1.0])}
    monkeypatch.setattr(task, "_text_function", lambda answer_ids: lambda text: output)
    assert task.predict(model, [tiny_mlu.QUESTION])[0]["answer"] == "\N{REPLACEMENT CHARACTER}1"


@pytest.fixture(scope="module")
def training_batch(mlu_data):
    return next(iter(tiny_mlu.make(mlu_data).training_data(0)))


@pytest.mark.parametrize("model", long_except(MODELS, "coda", "universal"))
def test_every_model_builds_and_trains(model, mlu_data, training_batch):
    task = tiny_mlu.make(mlu_data, model, model__num_layers=2)
    built = task.build_model()
    blocks = {layer.name for layer in built.layers if "_block_" in layer.name}
    assert len(blocks) == (2 if "universal" in model else 4)
    assert built.num_layers == 2
    names = {type(layer).__name__ for layer in built._flatten_layers()}
    assert ("MultiHeadCoDA" in names, "MultiHeadSoftmax" in names) == (
        "coda" in model,
        "coda" not in model,
    )
    x, y, weights = training_batch
    built.compile("sgd", task.loss(), metrics=task.metrics(), run_eagerly=True)
    losses = [built.train_on_batch(x, y, weights, return_dict=True)["loss"] for _ in range(2)]
    assert losses[1] < losses[0]


def test_paper_has_the_size_of_tensor2tensor_and_the_demo_half_its_width():
    for model in MODELS:
        for preset, width in (("demo", 64), ("paper", 128)):
            task = tasks.get("mlu")(preset=preset, model=model, seed=0, data_dir="data")
            options = {
                name: task.options.model[name] for name in ("hidden_dim", "num_heads", "num_layers")
            }
            layers = 8 if "universal" in model else 2
            assert options == {"hidden_dim": width, "num_heads": 4, "num_layers": layers}


def test_batches_depend_only_on_seed_and_step(mlu_data):
    def sources(task, first_step, batches):
        return [
            x["source"].numpy().tolist() for x, _, _ in task.training_data(first_step).take(batches)
        ]

    task = tiny_mlu.make(mlu_data)
    whole = sources(task, 0, 5)
    assert whole[3:] == sources(task, 3, 2)
    other = type(task)(
        preset="demo", model="coda", seed=4, data_dir=mlu_data, overrides=tiny_mlu.OVERRIDES
    )
    assert whole[:1] != sources(other, 0, 1)


def test_validation_has_whole_batches_only(mlu_data):
    task = tiny_mlu.make(mlu_data, data__validation_examples=70)
    assert [x["source"].shape[0] for x, _, _ in task.validation_data()] == [32, 32]


@pytest.mark.parametrize(
    ("options", "example"),
    [
        ({}, tiny_mlu.QUESTION),
        ({"data__operators": "*"}, "x=19,y=-20,y*x"),
        ({"data__low": -60, "data__high": 90}, "x=85,y=-52,y-x"),
    ],
)
def test_example_is_of_the_range_and_operators(options, example):
    # The export uses it: with only the documentation's question, other ranges would fail.
    task = tiny_mlu.make(Path("data"), **options)
    assert task.example == example
    task.check_input(example)


def test_example_of_the_documentation_is_held_out():
    task = tasks.get("mlu")(preset="demo", model="coda", seed=0, data_dir="data")
    assert task.example == "x=85,y=-52,y-x"
    assert split_of(task.grammar.parse(task.example)) == "test"


@pytest.mark.parametrize("question", ["", "x=20,y=1,x+y", "x=1," * 2500, b"\xff\xfe"])
def test_what_is_no_question_is_one_line(question, trained):
    task, model = trained
    with pytest.raises(UserError, match="from -20 to 19") as caught:
        task.predict(model, [tiny_mlu.QUESTION, question])
    assert len(str(caught.value).splitlines()) == 1 and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (
            "coda",
            {"data__low": 30},
            r"data options do not suit task mlu: low must be less than high; got low=30",
        ),
        (
            "coda",
            {"data__validation_examples": 31},
            r"validation_examples is 31: .* training.batch_size \(32\)",
        ),
        ("softmax", {"model__coda_scaling": "paper"}, "unknown option 'model.coda_scaling'"),
    ],
)
def test_bad_options_are_one_line_before_anything_is_made(model, options, message, tmp_path):
    with pytest.raises(UserError, match=message) as caught:
        tiny_mlu.make(tmp_path, model, **options)
    assert len(str(caught.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"model__num_heads": 5},
            "model options do not suit task mlu: .* divisible by `num_heads` .* num_heads=5",
        ),
        ({"model__attention_options": {"scaling": "big"}}, "scaling.*'big'"),
    ],
)
def test_model_options_that_do_not_go_together_are_one_line(options, message):
    with pytest.raises(UserError, match=message) as caught:
        tiny_mlu.make(Path("data"), **options).build_model()
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"training__batch_size": 2000, "data__validation_examples": 2000},
        {"training__batch_size": 10**9},
    ],
)
def test_batch_larger_than_a_split_is_one_line(options, mlu_data):
    options = {"data__validation_examples": 10**9, **options}
    with pytest.raises(
        UserError, match=r"batch_size is \d+: it must be at most \d+, the number of questions in"
    ):
        tiny_mlu.make(mlu_data, **options).prepare()


def test_data_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UserError, match=f"cannot write the data to {tmp_path}/file") as caught:
        tiny_mlu.make(tmp_path / "file").prepare()
    assert len(str(caught.value).splitlines()) == 1
    assert (tmp_path / "file").read_text() == "kept"


def test_tokenized_texts_have_the_bytes_that_the_model_is_given(mlu_data):
    task = tiny_mlu.make(mlu_data)
    question, *_ = task.texts("test", 2)
    texts = task.tokenize([question])
    (source,), (target,) = texts.tokens.values()
    assert "".join(source) == f"{question}⟨end⟩"
    assert "".join(target) == f"⟨start⟩{task.grammar.evaluate(question)}"
    assert [np.count_nonzero(ids) for ids in texts.argument.values()] == [len(source), len(target)]
    with pytest.raises(UserError, match="unknown split"):
        task.texts("tset", 2)
