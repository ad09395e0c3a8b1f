"""Which cases of a law are for the long tests.

Some cases are so by themselves. On JAX, each law runs by default on a seeded third of the classes:
JAX compiles every operation for every shape, which takes long.
"""

import random

import keras
import pytest
from cases import ONE_OF_EACH
from layer_case import LayerCase


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(items):
    on_jax = keras.backend.backend() == "jax"
    for item in items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if isinstance(case, LayerCase):
            chosen = random.Random(f"{item.originalname} {case}").random() < 1 / 3
            if case.in_long_tests or (on_jax and (case not in ONE_OF_EACH or not chosen)):
                item.add_marker(pytest.mark.long)
