"""The tests of the Triton kernels, interpreted, in a process that can import Triton.

PyTorch for CPUs comes without Triton, and a process that has imported TensorFlow ends when it
imports Triton. So Triton is installed into a folder of its own, once for all runs of the tests.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keras_quasiattn.files import atomic_folder

ROOT = Path(__file__).parent.parent
TRITON = "triton==3.9.0"
PLACE = ROOT / ".triton_cache" / TRITON


@pytest.mark.long
def test_kernels_are_right_interpreted_and_compile_for_a_gpu():
    if sys.platform != "linux":
        pytest.skip("Triton is for Linux")
    if not PLACE.exists():
        with atomic_folder(PLACE) as temporary:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
            subprocess.run([*pip, temporary, TRITON], check=True)
    environment = {
        **os.environ,
        "KERAS_BACKEND": "torch",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(PLACE)]),
    }
    tests = [sys.executable, "-m", "pytest", "-q", "-m", "not complete", "tests/ops/test_triton.py"]
    ended = subprocess.run(tests, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    assert "skipped" not in ended.stdout
