"""Training with the caller's optimizer and callbacks, recorded in the run folder."""

import keras
import numpy as np
import pytest
import toy_task
from tools import eagerly

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import TrainingSettings
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.lab.training.attention_summaries import read_attention
from keras_quasiattn.lab.training.checkpoints import Checkpoints
from keras_quasiattn.lab.training.optimizers import made_optimizer

SHORT = {"training__steps": 12, "training__average_checkpoints": 1}


class Seen(keras.callbacks.Callback):
    """Record the ends of epochs; stop or kill training after some of them."""

    def __init__(self, stop=99, kill=99):
        super().__init__()
        self.stop, self.kill, self.epochs = stop, kill, []

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.kill:
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(epoch)
        self.model.stop_training = epoch + 1 >= self.stop


def momentum(schedule):
    return keras.optimizers.SGD(schedule, momentum=0.9)


def traced_run(folder, *callbacks, optimizer=momentum, **options):
    task = toy_task.make(folder.parent / "data", model="dense", **{**SHORT, **options})
    return train(task, folder, progress=False, optimizer=optimizer, callbacks=callbacks)


def run(folder, *callbacks, **options):
    with eagerly():
        return traced_run(folder, *callbacks, **options)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return run(tmp_path_factory.mktemp("undisturbed") / "run", Seen()).path


def test_the_run_folder_records_both(undisturbed):
    options = RunFolder.open(undisturbed).config["options"]
    assert options["callbacks"] == ["Seen"] and options["optimizer"] == "SGD"
    assert options["optimizer.momentum"] == 0.9
    assert options["optimizer.learning_rate"]["config"]["peak"] == 0.01
    rows = RunFolder.open(undisturbed).history()
    assert rows[0]["learning_rate"] == pytest.approx(0.01 * (4 / 5) ** 0.5)


