"""With `attention_start=blend`, a run moves an encoder from softmax to another attention."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tiny_encoder
import tiny_mlu
import warm
from tiny import built
from tools import eagerly

from keras_quasiattn.attention.start import Start
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.comparison.experiments import read_records
from keras_quasiattn.lab.training import RunFolder, finish, train
from keras_quasiattn.models.blend_attention import blends

# s is 1/2 and 1 at the end of the first two of four periods.
SETTINGS = {
    "model__attention": "coda",
    "model__attention_start": "blend",
    "model__dropout": 0.1,
    "training__steps": 8,
    "training__checkpoint_every": 2,
    "training__patience": None,
    "training__select": "loss",
}
SHARES = [0.5, 1.0, 1.0, 1.0]


def made(place, data, **changed):
    return tiny_encoder.make(data, "classify", place, **{**SETTINGS, **changed})


@pytest.fixture(scope="module", autouse=True)
def eager_steps():
    """Run the few updates eagerly: tracing two attentions in every layer takes much longer.

    tests/models/test_swap_start.py and the replicas below cover blends in graphs.
    """
    with eagerly():
        yield


@pytest.fixture(scope="module")
def blended(encoder_folder, few_texts, tmp_path_factory):
    task = made(encoder_folder, few_texts)
    return train(task, tmp_path_factory.mktemp("blended") / "run", progress=False), task


def test_the_saved_model_has_no_softmax_and_is_what_was_measured(blended):
    folder, task = blended
    assert [row["blend"] for row in folder.history()] == SHARES
    model = folder.load_model()
    kinds = {type(layer).__name__ for layer in model._flatten_layers()}
    assert "MultiHeadCoDA" in kinds
    assert not kinds & {"Start", "MultiHeadAttention", "MultiHeadSoftmax"}
    model.compile(loss=task.loss(), weighted_metrics=task.metrics())
    again = model.evaluate(task.validation_data(), return_dict=True, verbose=0)
    noted = folder.metrics()["validation"]
    assert {name: noted[name] for name in again} == pytest.approx(again, abs=1e-6)
    # It is the best of the checkpoints after the blend.
    assert noted["loss"] == pytest.approx(
        min(row["val_loss"] for row in folder.history() if row["blend"] == 1), abs=1e-6
    )


def test_a_run_interrupted_within_and_after_the_blend_ends_as_an_uninterrupted_one(
    blended, encoder_folder, few_texts, tmp_path
):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if self.model.optimizer.iterations.numpy() == stop:
                raise KeyboardInterrupt

    def trained():
        task = made(encoder_folder, few_texts)
        return train(task, tmp_path / "run", progress=False, callbacks=[Stop()])

    stop = 3
    with pytest.raises(KeyboardInterrupt):
        trained()
    assert [row["blend"] for row in RunFolder.open(tmp_path / "run").history()] == SHARES[:1]
    message = r"no checkpoint yet to make a model from: .* moving \(blend 0.5\)"
    with pytest.raises(UserError, match=message):
        finish(tmp_path / "run", few_texts, progress=False)
    stop = 7
    with pytest.raises(KeyboardInterrupt):
        trained()
    folder = finish(tmp_path / "run", few_texts, progress=False)
    assert not any(isinstance(one, Start) for one in folder.load_model()._flatten_layers())
    best = min(row["val_loss"] for row in folder.history() if row["blend"] == 1)
    assert folder.metrics()["validation"]["loss"] == pytest.approx(best, abs=1e-6)
    stop = None
    resumed = trained()
    for one, other in zip(
        blended[0].load_model().weights, resumed.load_model().weights, strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert [row["blend"] for row in resumed.history()] == SHARES


def test_a_checkpoint_of_the_time_of_the_blend_is_never_the_model(
    encoder_folder, few_texts, tmp_path
):
    """Every checkpoint from the end of the blend on is made worse than the earlier ones."""

    class Worse(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch >= 1:
                kernel = self.model.get_layer("logits").kernel
                kernel.assign(
                    kernel + 10.0 * np.sin(np.arange(np.prod(kernel.shape))).reshape(kernel.shape)
                )

    task = made(encoder_folder, few_texts, training__patience=1)
    folder = train(task, tmp_path / "run", progress=False, callbacks=[Worse()])
    rows = folder.history()
    # Patience counts from the first checkpoint that may be the model, so training goes on.
    assert [row["blend"] for row in rows] == SHARES[: len(rows)] and len(rows) > 2
    best = min((row for row in rows if row["blend"] == 1), key=lambda row: row["val_loss"])
    assert best["val_loss"] > rows[0]["val_loss"]
    assert folder.metrics()["validation"]["loss"] == pytest.approx(best["val_loss"], rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    "changed", [{"model__lora_rank": 2, "training__accumulate": 2}, {"model__frozen_layers": 2}]
)
def test_a_blend_with_what_limits_training(changed, encoder_folder, few_texts, tmp_path):
    task = made(encoder_folder, few_texts, training__steps=4, **changed)
    folder = train(task, tmp_path / "run", progress=False)
    kinds = {type(layer).__name__ for layer in folder.load_model()._flatten_layers()}
    assert "MultiHeadCoDA" in kinds and "Start" not in kinds


@pytest.mark.parametrize(
    "changed", [{"model__attention": "softmax"}, {"model__attention_start": "unchanged"}]
)
def test_softmax_and_another_start_have_nothing_to_move(changed, encoder_folder, few_texts):
    task, model = built(made(encoder_folder, few_texts, **changed))
    assert blends(model) == [] == task.callbacks(model)
    assert task.finished(model) is model


@pytest.mark.long
@pytest.mark.usefixtures("in_this_process")
def test_attentions_that_blend_in_are_compared(encoder_folder, few_texts, tmp_path, run_cli):
    """With `quasiattn compare` on a user's own file."""
    settings = {
        **tiny_encoder.SETTINGS,
        "training.steps": 4,
        "training.checkpoint_every": 1,
        "model.attention_start": "blend",
    }
    code, out, error = run_cli(
        *("compare", "classify", "--encoder", str(encoder_folder), *tiny_mlu.arguments(settings)),
        *("--data", str(few_texts / "train.tsv"), "--to", str(tmp_path / "compared"), "--quiet"),
        *("--attention", "coda", "--seeds", "1", "--rates", "0.003"),
    )
    assert code == 0, error
    assert "coda" in out
    softmax, moved = read_records(tmp_path / "compared" / "comparison.jsonl")
    # What was measured while the blend moved ranks nothing.
    for one, name, steps in ((softmax, "softmax", [1, 2, 3, 4]), (moved, "coda", [2, 3, 4])):
        assert one["options"]["model.attention"] == name
        assert [period["step"] for period in one["validation"]] == steps
    rows = RunFolder.open(tmp_path / "compared" / "best").history()
    assert [row.get("blend", 1.0) for row in rows] in ([0.5, 1, 1, 1], [1.0] * 4)


