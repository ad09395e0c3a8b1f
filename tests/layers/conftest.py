"""On JAX, which compiles every operation for every shape, the laws take one case of each class by default."""

import keras
import pytest
from cases import ONE_OF_EACH
from layer_case import LayerCase


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(items):
    if keras.backend.backend() == "jax":
        for item in items:
            case = getattr(item, "callspec", None) and item.callspec.params.get("case")
            if isinstance(case, LayerCase) and case not in ONE_OF_EACH:
                item.add_marker(pytest.mark.long)
