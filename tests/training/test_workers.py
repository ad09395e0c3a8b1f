"""Two processes on this machine train one model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tiny_mlu
import tiny_texts

from benchmarks.workers import cluster_environments
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.lab.training.strategy import make_strategy

SCRIPT = Path(__file__).with_name("train_worker.py")
SECONDS = 300


def start(arguments, workers, **conditions):
    """Start the same command in processes that are configured as one cluster."""
    asked = json.dumps(
        {"arguments": [*arguments, "--strategy=multi-worker", "--quiet"], **conditions}
    )
    root = os.pathsep.join(str(SCRIPT.parents[level]) for level in (0, 2))
    return [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), asked],
            env={**os.environ, "PYTHONPATH": root, **cluster},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for cluster in cluster_environments(workers)
    ]


def ends(processes):
    """Return the exit codes, and the last lines on standard error."""
    ended = []
    for process in processes:
        try:
            errors = process.communicate(timeout=SECONDS)[1]
        finally:
            process.kill()
        ended.append((process.returncode, (errors.splitlines() or [""])[-1]))
    return ended


def command(folder, name, model, policy="float32", **changed):
    settings = tiny_texts.overrides(folder, model, **changed)
    words = f"train classify --preset=own --model={model} --seed=3 --policy={policy}"
    places = (f"--run={folder / name}", f"--data-dir={folder / 'data'}")
    return [*words.split(), *places, *tiny_mlu.arguments(settings)]


def largest_difference(one, other):
    models = [RunFolder.open(path, finished=True).load_model() for path in (one, other)]
    pairs = zip(*(model.trainable_variables for model in models), strict=True)
    return max(float(np.abs(left.numpy() - right.numpy()).max()) for left, right in pairs)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    for split, count in (("train", 96), ("validation", 24), ("test", 24)):
        tiny_texts.write(folder / f"{split}.tsv", tiny_texts.rows(count))
    return folder


@pytest.mark.complete
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("model", ["bilstm_coda", "bilstm_gated"])
def test_two_workers_learn_what_one_process_does(texts, model, policy):
    runs = [texts / f"{name}-{model}-{policy}" for name in ("one", "two")]
    for workers, run in enumerate(runs, 1):
        processes = start(command(texts, run.name, model, policy), workers, quiet_gates=True)
        assert [code for code, _ in ends(processes)] == [0] * workers
    histories = [RunFolder.open(run).history() for run in runs]
    # The workers add the two halves of a batch, and bfloat16 rounds each half. A gradient that
    # should be zero is then a small difference, which Adam scales to a whole update. So the losses
    # are close, but not the weights.
    is_exact = policy == "float32"
    if is_exact:
        assert largest_difference(*runs) < 1e-4
    # Nor has a difference grown by the time of the first losses.
    assert histories[1][0]["loss"] == pytest.approx(histories[0][0]["loss"], abs=5e-3)
    for one, two in zip(*histories, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], abs=1e-4 if is_exact else 2e-2)
        assert two["val_accuracy"] == pytest.approx(
            one["val_accuracy"], abs=0.05 if is_exact else 0.1
        )


@pytest.mark.complete
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_killed_worker_stops_the_other_and_nothing_is_lost(texts, seed):
    """Kill a worker, the chief or the other, at a random moment.

    The weights show whether dropout continued unchanged.
    """
    draw = np.random.default_rng(seed)
    arguments = command(
        texts, f"killed-{seed}", "bilstm_soft", model__dropout=0.3, training__steps=200
    )
    whole = texts / "whole"
    if not whole.exists():
        ends(
            start(
                command(texts, "whole", "bilstm_soft", model__dropout=0.3, training__steps=200), 2
            )
        )
    processes = start(arguments, 2)
    run, victim = texts / f"killed-{seed}", int(draw.integers(2))
    begun = time.monotonic()
    while not list((run / "checkpoints").glob("*.npz")):
        assert time.monotonic() < begun + SECONDS and processes[victim].poll() is None
        time.sleep(0.05)
    time.sleep(draw.uniform(0, 1))
    processes[victim].send_signal(signal.SIGKILL)
    codes = ends(processes)
    assert codes[victim][0] == -signal.SIGKILL
    assert codes[1 - victim][0] not in (0, -signal.SIGKILL)
    assert "another worker has stopped or cannot be reached" in codes[1 - victim][1]
    assert all(code == 0 for code, _ in ends(start(arguments, 2)))
    steps = [[row["step"] for row in RunFolder.open(path).history()] for path in (whole, run)]
    assert steps[0] == steps[1] == list(range(20, 201, 20))
    assert largest_difference(whole, run) < 1e-6


@pytest.mark.parametrize(
    "config",
    [
        None,
        "{",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_a_cluster_that_is_not_named_is_refused(monkeypatch, tmp_path, config):
    import toy_task

    monkeypatch.delenv("TF_CONFIG", raising=False)
    if config is not None:
        monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(
        UserError, match="TF_CONFIG is .*: strategy 'multi-worker' needs the workers' addresses"
    ):
        make_strategy("multi-worker", toy_task.make(tmp_path).options.training)
