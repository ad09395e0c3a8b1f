import dataclasses
import json

import keras
import pytest
import tensorflow
import tiny
from tiny import built

from keras_quasiattn.core.recording import recording
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks import Preset, Task, TrainingSettings
from keras_quasiattn.lab.tasks.batches import as_bytes
from keras_quasiattn.lab.tasks.catalogue import OPTIONS, chosen_options

TRAINING = TrainingSettings(
    steps=8, batch_size=4, learning_rate=1e-3, warmup_steps=2, checkpoint_every=2, clip_norm=1.0
)


class Sums(Task):
    name = "sums"
    summary = "numbers to their sum"
    example = "1+1"
    models = ("coda", "softmax")
    presets = {
        "demo": Preset(
            "for tests",
            {"operators": ("+", "-")},
            {"width": 8, "rate": 0.1, "causal": True},
            TRAINING,
        ),
        "paper": Preset(
            "not for tests",
            {"operators": ("*",)},
            {"width": 99, "rate": 0.1, "causal": True},
            TRAINING,
        ),
    }


Sums.__abstractmethods__ = frozenset()  # only the interface is tested here


def make(preset="demo", model="coda", seed=1, **overrides):
    changed = tiny.dotted(overrides)
    return Sums(preset=preset, model=model, seed=seed, data_dir="data", overrides=changed)


def test_config_survives_json(tmp_path):
    task = make(seed=3, model__width=64, data__operators=("*", "-"), training__clip_norm=None)
    config = json.loads(json.dumps(task.config()))
    again = Sums.from_config(config, tmp_path)
    assert again.config() == task.config()
    assert again.options == task.options
    assert again.options.data["operators"] == ("*", "-")
    assert (again.preset, again.model, again.seed, again.data_dir) == ("demo", "coda", 3, tmp_path)


def test_run_keeps_its_values_when_the_preset_changes(monkeypatch):
    config = make().config()
    monkeypatch.setitem(Sums.presets, "demo", Sums.presets["paper"])
    assert Sums.from_config(config, "data").options.model["width"] == 8


def test_passes_grow_with_the_data_and_end_where_steps_are_given():
    """With few rows the preset's steps stay; with many, checkpoints are half a pass apart."""
    many = make(training__passes=3).options.training
    assert (many.over(2).steps, many.over(2).checkpoint_every) == (8, 2)
    assert (many.over(11).steps, many.over(11).checkpoint_every) == (36, 6)
    assert many.over(11).passes is None and many.over(11).over(99) == many.over(11)
    with pytest.raises(UserError, match="training.passes is 3: task sums does not count passes"):
        _ = make(training__passes=3).training_settings
    passing = dataclasses.replace(Sums.presets["demo"], training=many)
    assert passing.with_overrides({}).training.passes == 3
    assert passing.with_overrides({"training.steps": 4}).training.passes is None
    assert passing.with_overrides({"training.steps": 4, "training.passes": 2}).training.passes == 2


def test_vectors_change_what_the_preset_says_and_the_user_decides():
    preset = dataclasses.replace(
        Sums.presets["demo"],
        data={"vectors": ""},
        with_vectors={"coda": {"model.causal": False}, "softmax": {"model.width": 1}},
    ).for_model("coda")
    assert preset.with_overrides({"data.vectors": ""}).model["causal"]
    assert not preset.with_overrides({"data.vectors": "file"}).model["causal"]
    own = {"data.vectors": "file", "model.causal": "true"}
    assert preset.with_overrides(own).model == Sums.presets["demo"].model
    assert preset.with_overrides({"data.vectors": "file"}).model["width"] == 8


def test_none_is_a_word_among_the_options_of_an_attention():
    """CoDA's `scaling` is "none" or another word; it was read as None, and refused."""
    preset = dataclasses.replace(Sums.presets["demo"], model={"attention_options": {"window": 8}})
    changed = preset.with_overrides(
        {"model.attention_options.scaling": "none", "model.attention_options.window": "null"}
    )
    assert changed.model["attention_options"] == {"scaling": "none", "window": None}


