"""Fixtures and hooks of all tests: float64 on JAX, shared runs, a clean dtype policy per test."""

import fcntl
import gc
import importlib.metadata
import importlib.util
import os
import random
import shutil
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if not shutil.which("nvidia-smi"):
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which PyTorch does
# XLA compiles code that these tests run only once: without optimizations it takes much less time.
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_backend_optimization_level=0",
        "--xla_llvm_disable_expensive_passes=true",
        # TensorFlow 2.19 does not know this one, and ends the process at an unknown flag.
        "--xla_cpu_use_fusion_emitters=false"
        if not importlib.util.find_spec("tensorflow")
        or importlib.metadata.version("tensorflow") >= "2.20"
        else "",
    ]
)

import keras
import pytest

if keras.backend.backend() == "tensorflow":
    import tensorflow
elif keras.backend.backend() == "jax":
    import jax

    jax.config.update("jax_enable_x64", True)
    # JAX compiles a loop's body whenever the loop is created, so loops run in Python, except where
    # a test asks for `jax.jit`.
    jax.config.update("jax_disable_jit", True)
    # Reuse what another process or an earlier run has compiled.
    jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".jax_cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

SEED = 7
# Modules with the longest tests. They begin first, so that none runs on alone at the end.
DEAREST = (
    *("test_triton_environment.py", "test_versions.py", "test_encoder_blend.py"),
    *("test_accelerator.py", "test_packaging.py", "test_examples.py"),
)
# Law 8: these pass on every backend; all others need TensorFlow.
ON_EVERY_BACKEND = (
    *("layers", "ops", "metrics/test_ranking.py"),
    *(
        f"models/test_{name}.py"
        for name in (
            *("causal_transformer", "decoding", "evidence_lower_bound", "mixture_classifier"),
            *("pair_classifier", "pair_models", "prompts", "quantized", "readers", "registered"),
            *("sampling", "seq2seq", "sequence_crossentropy", "siamese_classifier", "transformer"),
            *("writers", "wrong_arguments", "swap_attention", "swap_blocks", "swap_kinds"),
            *("swap_start", "swap_state", "text_classifier"),
        )
    ),
)

# The sample that runs there by default: parameters of a test, and a share of the model tests.
FEW_ON_JAX, SHARE_OF_MODELS_ON_JAX = 1, 1 / 4


def pytest_ignore_collect(collection_path):
    """On JAX and PyTorch, do not even import tests that need another backend."""
    if keras.backend.backend() != "tensorflow" and collection_path.name.startswith("test_"):
        place = collection_path.relative_to(Path(__file__).parent).as_posix()
        return None if place.startswith(ON_EVERY_BACKEND) else True


@pytest.hookimpl(tryfirst=True)  # before marks are evaluated
def pytest_collection_modifyitems(items):
    """Begin with the dearest modules; on JAX, run only a seeded sample of the tests by default.

    JAX compiles every operation for every shape, which is slow. The hook in
    tests/layers/conftest.py chooses among the laws of layers.
    """
    items.sort(key=lambda item: item.path.name not in DEAREST)
    of_test = defaultdict(list)
    for item in items:
        if not item.nodeid.startswith("tests/layers/test_law_") and not item.get_closest_marker(
            "long"
        ):
            of_test[item.nodeid.partition("[")[0]].append(item)
    for name, same in of_test.items() if keras.backend.backend() == "jax" else ():
        draw = random.Random(name)
        if name.startswith("tests/models/") and draw.random() > SHARE_OF_MODELS_ON_JAX:
            left_out = same
        elif name.count("::") == 2:  # a test of several classes: the same shapes are compiled once
            left_out = same[FEW_ON_JAX:]
        else:
            left_out = draw.sample(same, max(0, len(same) - FEW_ON_JAX))
        for item in left_out:
            item.add_marker(pytest.mark.long)


