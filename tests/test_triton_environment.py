"""The tests of the Triton kernels, interpreted, in a process that can import Triton.

PyTorch for CPUs comes without Triton, and a process that has imported TensorFlow ends when it
imports Triton. So Triton is installed into a folder of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TRITON = "triton==3.9.0"


@pytest.mark.long
def test_kernels_are_right_interpreted_and_compile_for_a_gpu(tmp_path):
    if sys.platform != "linux":
        pytest.skip("Triton is for Linux")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path]
    subprocess.run([*pip, TRITON], check=True)
    environment = {
        **os.environ,
        "KERAS_BACKEND": "torch",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]),
    }
    tests = [sys.executable, "-m", "pytest", "-q", "-m", "not complete", "tests/ops/test_triton.py"]
    ended = subprocess.run(tests, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    assert "skipped" not in ended.stdout
