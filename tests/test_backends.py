"""Law 8: ops, layers, models and the ranking metrics pass the same tests on every backend."""

import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = ["tests/ops", "tests/layers", "tests/metrics/test_ranking_metrics.py"]
TESTS += [f"tests/models/test_{name}.py" for name in ("decoding", "transformer", "pair_models", "seq2seq")]
TESTS += [f"tests/models/test_{name}.py" for name in ("pair_classifier", "siamese_classifier")]
TESTS += [
    f"tests/models/test_{name}.py" for name in ("mixture_classifier", "evidence_lower_bound", "readers")
]


def run(backend, *arguments, timeout):
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        timeout=timeout,
        capture_output=True,
        text=True,
    )


@pytest.mark.long
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_same_tests_pass(backend):
    if backend == keras.backend.backend():
        pytest.skip(f"{backend} is the backend of this run, so the tests themselves show it")
    imported = run(backend, "-c", "import keras", timeout=120)
    if imported.returncode:
        pytest.skip(f"{backend} cannot be imported here: {imported.stderr.strip().splitlines()[-1]}")
    tests = run(backend, "-m", "pytest", *TESTS, "-q", "-p", "no:cacheprovider", timeout=1500)
    assert tests.returncode == 0, tests.stdout[-4000:] + tests.stderr[-1000:]
    assert int(re.search(r"(\d+) passed", tests.stdout).group(1)) > 500