def test_overrides_leave_the_preset_alone():
    assert make(model__width=64).options.model == {"width": 64, "rate": 0.1, "causal": True}
    assert Sums.presets["demo"].model["width"] == 8


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("model.width", "64", 64),
        ("model.rate", "1", 1.0),
        ("model.rate", "2e-1", 0.2),
        ("model.causal", "false", False),
        ("data.operators", "['*', '+']", ("*", "+")),
        ("training.clip_norm", "none", None),
        ("training.clip_norm", "2", 2.0),
        ("training.schedule", "cosine", "cosine"),
        ("training.jit_compile", "True", True),
    ],
)
def test_text_of_the_command_line_is_read_as_the_type_of_the_option(option, text, value):
    task = Sums(preset="demo", model="coda", seed=1, data_dir="data", overrides={option: text})
    got = task.options.options()[option]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("model.width", "wide", "model.width is 'wide': it must be of type int"),
        ("model.width", 1.5, "model.width is 1.5: it must be of type int"),
        ("model.causal", 1, "model.causal is 1: it must be of type bool"),
        ("model.width", True, "model.width is True: it must be of type int"),
        ("data.operators", "+", r"data.operators is '\+': it must be of type tuple"),
        ("training.clip_norm", "x", "training.clip_norm is 'x': it must be of type float or none"),
        (
            "training.schedule",
            "cosin",
            r"unknown training.schedule 'cosin' \(did you mean 'cosine'\?\): choose",
        ),
        (
            "model.with",
            3,
            r"unknown option 'model.with' \(did you mean 'model.width'\?\): choose from data.oper",
        ),
        ("width", 3, "unknown option 'width'"),
    ],
)
def test_wrong_overrides_are_named(option, value, message):
    with pytest.raises(UserError, match=message):
        Sums(preset="demo", model="coda", seed=1, data_dir="data", overrides={option: value})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"preset": "dem"},
            r"unknown preset of task sums 'dem' \(did you mean 'demo'\?\): choose from demo, paper",
        ),
        ({"model": "lstm"}, "unknown model of task sums 'lstm': choose from coda, softmax"),
        ({"seed": -1}, r"seed is -1: it must be at least 0 and below 2\*\*32"),
        ({"seed": 2**32}, "seed is 4294967296"),
    ],
)
def test_unknown_names_are_listed(arguments, message):
    with pytest.raises(UserError, match=message):
        make(**arguments)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"steps": 0}, "training.steps is 0: it must be at least 1"),
        ({"batch_size": -4}, "training.batch_size is -4"),
        ({"checkpoint_every": 0}, "training.checkpoint_every is 0"),
        (
            {"average_checkpoints": 5},
            "training.average_checkpoints is 5: it must be at most 4, the number of checkpoints",
        ),
        ({"learning_rate": 0.0}, "training.learning_rate is 0.0: it must be a number above 0"),
        ({"learning_rate": float("nan")}, "training.learning_rate is nan"),
        ({"warmup_steps": -1}, "training.warmup_steps is -1: it must be 0 or more"),
        # No weight would change.
        ({"accumulate": 9}, "training.accumulate is 9: it must be at most 8, the number of"),
        (
            {"warmup_steps": 8, "schedule": "linear"},
            r"training.warmup_steps is 8: it must be below training.steps",
        ),
        (
            {"label_smoothing": 1.0},
            "training.label_smoothing is 1.0: it must be at least 0 and below 1",
        ),
        ({"clip_norm": 0.0}, "training.clip_norm is 0.0: it must be none or a number above 0"),
        # Keras' factor of the gradients would be ∞/∞.
        ({"clip_norm": float("inf")}, "training.clip_norm is inf: it must be none or a number"),
    ],
)
def test_settings_out_of_range_are_named(overrides, message):
    with pytest.raises(UserError, match=message):
        make(**{f"training__{name}": value for name, value in overrides.items()})


@pytest.mark.parametrize("name", tasks.available())
def test_presets_suit_every_model_and_compile_no_dropout(name):
    """XLA on CPUs recomputes dropout's random bits for every use: MLU took 17 times as long."""
    task = tasks.get(name)
    assert task.name == name
    for preset in task.presets.values():
        for model in task.models:
            chosen = preset.for_model(model)
            assert chosen.training.steps % chosen.training.checkpoint_every == 0
            options = chosen.options()
            rates = [value for option, value in options.items() if option.endswith("dropout")]
            assert not (options["training.jit_compile"] and any(rates)), model
            assert not [option for option in options if option.startswith("model.coda_")]
            if "coda" in model:
                assert options["model.attention"] == "coda", model
            if "data.stride" in options:  # or an answer may fit in no window
                most = options["data.max_length"] - options["data.answer_length"] + 1
                assert options["data.stride"] <= most


def test_a_task_is_imported_by_its_name_and_the_registry_names_what_it_has(monkeypatch):
    monkeypatch.setitem(tasks._TASKS, "sums", f"{__name__}:Sums")
    assert tasks.get("sums") is Sums
    assert "sums" in tasks.available()
    with pytest.raises(
        UserError, match=r"unknown task 'sum' \(did you mean 'sums'\?\): choose from .*sums"
    ):
        tasks.get("sum")


