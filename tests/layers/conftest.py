"""Which cases of a law are for the long tests, and which for a release.

Some cases are long by themselves. Of a law's long cases CI runs one of each class and a seeded
eighth of the others; where a law is tried with further values, it runs an eighth of the classes
with those. Each law draws its own eighth. On JAX, which compiles every operation for every shape, a
law runs by default on a seeded eighth of the classes.
"""

import random

import keras
import pytest
from cases import ONE_OF_EACH
from layer_case import LayerCase

SHARE = 1 / 8


@pytest.hookimpl(tryfirst=True)  # before marks are evaluated
def pytest_collection_modifyitems(items):
    on_jax = keras.backend.backend() == "jax"
    for item in items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if isinstance(case, LayerCase):
            chosen = random.Random(item.name).random() < SHARE
            of_class = case in ONE_OF_EACH
            if case.in_long_tests or (on_jax and not (of_class and chosen)):
                item.add_marker(pytest.mark.long)
            known = of_class and len(item.callspec.params) == 1
            if item.get_closest_marker("long") and not (known or chosen):
                item.add_marker(pytest.mark.complete)