MIRRORED = """
import json, sys
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
from pathlib import Path
import numpy as np
from keras_quasiattn.lab.training import train
from test_encoder_blend import made
place, data, folder = map(Path, sys.argv[1:])
runs = {}
for name in ("one", "mirrored"):
    tf.config.run_functions_eagerly(name == "one")  # the graph of one device is traced elsewhere
    task = made(place, data, model__dropout=0.0, training__steps=4)
    runs[name] = train(task, folder / name, strategy=name, progress=False)
one, mirrored = (run.load_model() for run in runs.values())
pairs = zip(one.weights, mirrored.weights, strict=True)
print(json.dumps({
    "blend": [row["blend"] for row in runs["mirrored"].history()],
    "replicas": runs["mirrored"].config["options"]["replicas"],
    "kinds": sorted({type(layer).__name__ for layer in mirrored._flatten_layers()}),
    "difference": max(float(np.abs(a.numpy() - b.numpy()).max()) for a, b in pairs),
}))
"""


@pytest.mark.long
def test_two_replicas_blend_as_one_device_does(few_texts, tmp_path):
    pytest.importorskip("keras_hub", reason="needs the extra pretrained")
    place = tiny_encoder.write(tmp_path / "place", num_layers=1)
    words = ["-c", MIRRORED, place, few_texts, tmp_path]
    printed = warm.printed(words, paths=[Path(__file__).parents[1], Path(__file__).parent])
    told = json.loads(printed.splitlines()[-1])
    assert told["replicas"] == 2 and told["blend"] == [1.0, 1.0]
    assert "MultiHeadCoDA" in told["kinds"] and "Start" not in told["kinds"]
    assert told["difference"] < 1e-4