@pytest.mark.parametrize("name", tasks.available())
def test_a_model_that_cannot_start_with_word_vectors_lists_none_and_says_one_thing(name, run_cli):
    # The error blamed the tokenizer for a Transformer, and the model for another tokenizer.
    task = tasks.describe(name)
    preset = task.own_data[0] if task.own_data else next(iter(task.presets))
    said = set()
    for model in task.models:
        _, listed, _ = run_cli("tasks", name, "--preset", preset, "--model", model)
        able = task.presets[preset].for_model(model).takes_vectors
        assert ("data.vectors=" in listed) == able, model
        for more in ({}, {"data.tokenizer": "words"}, {"data.tokenizer": "subwords"}):
            options = {"data.vectors": "x.txt", **(more if "data.tokenizer" in listed else {})}
            chosen = {"preset": preset, "model": model, "seed": 0, "overrides": options}
            if able:
                assert chosen_options(name, task, **chosen).data["vectors"] == "x.txt"
                continue
            with pytest.raises(UserError) as caught:
                chosen_options(name, task, **chosen)
            said.add(str(caught.value).replace(repr(model), "MODEL"))
    assert len(said) <= 1
    assert all("MODEL of task" in one and "cannot start with word vectors" in one for one in said)


@pytest.mark.parametrize("name", ["classify", "pairs", "rank", "read"])
def test_fewer_rows_than_a_batch_were_an_error_and_are_one_batch(name, tmp_path):
    import tiny_pairs
    import tiny_reading
    import tiny_texts

    if name == "classify":
        tiny_texts.write(tmp_path / "train.tsv", tiny_texts.rows(3))
        tiny_texts.write(tmp_path / "test.tsv", tiny_texts.rows(12))
        validated = {"data__validation": str(tmp_path / "test.tsv")}
        task = tiny_texts.make(tmp_path, training__batch_size=32, **validated)
    elif name == "read":
        tiny_reading.files(tmp_path)
        lines = (tmp_path / "train.jsonl").read_text().splitlines()[:3]
        (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n")
        task = tiny_reading.make(tmp_path, "attention_flow", training__batch_size=32)
    else:
        tiny_pairs.files(tmp_path, name)
        header, *rows = (tmp_path / "train.tsv").read_text().splitlines()
        rows.sort(key=lambda row: row.endswith("\t0"))  # a question counts if an answer is right
        (tmp_path / "train.tsv").write_text("\n".join([header, *rows[:3]]) + "\n")
        task = tiny_pairs.make(tmp_path, name, "decomposable", training__batch_size=32)
    task.prepare()
    assert task.batches_per_pass() == 1
    (_, target, *_) = next(iter(task.training_data(0)))
    assert len(tensorflow.nest.flatten(target)[0]) == 3
    assert task.remarks()[-1] == (
        "training.batch_size is 32, and there are 3 training examples: every batch has them all"
    )


def test_no_sentence_about_an_option_ends_in_a_name_of_the_code():
    """`training.passes` ended in "see over", which says nothing on the command line."""
    assert not [name for name, said in OPTIONS.items() if "see " in said.lower()]


def test_a_graph_is_made_again_only_for_another_model_or_other_variables():
    task, made = make(), []
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])

    def graph(of):
        made.append(of)
        return len(made)

    assert [task._once(graph, model), task._once(graph, model)] == [1, 1]
    model.layers[0].enable_lora(1)
    assert [task._once(graph, model), task._once(graph, model)] == [2, 2]
    assert task._once(graph, keras.models.clone_model(model)) == 3
    with recording():
        assert [task._once(graph, model), task._once(graph, model)] == [4, 5]
    assert task._once(graph, model) == 6


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name == "pairs" else pytest.mark.complete)
        for name in tasks.available()
    ],
)
def test_the_second_prediction_traces_nothing(name, tiny_task, monkeypatch):
    # Every `predict` used to trace the graph again, which took longer than its answer.
    task, model = built(tiny_task(name))
    first = task.predict(model, [task.example])
    monkeypatch.setattr(keras.layers.Layer, "__call__", None)
    assert task.predict(model, [task.example]) == first


def test_a_surrogate_that_is_no_byte_was_an_error_of_python():
    assert as_bytes(["a\udcff"]).tolist() == [b"a\xff"]
    with pytest.raises(UserError, match=r"unpaired surrogate, in 'x{20}\\ud800b': expected valid"):
        as_bytes(["a", "x" * 50 + "\ud800b"])
