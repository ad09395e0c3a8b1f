"""The examples in docstrings run, and every public class and function has one."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import keras_quasiattn

FOLDERS = [
    *("core", "attention", "layers", "models", "metrics", "serving", "report", "tuning"),
    *(f"lab.{name}" for name in ("text", "data", "tasks", "training")),
    *(f"lab.{name}" for name in ("serving", "report", "tuning")),
]


def modules():
    """Return the names of all modules, searched in every run."""
    names = []
    for folder in FOLDERS:
        package = importlib.import_module(f"keras_quasiattn.{folder}")
        names += [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    # For one backend, and imported only where that is chosen; or for a GPU, which needs Triton.
    chosen = [name for name in names if not name.startswith("keras_quasiattn.core.backend.")]
    return [name for name in chosen if not name.endswith(("torch_gpu", "triton_kernels"))]


@pytest.mark.parametrize("name", modules())
def test_examples_run(name):
    module = importlib.import_module(name)
    import keras

    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.testmod(module, extraglobs={"keras": keras, "np": np}, optionflags=options)
    assert results.failed == 0


@pytest.mark.parametrize(
    "room,name",
    [(room, name) for room in ("ops", "layers") for name in getattr(keras_quasiattn, room).__all__],
)
def test_public_symbols_have_an_example(room, name):
    symbol = getattr(getattr(keras_quasiattn, room), name)
    assert doctest.DocTestFinder(recurse=False).find(symbol, name)[0].examples
