"""A run that is killed repeatedly ends like an uninterrupted one."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import toy_task
import warm

from keras_quasiattn.lab.training import RunFolder, train

pytestmark = pytest.mark.long  # test_optimizers.py and test_finishing.py resume without a kill
SCRIPT = Path(__file__).with_name("train_toy.py")


def start(folder, moment):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SCRIPT.parent), str(SCRIPT.parents[2])]),
    }
    return warm.run([sys.executable, SCRIPT, folder, moment], text=True, env=environment)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Run in this process, whose string hashes differ from those of the killed ones."""
    folder = tmp_path_factory.mktemp("undisturbed")
    train(toy_task.make(folder / "data"), folder / "run", progress=False)
    return folder / "run"


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Return a run killed before a checkpoint, halfway through one, and before the final model."""
    folder = tmp_path_factory.mktemp("killed")
    moments = [("step:6", 4), ("half:step-00000012.npz", 8), ("whole:model.keras", 24)]
    for moment, last in moments:
        ended = start(folder, moment)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        files = sorted((folder / "run" / "checkpoints").glob("step-*.npz"))
        assert files[-1].name == f"step-{last:08d}.npz"
        assert not (folder / "run" / "model.keras").exists()
    ended = start(folder, "none")
    assert ended.returncode == 0, ended.stderr
    assert "continuing from update 24 of 24" in ended.stdout
    return folder / "run"


def test_final_weights_are_the_same_bit_for_bit(undisturbed, killed):
    expected, got = (
        RunFolder.open(run).load_model().get_weights() for run in (undisturbed, killed)
    )
    assert len(expected) > 10
    for left, right in zip(expected, got, strict=True):
        np.testing.assert_array_equal(left, right)


def test_whole_state_of_the_last_checkpoint_is_the_same(undisturbed, killed):
    with (
        np.load(undisturbed / "checkpoints/step-00000024.npz") as expected,
        np.load(killed / "checkpoints/step-00000024.npz") as got,
    ):
        assert expected.files == got.files
        for name in expected.files:
            np.testing.assert_array_equal(expected[name], got[name], err_msg=name)


def test_history_has_every_row_once(undisturbed, killed):
    expected, got = (RunFolder.open(run).history() for run in (undisturbed, killed))
    assert [row.pop("seconds") > 0 for row in expected + got] == [True] * 12
    assert [row["step"] for row in expected] == [4, 8, 12, 16, 20, 24]
    assert {"loss", "accuracy", "val_loss", "val_accuracy", "learning_rate"} < expected[0].keys()
    assert got == expected


def test_figures_are_the_same_and_nothing_half_written_stays(undisturbed, killed):
    assert RunFolder.open(killed).metrics() == RunFolder.open(undisturbed).metrics()
    assert not list(killed.rglob(".tmp-*"))


def test_curves_have_every_step_once(killed):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for run, name in (("training", "loss"), ("validation", "accuracy")):
        (file,) = (killed / "tensorboard" / run).iterdir()
        events = EventAccumulator(str(file), size_guidance={"tensors": 0}).Reload()
        assert [event.step for event in events.Tensors(name)] == [4, 8, 12, 16, 20, 24]


def test_toy_has_noise_and_moving_means_to_lose(tmp_path):
    names = {
        variable.path for variable in toy_task.make(tmp_path).build_model().non_trainable_variables
    }
    assert any("seed_generator_state" in name for name in names)
    assert any("moving_mean" in name for name in names)
