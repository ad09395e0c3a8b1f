"""A run can be ended early, and given more or fewer updates."""

import keras
import numpy as np
import pytest
import tiny_texts
import toy_task
from tools import eagerly

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training import RunFolder, finish, train
from keras_quasiattn.lab.training.attention_summaries import read_attention
from keras_quasiattn.lab.training.checkpoints import CheckpointCallback, Checkpoints
from keras_quasiattn.lab.training.trainer import reopen

# Two updates in a pass, without a minimum.
SHORT = {
    **{"training__steps": 2, "training__checkpoint_every": 1, "training__warmup_steps": 0},
    **{"training__batch_size": 18, "training__patience": None, "model__units": 4},
}
OPTIONS = {"training__average_checkpoints": 2, "model__batch_normalization": False}


def made(folder, steps, **changed):
    return toy_task.make(folder, training__steps=steps, **{**OPTIONS, **changed})


def weights(run):
    return RunFolder.open(run).load_model().get_weights()


def assert_same(run, other):
    for left, right in zip(weights(run), weights(other), strict=True):
        np.testing.assert_array_equal(left, right)
    first, second = (RunFolder.open(one) for one in (run, other))
    assert first.metrics() == second.metrics()
    for left, right in zip(first.history(), second.history(), strict=True):
        assert {**left, "seconds": 0} == {**right, "seconds": 0}


@pytest.fixture(scope="module", autouse=True)
def eager_steps():
    """Run the few updates eagerly: other tests of training trace such models."""
    with eagerly():
        yield


@pytest.fixture
def stop_before(monkeypatch):
    """End a training with Control-C when an epoch begins."""
    begin = CheckpointCallback.on_epoch_begin

    def stop(task, run, epoch):
        def interrupted(self, number, logs=None):
            if number == epoch:
                raise KeyboardInterrupt
            begin(self, number, logs)

        with monkeypatch.context() as patched:
            patched.setattr(CheckpointCallback, "on_epoch_begin", interrupted)
            with pytest.raises(KeyboardInterrupt):
                train(task, run, progress=False)

    return stop


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a run of 14 updates without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    train(made(folder, 14), folder / "run", progress=False)
    return folder / "run"


def test_steps_need_not_be_a_multiple_of_checkpoint_every(whole):
    folder = RunFolder.open(whole)
    assert [row["step"] for row in folder.history()] == [4, 8, 12, 14]
    assert [row["step"] for row in read_attention(whole)] == [0, 4, 8, 12, 14]
    checkpoints = Checkpoints(folder.checkpoints, keep=2)
    assert checkpoints.steps() == [12, 14]
    assert 14 in [int(one) for one in checkpoints.read(14, "optimizer") if one.shape == ()]
    expected = [
        np.mean(pair, axis=0, dtype=np.float64)
        for pair in zip(*(checkpoints.read(step, "trainable") for step in (12, 14)), strict=True)
    ]
    for left, right in zip(folder.load_model().trainable_variables, expected, strict=True):
        np.testing.assert_allclose(left.numpy(), right, rtol=1e-6)


def test_a_stopped_run_could_not_be_used(stop_before, whole, tmp_path, capsys):
    run, task = tmp_path / "run", made(tmp_path, 14)
    stop_before(task, run, 2)
    folder = finish(run, tmp_path)
    assert capsys.readouterr().out == f"{run}: ended at update 8 of 14; the model is that of 8\n"
    checkpoints = Checkpoints(folder.checkpoints, keep=2)
    first, second = (checkpoints.read(step, "trainable") for step in (4, 8))
    for left, *pair in zip(folder.load_model().trainable_variables, first, second, strict=True):
        np.testing.assert_allclose(left.numpy(), np.mean(pair, axis=0), rtol=1e-6)
    figures = RunFolder.open(run).metrics()["validation"]
    assert figures.keys() == {"loss", "accuracy"}
    assert RunFolder.open(run).config["task_config"]["options"]["training.steps"] == 14
    finish(run, tmp_path)
    assert capsys.readouterr().out == f"{run} is finished already\n"
    # The train command continues, and ends as if `finish` had not been called in between.
    train(task, run, progress=False)
    assert_same(run, whole)


@pytest.mark.parametrize("first", [pytest.param(8, marks=pytest.mark.long), 10])
def test_a_finished_run_goes_on_to_more_steps(first, whole, tmp_path):
    run = tmp_path / "run"
    train(made(tmp_path, first), run, progress=False)
    train(made(tmp_path, 14), run, progress=False)
    assert_same(run, whole)
    assert Checkpoints(run / "checkpoints", keep=2).steps() == [12, 14]
    config = RunFolder.open(run).config
    assert config["earlier_steps"] == [{"steps": first, "until_step": first}]
    before = (run / "model.keras").stat().st_mtime_ns
    train(made(tmp_path, 14), run, progress=False)
    assert (run / "model.keras").stat().st_mtime_ns == before