def pytest_collection_finish():
    """Freeze what imports created: Keras often collects garbage, and would search all of it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def what_a_module_leaves_is_not_searched():
    """Freeze what a module's tests keep, such as layers and runs.

    KerasTuner alone spent 25 s searching it.
    """
    yield
    if keras.backend.backend() == "tensorflow":
        keras.utils.set_random_seed(SEED)  # drops the kernels, which keep memory
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def clean_keras_state(monkeypatch):
    """Set all seeds, but TensorFlow's only if another is set.

    To set it drops all kernels of eager operations; when every test did, the laws of layers took
    1.6 times as long. Keras draws numbers without kernels that have a state.
    """
    with monkeypatch.context() as patch:
        on_tensorflow = keras.backend.backend() == "tensorflow"
        if on_tensorflow and tensorflow.compat.v1.get_seed(0)[0] == SEED:
            patch.setattr(tensorflow.random, "set_seed", lambda seed: None)
        keras.utils.set_random_seed(SEED)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture(params=["float64", "float16"])
def floatx(request):
    """Make Keras' float type, and with it its integer types, another one."""
    before = keras.config.floatx()
    keras.config.set_floatx(request.param)
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_floatx(before)


@pytest.fixture
def jitted():
    """On JAX, compile as for a user, in tests that run many steps of one graph."""
    if keras.backend.backend() == "jax":
        with jax.disable_jit(False):
            yield
    else:
        yield


@pytest.fixture
def tensorflow_only():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("TensorFlow backend only")


@pytest.fixture
def eagerly():
    """Run functions without tracing them, where a graph would test nothing new."""
    import tools

    with tools.eagerly():
        yield


@pytest.fixture
def in_this_process(monkeypatch):
    """Do a comparison's jobs here."""
    import one_process

    one_process.patch(monkeypatch.setattr)


