"""The tests of the blocks, the model and the searches, run again on the other backends."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    "tests/layers/test_attention_cache.py",
    "tests/layers/test_signals.py",
    "tests/layers/test_token_embedding.py",
    "tests/layers/test_transformer_decoder.py",
    "tests/layers/test_transformer_encoder.py",
    "tests/models/test_decoding.py",
    "tests/models/test_transformer.py",
]


@pytest.mark.long
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_same_tests_pass_on(backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout.splitlines()[-1]
