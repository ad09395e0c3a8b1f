"""Several replicas train like one device; all in one process with two logical devices."""

import json
import shutil
from pathlib import Path

import pytest
import warm

SCRIPT = Path(__file__).with_name("train_mirrored.py")


def told(folder, part):
    printed = warm.printed([SCRIPT, folder, part], paths=[SCRIPT.parent])
    return json.loads(printed.splitlines()[-1])


@pytest.fixture(scope="module")
def learned(shared):
    """Return the folder with the runs of `learning` and what it told; read-only."""

    def make(folder):
        (folder / "told.json").write_text(json.dumps(told(folder, "learning")))

    return shared("mirrored", make)


@pytest.fixture(scope="module")
def result(learned):
    return json.loads((learned / "told.json").read_text())


def test_two_replicas_learn_what_one_device_does(result):
    assert result["replicas"] == 2
    assert result["difference"] < 1e-5
    for one, mirrored in (result["losses"], result["validation"]):
        assert mirrored == pytest.approx(one, abs=1e-5)


@pytest.mark.long
def test_mirrored_run_resumes_and_stays_finite_in_float16(learned, tmp_path):
    shutil.copytree(learned / "mirrored", tmp_path / "mirrored")
    result = told(tmp_path, "going_on")
    assert result["resumed"] < 1e-6
    assert result["float16"]


def test_overflow_on_one_replica_skips_the_update_on_all(result):
    weight, scale = result["ours"]
    assert (weight, scale) == (1.0, 4.0)


def test_each_replica_draws_noise_of_its_own(result):
    """Keras gives all replicas the same noise; once the first line fails, it no longer does."""
    before, first, second = result["noise"]
    assert before[0] == before[1]
    assert first[0] != first[1] and second[0] != second[1] and first[1] != second[1]


def test_the_gradient_of_the_whole_batch_is_clipped(result):
    """Keras clips the parts 3 and −5 to 1 and −1; once its result is not 0, ours can go."""
    assert result["clipped"] == [0.0, pytest.approx(1.0, rel=2e-3)]


def test_what_replicas_cannot_share_is_refused(result):
    assert result["refusals"] == [
        "training.batch_size is 7: strategy 'mirrored' needs a multiple of its 2 replicas",
        "training.accumulate is 2: Keras cannot accumulate gradients with strategy 'mirrored'; "
        "set it to 1, or use strategy 'one'",
        "optimizer clips gradients, but Keras' SGD would clip the part of each replica: "
        "give none, and set training.clip_norm",
        "optimizer has gradient_accumulation_steps=2, but Keras cannot accumulate gradients with "
        "several replicas: leave it out",
    ]
    assert not result["refused_folder"]
