"""A run that is killed repeatedly ends like an uninterrupted one."""

import os
import signal
import sys

import numpy as np
import pytest
import toy_task
import warm
from test_finishing import assert_same

from keras_quasiattn.lab.training import RunFolder, train

pytestmark = pytest.mark.long  # test_optimizers.py and test_finishing.py resume without a kill
# The process is killed when a file of this name is whole and about to take its place, or in the
# middle of a file that is larger than that.
TRAIN = """
import os, resource, signal, sys
from pathlib import Path
import toy_task
from keras_quasiattn.lab.training import train

folder, last, largest = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def die(event, arguments):
    if event == "os.rename" and os.fspath(arguments[1]).endswith(last):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
train(toy_task.make(folder / "data"), folder / "run", command=["quasiattn", "train", "toy"])
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Run in this process, whose string hashes differ from those of the killed ones."""
    folder = tmp_path_factory.mktemp("undisturbed")
    train(toy_task.make(folder / "data"), folder / "run", progress=False)
    return folder / "run"


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Return a run killed after a checkpoint, halfway through one, and after the final model."""
    folder = tmp_path_factory.mktemp("killed")
    checkpoints = folder / "run" / "checkpoints"

    def start(last="nothing", largest=10**9):
        words = [sys.executable, "-c", TRAIN, folder, last, str(largest)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return warm.run(words, text=True, env=environment)

    def reached():
        return sorted(file.name for file in checkpoints.glob("step-*.npz"))[-1]

    assert start("step-00000008.npz").returncode == -signal.SIGKILL
    assert reached() == "step-00000004.npz"
    half = (checkpoints / "step-00000004.npz").stat().st_size // 2
    assert start(largest=half).returncode == -signal.SIGXFSZ
    assert reached() == "step-00000004.npz" and list(checkpoints.glob(".tmp-*8.npz"))
    assert start("model.keras").returncode == -signal.SIGKILL
    assert reached() == "step-00000024.npz" and not (folder / "run" / "model.keras").exists()
    ended = start()
    assert ended.returncode == 0, ended.stderr
    assert "continuing from update 24 of 24" in ended.stdout
    return folder / "run"


def test_weights_history_and_figures_are_the_same_bit_for_bit(undisturbed, killed):
    assert_same(killed, undisturbed)
    rows = RunFolder.open(killed).history()
    assert [row["step"] for row in rows] == [4, 8, 12, 16, 20, 24]
    assert all(row["seconds"] > 0 and {"accuracy", "val_loss"} < row.keys() for row in rows)
    assert not list(killed.rglob(".tmp-*"))


def test_whole_state_of_the_last_checkpoint_is_the_same(undisturbed, killed):
    with (
        np.load(undisturbed / "checkpoints/step-00000024.npz") as expected,
        np.load(killed / "checkpoints/step-00000024.npz") as got,
    ):
        assert expected.files == got.files
        for name in expected.files:
            np.testing.assert_array_equal(expected[name], got[name], err_msg=name)


def test_curves_have_every_step_once(killed):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for run, name in (("training", "loss"), ("validation", "accuracy")):
        (file,) = (killed / "tensorboard" / run).iterdir()
        events = EventAccumulator(str(file), size_guidance={"tensors": 0}).Reload()
        assert [event.step for event in events.Tensors(name)] == [4, 8, 12, 16, 20, 24]
