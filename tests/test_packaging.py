"""What a package index gets: an sdist, and a wheel that imports in an empty environment."""

import subprocess
import sys
import tarfile
import zipfile

import pytest
from test_versions import ROOT, run, source

DATA = [
    *("keras_quasiattn/py.typed", "keras_quasiattn/serving/stock_ops.txt"),
    *("keras_quasiattn/lab/data/algolisp/phrases.txt", "keras_quasiattn/lab/tasks/help.ini"),
    *(f"keras_quasiattn/report/page/{name}" for name in ("page.html.jinja", "page.css", "page.js")),
]


@pytest.mark.long
def test_the_distributions_are_whole_and_import_where_nothing_else_is(tmp_path):
    copy = source(tmp_path / "source")
    (copy / "tests").mkdir()
    (copy / "tests" / "test_without_what_it_imports.py").touch()
    run(sys.executable, "-m", "venv", tmp_path / "tools")
    tools = tmp_path / "tools/bin/python"
    run(tools, "-m", "pip", "install", "--quiet", "build", "twine")
    built = tmp_path / "built"
    run(tools, "-m", "build", "--outdir", built, copy)  # the wheel is built from the sdist
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    checked = run(tools, "-m", "twine", "check", "--strict", sdist, wheel)
    assert checked.count("PASSED") == 2

    inside = set(zipfile.ZipFile(wheel).namelist())
    modules = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "keras_quasiattn").rglob("*.py")
    }
    assert {"quasiattn.py", *DATA, *modules} <= inside
    tops = {name.partition("/")[0].partition("-")[0] for name in inside}
    assert tops == {"keras_quasiattn", "quasiattn.py"}  # no tests, no examples
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "setup.cfg", *DATA, *modules} <= packed
    assert not any(name.partition("/")[0] == "tests" for name in packed)  # setuptools adds some

    run(sys.executable, "-m", "venv", tmp_path / "empty")
    python = tmp_path / "empty/bin/python"
    run(python, "-m", "pip", "install", "--quiet", wheel)
    installed = run(python, "-m", "pip", "list", "--format=freeze").lower()
    assert not any(f"\n{name}==" in installed for name in ("tensorflow", "jax", "torch"))
    for backend in ("tensorflow", "jax", "torch"):
        ended = subprocess.run(
            [python, "-I", "-c", "import keras_quasiattn"],
            capture_output=True,
            text=True,
            env={"KERAS_BACKEND": backend},
        )
        assert ended.returncode == 1
        assert ended.stderr.splitlines()[-1] == (
            f"ModuleNotFoundError: Keras runs on {backend} here, which is not installed: pip "
            f"install 'keras-quasiattn[{backend}]', or set the environment variable KERAS_BACKEND "
            "to tensorflow, jax or torch, whichever is installed"
        )
    ended = subprocess.run([tmp_path / "empty/bin/quasiattn"], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (
        1,
        "quasiattn: click is not installed: pip install 'keras-quasiattn[tasks]'\n",
    )
