"""The command before it has loaded anything."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_mlu


def test_another_backend_ended_in_a_traceback(tmp_path: Path) -> None:
    for backend in ("jax", "nope"):
        environment = {**tiny_mlu.environment(), "KERAS_BACKEND": backend}
        ended = tiny_mlu.quasiattn("tasks", cwd=tmp_path, env=environment)
        line = (
            f"quasiattn: KERAS_BACKEND is '{backend}': "
            "the commands run on TensorFlow only; unset it or set it to 'tensorflow'\n"
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", line.encode())


@pytest.mark.parametrize("package", ["click", "tensorflow"])
def test_the_command_without_its_extra_ended_in_a_traceback(tmp_path: Path, package: str) -> None:
    (tmp_path / "keras_quasiattn").mkdir()
    (tmp_path / "keras_quasiattn/__init__.py").write_text(
        f"import sys\nsys.modules['{package}'] = None\nimport {package}"
    )
    shutil.copy(tiny_mlu.ROOT / "quasiattn.py", tmp_path)
    ended = subprocess.run(
        [sys.executable, "-m", "quasiattn"], cwd=tmp_path, capture_output=True, timeout=60, env={}
    )
    line = f"{package} is not installed: pip install 'keras-quasiattn[tasks]'"
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, f"quasiattn: {line}".encode())


def test_import_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "keras_quasiattn").mkdir()
    (tmp_path / "keras_quasiattn/__init__.py").write_text(
        "import os\nos.write(2, b'a note\\n')\nos.no_such_name"
    )
    shutil.copy(tiny_mlu.ROOT / "quasiattn.py", tmp_path)
    command = [sys.executable, "-m", "quasiattn"]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env={}
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("a note\n") and "no_such_name" in ended.stderr