@pytest.mark.long
def test_a_run_that_is_extended_but_stopped_again_keeps_its_last_model(stop_before, tmp_path):
    run = tmp_path / "run"
    train(made(tmp_path, 10), run, progress=False)
    before = weights(run)
    stop_before(made(tmp_path, 14), run, 2)
    with pytest.raises(UserError, match=f"update 10 of 14.*: quasiattn finish {run}"):
        RunFolder.open(run, finished=True)
    finish(run, tmp_path, progress=False)
    for left, right in zip(weights(run), before, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.long
def test_fewer_steps_end_a_run_but_not_before_where_it_is(stop_before, tmp_path):
    run = tmp_path / "run"
    stop_before(made(tmp_path, 24), run, 2)
    message = f"training.steps is 6, but {run} has trained 8: it must be at least that"
    with pytest.raises(UserError, match=message):
        train(made(tmp_path, 6, training__average_checkpoints=2), run, progress=False)
    train(made(tmp_path, 8), run, progress=False)
    folder = RunFolder.open(run, finished=True)
    assert [row["step"] for row in folder.history()] == [4, 8]


def test_a_run_killed_before_a_checkpoint_was_written_had_not_trained_its_updates(tmp_path):
    options = {"policy": "float32"}
    folder = RunFolder.create(tmp_path / "run", made(tmp_path, 24), options=options)
    folder.write_history([{"step": 4}, {"step": 8}])
    folder.checkpoints.mkdir()
    (folder.checkpoints / "step-00000004.npz").touch()
    with pytest.raises(UserError, match="training.steps is 2, but .* has trained 4: "):
        reopen(folder, made(tmp_path, 2, training__average_checkpoints=1))
    reopen(folder, made(tmp_path, 6))
    assert folder.config["earlier_steps"] == [{"steps": 24, "until_step": 4}]


def test_a_finished_run_without_its_data_keeps_its_model(tmp_path, monkeypatch):
    run = tmp_path / "run"
    train(made(tmp_path, 8), run, progress=False)

    def fail(self):
        raise UserError("no data")

    monkeypatch.setattr(toy_task.ToyTask, "prepare", fail)
    with pytest.raises(UserError, match="no data"):
        train(made(tmp_path, 14), run, progress=False)
    assert RunFolder.open(run, finished=True).metrics()


def test_a_run_without_a_checkpoint_cannot_be_finished(stop_before, tmp_path):
    stop_before(made(tmp_path, 14), tmp_path / "run", 0)
    with pytest.raises(UserError, match="has no checkpoint yet"):
        finish(tmp_path / "run", tmp_path)


def test_a_run_of_before_an_option_existed_goes_on(tmp_path):
    run = tmp_path / "run"
    train(made(tmp_path, 8), run, progress=False)
    folder = RunFolder.open(run)
    options = dict(folder.config["task_config"]["options"])
    del options["model.width"]
    task_config = {**folder.config["task_config"], "options": options}
    folder.write_config({**folder.config, "task_config": task_config})
    folder.require_same(made(tmp_path, 8), folder.config["options"])
    with pytest.raises(UserError, match="model.width 8, not 4"):
        folder.require_same(made(tmp_path, 8, model__width=4), folder.config["options"])


def test_a_failed_start_left_an_empty_folder(tmp_path, monkeypatch):
    def fail(self):
        raise failure

    monkeypatch.setattr(toy_task.ToyTask, "prepare", fail)
    for failure in (UserError("no data"), KeyboardInterrupt()):
        with pytest.raises(type(failure)):
            train(made(tmp_path, 8), tmp_path / "runs" / "new", progress=False)
        assert not list(tmp_path.iterdir())
    (tmp_path / "there").mkdir()
    with pytest.raises(KeyboardInterrupt):
        train(made(tmp_path, 8), tmp_path / "there", progress=False)
    assert [entry.name for entry in tmp_path.iterdir()] == ["there"]


def test_fewer_passes_than_trained_made_a_model_of_more(tmp_path):
    def task(passes):
        return tiny_texts.make(tmp_path, "words_soft", **SHORT, training__passes=passes)

    tiny_texts.files(tmp_path, train=40)
    run = train(task(4), tmp_path / "run", progress=False)
    model, reached = run.model_file.read_bytes(), run.history()[-1]["step"]
    with pytest.raises(UserError, match=f"passes is 1, .* updates, but .* has trained {reached}"):
        train(task(1), run.path, progress=False)
    again = RunFolder.open(run.path, finished=True)
    assert again.length["training.passes"] == 4 and again.model_file.read_bytes() == model


def test_a_run_of_passes_began_again_when_it_got_a_number_of_updates(tmp_path):
    """Its checkpoints, half a pass apart, were none of those of the new settings."""
    options = {**SHORT, "training__batch_size": 4, "training__checkpoint_every": 3}
    tiny_texts.files(tmp_path, train=40)
    task = tiny_texts.make(tmp_path, "bilstm_none", **options, training__passes=1)
    with eagerly(False):  # an LSTM is slower without a graph
        run = train(task, tmp_path / "run", progress=False)
    steps = [row["step"] for row in run.history()]
    assert steps[0] > 3 and not any(step % 3 == 0 for step in steps)
    changed = tiny_texts.make(tmp_path, "bilstm_none", **{**options, "training__steps": 30})
    with pytest.raises(UserError, match="steps is 30 with a checkpoint every 3, .*passes instead"):
        train(changed, run.path, progress=False)
    assert [row["step"] for row in RunFolder.open(run.path, finished=True).history()] == steps


class Given(keras.callbacks.Callback):
    """Replace the validation accuracies."""

    def __init__(self, accuracies):
        super().__init__()
        self.accuracies = accuracies

    def on_epoch_end(self, epoch, logs=None):
        logs["val_accuracy"] = self.accuracies[epoch]


def test_a_longer_run_had_lost_its_best_checkpoint(tmp_path):
    """The last one, best so far, lies between two of the longer run, which begins before it."""
    best = {"training__average_checkpoints": 1, "training__select": "accuracy"}
    for steps, last in ((14, (0.95,)), (20, (0.5, 0.4))):
        task = made(tmp_path, steps, **best)
        callbacks = [Given((0.9, 0.8, 0.7, *last))]
        folder = train(task, tmp_path / "run", progress=False, callbacks=callbacks)
    expected = Checkpoints(folder.checkpoints, keep=2).read(4, "trainable")
    for left, right in zip(folder.load_model().trainable_variables, expected, strict=True):
        np.testing.assert_array_equal(left.numpy(), right)
