"""Docstrings: the examples run, every public symbol has one, and the defaults are named."""

import doctest
import importlib
import inspect
import re
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


def public(*rooms):
    return [(room, name) for room in rooms for name in getattr(keras_quasiattn, room).__all__]


@pytest.mark.parametrize("room,name", public("ops", "layers"))
def test_public_symbols_have_an_example(room, name):
    symbol = getattr(getattr(keras_quasiattn, room), name)
    assert doctest.DocTestFinder(recurse=False).find(symbol, name)[0].examples


@pytest.mark.parametrize("room,name", public("ops", "layers", "models", "metrics"))
def test_arguments_of_public_symbols_name_their_defaults(room, name):
    """None and False speak for themselves; "as for" names another docstring."""
    symbol = getattr(getattr(keras_quasiattn, room), name)
    parameters = inspect.signature(symbol).parameters.values() if callable(symbol) else ()
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", inspect.getdoc(symbol) or "", re.S | re.M)
    entries = re.findall(r"^    (\S.*?): (.*(?:\n     .*)*)", section[1] if section else "", re.M)
    silent = {
        parameter.name
        for parameter in parameters
        for names, text in entries
        if parameter.name in names.split(", ")
        and parameter.default not in (parameter.empty, None, False, "")
        and not re.search("efault|^as (for|in) |^the ones of ", text)
    }
    assert not silent