def test_a_killed_run_ends_with_the_same_weights(undisturbed, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", Seen(kill=2))
    seen = Seen()
    folder = run(tmp_path / "run", seen)
    assert seen.epochs == [2]
    pairs = (one.load_model().get_weights() for one in (folder, RunFolder.open(undisturbed)))
    for left, right in zip(*pairs, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("callbacks", "optimizer", "named"),
    [
        ([Seen()], keras.optimizers.SGD, r"optimizer\.momentum 0\.9, not 0\.0"),
        ([Seen()], None, r"optimizer 'SGD', not None"),
        ([Seen()], keras.optimizers.Lion, r"optimizer 'SGD', not 'Lion'"),
        ([], momentum, r"callbacks \['Seen'\], not None"),
    ],
)
def test_another_optimizer_or_callback_in_the_same_folder_is_refused(
    undisturbed, callbacks, optimizer, named
):
    with pytest.raises(UserError, match=f"was started with .*{named}.*: use the same") as caught:
        run(undisturbed, *callbacks, optimizer=optimizer)
    assert "\n" not in str(caught.value)


def test_a_callback_may_stop_and_an_optimizer_have_its_own_rate(tmp_path):
    optimizer, seen = keras.optimizers.Adam(0.003), Seen(stop=2)
    folder = traced_run(tmp_path / "run", seen, optimizer=optimizer)
    assert seen.epochs == [0, 1] and folder.finished and optimizer.iterations == 0
    assert [row["learning_rate"] for row in folder.history()] == [pytest.approx(0.003)] * 2


class StopWithin(keras.callbacks.Callback):
    """Stop training after six updates, in the middle of an epoch."""

    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = int(self.model.optimizer.iterations) == 6


@pytest.mark.usefixtures("eagerly")
def test_a_run_stopped_within_an_epoch_was_said_to_have_trained_all_of_it(tmp_path, capsys):
    task = toy_task.make(tmp_path, **SHORT)
    folder = train(task, tmp_path / "run", callbacks=[StopWithin()])
    assert [row["step"] for row in folder.history()] == [4, 6]
    assert [row["step"] for row in read_attention(folder.path)] == [0, 4, 6]
    assert Checkpoints(folder.checkpoints, keep=2).steps() == [4, 6]
    said = capsys.readouterr().out
    assert "\nupdate 6 of 12: " in said and "callback: update 6 of 12" in said


def test_a_run_with_an_optimizer_could_not_get_more_updates(tmp_path):
    for steps in (4, 8):
        folder = run(tmp_path / "run", training__steps=steps)
    assert [row["step"] for row in folder.history()] == [4, 8]
    # Records from before had the number of updates twice.
    rate = folder.config["options"]["optimizer.learning_rate"]
    old = {**rate, "config": {**rate["config"], "steps": 8}}
    options = {**folder.config["options"], "optimizer.learning_rate": old}
    folder.write_config({**folder.config, "options": options})
    run(folder.path, training__steps=8)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"optimizer": "adam"},
            "optimizer must be a Keras optimizer, or a function .*: got 'adam'",
        ),
        ({"optimizer": lambda schedule: schedule}, "optimizer must be a Keras optimizer, or a fun"),
        (
            {"optimizer": keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())},
            "optimizer is a LossScaleOptimizer: give the optimizer inside it",
        ),
        (
            {"optimizer": keras.optimizers.SGD(use_ema=True)},
            "optimizer has use_ema=True, but a run keeps the weights of its checkpoints",
        ),
        (
            {"optimizer": momentum, "training__clip_norm": 1.0},
            "training.clip_norm is 1.0, but the given optimizer has global_clipnorm=None: set "
            "both to the same",
        ),
        (
            {"optimizer": momentum, "training__accumulate": 2},
            "training.accumulate is 2, but the given optimizer has "
            "gradient_accumulation_steps=None: set both to the same",
        ),
    ],
)
def test_what_is_no_optimizer_is_refused_before_a_run_begins(options, said, tmp_path):
    with pytest.raises(UserError, match=said):
        run(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_what_is_no_callback_is_refused(tmp_path):
    with pytest.raises(UserError, match="callbacks must hold Keras callbacks: got <class 'keras"):
        run(tmp_path / "run", keras.callbacks.EarlyStopping)


def _settings(**changed):
    usual = {"steps": 8, "batch_size": 4, "learning_rate": 0.1, "warmup_steps": 0}
    return TrainingSettings(**{**usual, "checkpoint_every": 8, "schedule": "constant", **changed})


def _stepped(settings, gradients, factor=1):
    """Return the values of two weights, from 0, after updates with these gradients.

    `factor` changes the first one's rate.
    """
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, "linear", name="dense")])
    weights = model.trainable_variables
    for weight in weights:
        weight.assign(0.0 * weight)
    factors = {} if factor == 1 else {weights[0].path: factor}
    optimizer = made_optimizer(settings, None, 1, factors)
    optimizer.build(weights)
    for gradient in gradients:
        optimizer.apply([0.0 * weight + gradient for weight in weights], weights)
    return [float(np.squeeze(weight)) for weight in weights]


def test_accumulated_batches_change_the_weights_once_by_their_mean():
    alone = _stepped(_settings(), [2.0])
    assert _stepped(_settings(accumulate=2), [1.0]) == [0.0, 0.0]
    assert _stepped(_settings(accumulate=2), [1.0, 3.0]) == pytest.approx(alone)
    assert alone[0] < 0


def test_a_weight_may_have_a_rate_of_its_own():
    (usual, _), (own, bias) = (_stepped(_settings(), [1.0, 1.0], factor) for factor in (1, 0.5))
    assert own == pytest.approx(usual / 2) and bias == pytest.approx(usual)


def test_rates_of_weights_need_the_usual_optimizer():
    with pytest.raises(UserError, match=r"one learning rate for all weights: give none, or let mo"):
        made_optimizer(_settings(), keras.optimizers.SGD(), 1, {"dense/kernel": 0.5})
