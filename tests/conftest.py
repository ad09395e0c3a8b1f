"""Shared by all tests: float64 where JAX would refuse it, and a clean dtype policy for each test."""

import os

import keras
import pytest

if keras.backend.backend() == "jax":
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)  # tests compile far more than they compute


@pytest.fixture(autouse=True)
def clean_keras_state():
    keras.utils.set_random_seed(7)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def tensorflow_only():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("TensorFlow backend only")


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
