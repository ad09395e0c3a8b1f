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


@pytest.fixture(scope="session")
def mlu_data(tmp_path_factory):
    """Folder with the data of the tiny arithmetic task."""
    import tiny_mlu

    folder = tmp_path_factory.mktemp("mlu_data")
    tiny_mlu.make(folder).prepare()
    return folder


@pytest.fixture(scope="session")
def mlu_run(tmp_path_factory, mlu_data):
    """Folder of a finished run of the tiny arithmetic task; only for reading."""
    import tiny_mlu

    from keras_quasiattn.training import train

    return train(tiny_mlu.make(mlu_data), tmp_path_factory.mktemp("mlu") / "run", progress=False).path


@pytest.fixture(scope="session")
def mlu_saved_model(tmp_path_factory, mlu_run):
    """Folder of that run's exported model."""
    from keras_quasiattn.serving import export
    from keras_quasiattn.training import RunFolder

    folder = RunFolder.open(mlu_run)
    return export(folder, folder.task("data"), tmp_path_factory.mktemp("saved_models"))


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
