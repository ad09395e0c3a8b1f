"""`fit` under `keras.distribution.DataParallel`, which the JAX backend has."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fit_data_parallel.py")


@pytest.mark.long
def test_two_devices_learn_what_one_does():
    pytest.importorskip("jax")
    ended = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={
            **os.environ,
            "KERAS_BACKEND": "jax",
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
            "PYTHONPATH": str(SCRIPT.parents[2]),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout.splitlines()[-1])
    assert result["devices"] == 2
    assert result["moved"] > 1e-3
    assert result["difference"] < 1e-5
    one, two = result["losses"]
    assert two == pytest.approx(one, abs=1e-5)
