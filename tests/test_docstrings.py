"""The examples in docstrings run, and every public class and function has one."""

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

import keras_quasiattn

ROOT = Path(keras_quasiattn.__file__).parent


def modules():
    """Return the names of all modules with examples."""
    files = [path for path in sorted(ROOT.rglob("*.py")) if ">>> " in path.read_text("utf-8")]
    return [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in files]


@pytest.mark.usefixtures("eagerly")  # other tests trace models like the two that are trained
@pytest.mark.parametrize("name", modules())
def test_examples_run(name):
    module = importlib.import_module(name)
    import keras

    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.testmod(module, extraglobs={"keras": keras, "np": np}, optionflags=options)
    assert results.attempted and not results.failed


@pytest.mark.parametrize(
    "room,name",
    [(room, name) for room in ("ops", "layers") for name in getattr(keras_quasiattn, room).__all__],
)
def test_public_symbols_have_an_example(room, name):
    symbol = getattr(getattr(keras_quasiattn, room), name)
    assert doctest.DocTestFinder(recurse=False).find(symbol, name)[0].examples
