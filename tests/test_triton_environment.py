"""The tests of the Triton kernels, interpreted, in a process that can import Triton.

PyTorch for CPUs comes without Triton, and a process that has imported TensorFlow ends when it
imports Triton. So Triton is installed into a folder of its own, once for all runs of the tests.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import warm

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
    words = ["-m", "pytest", "-q", "-m", "not complete", "tests/ops/test_triton.py"]
    printed = warm.printed(
        *(words, warm.fresh, [PLACE], {"KERAS_BACKEND": "torch"}), timeout=1800, cwd=ROOT
    )
    assert "skipped" not in printed
