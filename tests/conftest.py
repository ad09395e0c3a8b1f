"""Shared by all tests: float64 where JAX would refuse it, and a clean dtype policy for each test."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import keras
import pytest

if keras.backend.backend() == "jax":
    import jax

    jax.config.update("jax_enable_x64", True)
    # JAX compiles every operation for every shape, and a loop's body whenever it is made anew: nearly all of the time
    # of these tests. So loops run in Python, except where a test asks for `jax.jit`, and what is compiled is not
    # optimized; without XLA's new fusion emitters an operation compiles in less than half the time.
    jax.config.update("jax_disable_jit", True)
    jax.config.update("jax_disable_most_optimizations", True)
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_use_fusion_emitters=false"

# Law 8: these pass on every backend; everything else is of TensorFlow.
ON_EVERY_BACKEND = (
    *("layers", "ops", "metrics/test_ranking_metrics.py"),
    *(
        f"models/test_{name}.py"
        for name in (
            *("decoding", "evidence_lower_bound", "mixture_classifier", "pair_classifier", "pair_models"),
            *("readers", "seq2seq", "sequence_crossentropy", "siamese_classifier", "transformer"),
        )
    ),
)


def pytest_ignore_collect(collection_path):
    """On JAX and PyTorch the tests that are not of these backends are not even imported."""
    if keras.backend.backend() != "tensorflow" and collection_path.name.startswith("test_"):
        place = collection_path.relative_to(Path(__file__).parent).as_posix()
        return None if place.startswith(ON_EVERY_BACKEND) else True


@pytest.fixture(autouse=True)
def clean_keras_state():
    keras.utils.set_random_seed(7)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def jitted():
    """On JAX compiles what is compiled for a user: for tests in which many steps are done of one graph."""
    if keras.backend.backend() == "jax":
        with jax.disable_jit(False):
            yield
    else:
        yield


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


@pytest.fixture
def run_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        from keras_quasiattn import cli

        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run


@pytest.fixture
def run(mlu_run: Path, tmp_path: Path) -> Path:
    """A finished run that a test may damage."""
    return shutil.copytree(mlu_run, tmp_path / "run")