# Runs are trained once for all processes of pytest-xdist, and are read-only.


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Return the folder of this name, which the first process that needs it creates for all."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def folder(name, make):
        place, made = base / f"shared-{name}", base / f"shared-{name}.made"
        with (base / f"shared-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir()
                make(place)
                made.touch()
        return place

    return folder


def _trained(task, path):
    from keras_quasiattn.lab.training import train

    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")  # the first test that asks may use another policy
    train(task, path, progress=False)
    keras.config.set_dtype_policy(policy)


@pytest.fixture(scope="session")
def mlu_data(shared):
    """Return the folder with the data of the tiny arithmetic task."""
    import tiny_mlu

    return shared("mlu-data", lambda folder: tiny_mlu.make(folder).prepare())


@pytest.fixture(scope="session")
def mlu_run(shared, mlu_data):
    """Return the folder of a finished run of the tiny arithmetic task; read-only."""
    import tiny_mlu

    return shared("mlu", lambda folder: _trained(tiny_mlu.make(mlu_data), folder / "run")) / "run"


@pytest.fixture(scope="session")
def mlu_saved_model(shared, mlu_run):
    """Return the folder of that run's exported model."""
    from keras_quasiattn.lab.training import RunFolder
    from keras_quasiattn.serving import export

    def make(folder):
        run = RunFolder.open(mlu_run)
        export(run, run.task("data"), folder)

    return shared("mlu-saved-model", make) / "run" / "1"


@pytest.fixture
def quick_export(monkeypatch):
    """Skip the slow part of an export, where a test is about the rest."""
    from keras_quasiattn.lab.serving import export as module

    def write(signature, model, path):
        path.mkdir(parents=True)
        (path / "saved_model.pb").write_bytes(b"model")

    monkeypatch.setattr(module, "_write", write)
    monkeypatch.setattr(module, "_ask", lambda *_: [])
    monkeypatch.setattr(module, "_check", lambda *_: None)


@pytest.fixture(scope="session")
def texts_data(shared):
    """Return the folder with the files of the tiny classification task."""
    import tiny_texts

    return shared("texts-data", tiny_texts.files)


@pytest.fixture(scope="session")
def few_texts(shared):
    """Return the folder with fewer rows of such files, for runs that need learn nothing."""
    import tiny_texts

    return shared("few-texts", lambda folder: tiny_texts.files(folder, 60, 12))


@pytest.fixture(scope="session")
def texts_run(shared, texts_data):
    """Return the folder of a finished run of the gated model on them; read-only."""
    import tiny_texts

    return (
        shared("texts", lambda folder: _trained(tiny_texts.make(texts_data), folder / "run"))
        / "run"
    )


@pytest.fixture(scope="session")
def encoder_folder(shared):
    """Return the folder of a tiny encoder with random weights, in place of a pretrained one."""
    pytest.importorskip("keras_hub", reason="needs the extra pretrained")
    import tiny_encoder

    return shared("encoder", tiny_encoder.write)


@pytest.fixture(scope="session")
def encoder_run(shared, encoder_folder, texts_data):
    """Return the folder of a finished run that started from this encoder, now deleted."""
    import tiny_encoder

    def make(folder):
        place = shutil.copytree(encoder_folder, folder / "place")
        _trained(tiny_encoder.make(texts_data, "classify", place), folder / "run")
        shutil.rmtree(place)

    return shared("encoder-run", make) / "run"


@pytest.fixture(scope="session")
def pairs_data(shared):
    """Return the folder with the files of the tiny pair task."""
    import tiny_pairs

    return shared("pairs-data", lambda folder: tiny_pairs.files(folder, "pairs"))


@pytest.fixture(scope="session")
def rank_data(shared):
    """Return the folder with the files of the tiny ranking task."""
    import tiny_pairs

    return shared("rank-data", lambda folder: tiny_pairs.files(folder, "rank"))


@pytest.fixture(scope="session")
def sequences_data(shared):
    """Return the folder with the files of the tiny translation and programs tasks."""
    import tiny_sequences

    return shared("sequences-data", tiny_sequences.files)


@pytest.fixture(scope="session")
def reading_data(shared):
    """Return the folder with the files of the tiny reading task."""
    import tiny_reading

    return shared("reading-data", tiny_reading.files)


# Every task's files, and a model whose attention can be chosen.
TINY = {
    "classify": ("texts_data", "transformer"),
    "mlu": ("mlu_data", "softmax"),
    "pairs": ("pairs_data", "decomposable"),
    "programs": ("sequences_data", "transformer"),
    "rank": ("rank_data", "decomposable"),
    "read": ("reading_data", "decaprop"),
    "translate": ("sequences_data", "transformer"),
}


@pytest.fixture(scope="session")
def tiny_task(request):
    """Return a function that makes a tiny version of a task, by its name."""
    import tiny_mlu
    import tiny_pairs
    import tiny_reading
    import tiny_sequences
    import tiny_texts

    def make(name, model="", **changed):
        data, usual = TINY[name]
        folder, model = request.getfixturevalue(data), model or usual
        if name in ("pairs", "rank"):
            return tiny_pairs.make(folder, name, model, **changed)
        if name in ("programs", "translate"):
            return tiny_sequences.make(folder, name, model, **changed)
        kind = {"classify": tiny_texts, "mlu": tiny_mlu, "read": tiny_reading}[name]
        return kind.make(folder, model, **changed)

    return make


@pytest.fixture
def run_cli(capsys, monkeypatch):
    """Run the command line in this process: exit code, standard output, standard error."""
    # On a busy machine, lines about slow work would mix with the test's own output.
    monkeypatch.setattr("keras_quasiattn.lab.training.progress._SILENCE", 3600.0)

    def run(*arguments):
        from keras_quasiattn.lab import cli

        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run


@pytest.fixture
def cli_prints(run_cli):
    """Run the same; return its standard output if it succeeds and says nothing else."""

    def run(*arguments):
        code, out, err = run_cli(*arguments)
        assert (code, err) == (0, "")
        return out

    return run


@pytest.fixture
def run(mlu_run, tmp_path):
    """Return a finished run that a test may damage."""
    return shutil.copytree(mlu_run, tmp_path / "run")
