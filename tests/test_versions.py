"""The wheel beside the versions of Keras and its backends that people have.

Each combination has an environment of its own. This command prints the table of docs/support.md:

python tests/test_versions.py
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
TESTS = (
    "tests/layers/test_law_config.py",
    "tests/layers/test_law_export.py",
    "tests/ops/test_masking.py",
)
LOOK = """
import json, time
begun = time.perf_counter()
import keras
middle = time.perf_counter()
import keras_quasiattn.layers
ended = time.perf_counter()
print(json.dumps({"keras": keras.__version__, "seconds": [middle - begun, ended - middle]}))
"""


class Environment(NamedTuple):
    """What is installed before the package, the extra it is installed with, and the backend."""

    before: tuple[str, ...]
    extra: str
    backend: str


ENVIRONMENTS = {
    "oldest": Environment(("keras==3.12.0", "tensorflow==2.19.1"), "tensorflow", "tensorflow"),
    "middle": Environment(("keras==3.13.2", "tensorflow==2.20.0"), "tensorflow", "tensorflow"),
    "without TensorFlow": Environment(("keras==3.15.1", "jax==0.10.2"), "jax", "jax"),
}


def run(*words: object, **environment: str) -> str:
    """What a command says; an `AssertionError` with all of it where the command fails."""
    given = {**os.environ, "PIP_NO_COMPILE": "1", "TF_CPP_MIN_LOG_LEVEL": "3", **environment}
    ended = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, env=given, cwd=ROOT
    )
    assert ended.returncode == 0, f"{words}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


def install_and_try(name: str, folder: Path) -> dict[str, object]:
    """One row of the table: versions, size, import times and how the tests ended."""
    one = ENVIRONMENTS[name]
    copy = folder / "source"  # pip builds in the folder that it is given
    copy.mkdir()
    for path in (
        "keras_quasiattn",
        "quasiattn.py",
        "setup.cfg",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    ):
        copying = shutil.copytree if (ROOT / path).is_dir() else shutil.copy
        copying(ROOT / path, copy / path)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, copy)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python"
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", *one.before)
    before = set(run(*pip, "freeze").splitlines())
    run(*pip, "install", "--quiet", f"{wheel}[{one.extra}]")
    after = set(run(*pip, "freeze").splitlines())
    assert {line.partition(" ")[0] for line in after - before} == {
        "keras-quasiattn"
    } and before < after
    run(*pip, "check")
    size = sum(file.stat().st_size for file in (folder / "venv").rglob("*") if file.is_file())
    backend = {"KERAS_BACKEND": one.backend}
    looks = [
        json.loads(run(python, "-P", "-c", LOOK, **backend).splitlines()[-1]) for _ in range(3)
    ]
    run(*pip, "install", "--quiet", "pytest", "pytest-xdist", "hypothesis")
    run(python, "examples/drop_in_text.py", "--examples=64", "--epochs=1", **backend)
    begun = time.perf_counter()
    said = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, **backend)
    return {
        "environment": name,
        "versions": ", ".join(one.before).replace("==", " "),
        "MB": round(size / 1e6),
        **{
            f"import {what}, s": round(sorted(look["seconds"][i] for look in looks)[1], 2)
            for i, what in enumerate(("Keras", "layers"))
        },
        "tests": said.splitlines()[-1].partition(",")[0],
        "seconds": round(time.perf_counter() - begun),
    }


@pytest.mark.long
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_wheel_leaves_what_is_there_and_its_laws_hold(name: str, tmp_path: Path) -> None:
    assert install_and_try(name, tmp_path)["tests"].endswith(" passed")


if __name__ == "__main__":
    for number, name in enumerate(ENVIRONMENTS):
        with tempfile.TemporaryDirectory() as folder:
            row = install_and_try(name, Path(folder))
        if not number:
            print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
        print(f"| {' | '.join(map(str, row.values()))} |", flush=True)
