"""The wheel with the versions of Python, Keras and its backends that people use.

Each combination has a separate environment. This command prints the table of docs/support.md:

python tests/test_versions.py
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
TESTS = (
    *(f"tests/layers/test_drop_in{part}.py" for part in ("", "_numbers")),
    "tests/layers/test_law_config.py::test_keras_file_round_trip",
    "tests/layers/test_law_mask.py::test_masked_is_deleted",
    "tests/ops/test_softmax.py",
)
SOURCE = (
    *("keras_quasiattn", "quasiattn.py", "setup.cfg", "pyproject.toml"),
    *("README.md", "LICENSE", "MANIFEST.in"),
)
LOOK = """
import json, time
begun = time.process_time()
import keras
middle = time.process_time()
import keras_quasiattn.layers
ended = time.process_time()
print(json.dumps({"keras": keras.__version__, "seconds": [middle - begun, ended - middle]}))
"""


class Environment(NamedTuple):
    """A Python version, packages to install first, and the extra, which is also the backend.

    The mark says who runs it: CI, or a person before a release.
    """

    python: str
    before: tuple[str, ...]
    extra: str
    mark: pytest.MarkDecorator = pytest.mark.long


def pinned(name):
    """Return the version that CI tests."""
    pins = (ROOT / ".ci/requirements.txt").read_text()
    return re.search(rf"^{name}==\S+", pins, re.MULTILINE)[0]


ENVIRONMENTS = {
    "oldest": Environment("3.10", ("keras==3.12.0", "tensorflow==2.19.1"), "tensorflow"),
    # All other tests in CI use the newest versions.
    "middle": Environment(
        "3.12", ("keras==3.13.2", "tensorflow==2.20.0"), "tensorflow", pytest.mark.complete
    ),
    "newest": Environment(
        "3.13", (pinned("keras"), pinned("tensorflow")), "tensorflow", pytest.mark.complete
    ),
    # In CI, test_extras.py runs on JAX while TensorFlow cannot be imported, and test_packaging.py
    # shows that the wheel installs no backend.
    "without TensorFlow": Environment(
        "3.11", (pinned("keras"), pinned("jax")), "jax", pytest.mark.complete
    ),
}


def interpreter(version):
    """Return a Python of this version, if there is one on the path or in pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for python in (
        sys.executable,
        shutil.which(f"python{version}"),
        *pyenv.glob(f"{version}.*/bin/python"),
    ):
        if python:
            words = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            if subprocess.run(words, capture_output=True, text=True).stdout.strip() == version:
                return str(python)
    return None


def run(*words, **environment):
    """Return a command's output; raise an `AssertionError` with it if the command fails."""
    given = {**os.environ, "PIP_NO_COMPILE": "1", "TF_CPP_MIN_LOG_LEVEL": "3", **environment}
    for name in ("PYTHONPATH", "XLA_FLAGS"):  # conftest.py has flags that TensorFlow 2.19 lacks
        given.pop(name, None)
    ended = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, env=given, cwd=ROOT
    )
    assert ended.returncode == 0, f"{words}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


def source(folder):
    """Copy what the package is built from, because pip and build write into the folder."""
    folder.mkdir()
    for name in SOURCE:
        copying = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copying(ROOT / name, folder / name)
    return folder


def install_and_try(name, python, folder, times=1):
    """Return one row of the table: versions, size, import times and test results."""
    one = ENVIRONMENTS[name]
    copy = source(folder / "source")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, copy)
    (wheel,) = folder.glob("*.whl")
    run(python, "-m", "venv", folder / "venv")
    python = folder / "venv/bin/python"
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", *one.before)
    before = set(run(*pip, "freeze").splitlines())
    run(*pip, "install", "--quiet", f"{wheel}[{one.extra}]")
    after = set(run(*pip, "freeze").splitlines())
    assert {line.partition(" ")[0] for line in after - before} == {"keras-quasiattn"}
    assert before < after
    run(*pip, "check")
    size = sum(file.stat().st_size for file in (folder / "venv").rglob("*") if file.is_file())
    backend = {"KERAS_BACKEND": one.extra}
    looks = [
        json.loads(run(python, "-I", "-c", LOOK, **backend).splitlines()[-1]) for _ in range(times)
    ]
    run(*pip, "install", "--quiet", "pytest", "pytest-xdist", "hypothesis")
    # `-I` and `-o`: test the installed wheel, not the source tree.
    run(python, "-I", "examples/drop_in_text.py", "--examples=64", "--epochs=1", **backend)
    options = ("-q", "-p", "no:cacheprovider", "-o", "pythonpath=tests")
    said = run(python, "-I", "-m", "pytest", *options, *TESTS, **backend)
    return {
        "environment": name,
        "Python": one.python,
        "versions": ", ".join(one.before).replace("==", " "),
        "MB": round(size / 1e6),
        **{
            f"import {what}, CPU s": round(median(look["seconds"][i] for look in looks), 2)
            for i, what in enumerate(("Keras", "layers"))
        },
        "tests": said.splitlines()[-1].partition(",")[0],
    }


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=one.mark) for name, one in ENVIRONMENTS.items()]
)
def test_the_wheel_leaves_what_is_there_and_its_laws_hold(name, tmp_path):
    python = interpreter(ENVIRONMENTS[name].python)
    if python is None:
        pytest.skip(f"Python {ENVIRONMENTS[name].python} is not on this machine")
    assert install_and_try(name, python, tmp_path)["tests"].endswith(" passed")


def main():
    """Print the table, row by row."""
    columns: dict[str, object] = {}
    for name, one in ENVIRONMENTS.items():
        python = interpreter(one.python)
        if python is None:
            print(f"| {name} | {one.python} | not found on this machine |")
            continue
        with tempfile.TemporaryDirectory() as folder:
            row = install_and_try(name, python, Path(folder), times=3)
        if not columns:
            print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
        columns = row
        print(f"| {' | '.join(map(str, row.values()))} |", flush=True)


if __name__ == "__main__":
    main()
