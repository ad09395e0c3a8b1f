"""The command before it loads anything."""

import shutil
import subprocess
import sys

import pytest
import tiny_mlu
import warm


def test_another_backend_ended_in_a_traceback(tmp_path):
    for backend in ("jax", "nope"):
        environment = {**tiny_mlu.environment(), "KERAS_BACKEND": backend}
        ended = tiny_mlu.quasiattn("tasks", cwd=tmp_path, env=environment)
        line = (
            f"quasiattn: KERAS_BACKEND is '{backend}': "
            "the commands run on TensorFlow only; unset it or set it to 'tensorflow'\n"
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", line.encode())


# An audit hook ends the process at the first import of one of them.
LIGHT = """
import os, sys
def refuse(event, arguments):
    if event == "import" and arguments[0].partition(".")[0] in {heavy}:
        os.write(2, f"imports {{arguments[0]}}".encode())
        os._exit(99)
sys.addaudithook(refuse)
sys.argv = ["quasiattn", *{arguments}]
import quasiattn
quasiattn.main()
"""
HEAVY = ("keras", "tensorflow", "numpy", "tensorflow_datasets", "tensorflow_text")


def light(*arguments, **changed):
    """Run the command where whatever imports one of them ends."""
    environment = {**tiny_mlu.environment(), **changed.pop("env", {})}
    code = LIGHT.format(heavy=HEAVY, arguments=arguments)
    words = [sys.executable, "-c", code]
    options = {"capture_output": True, "text": True, "timeout": 60, "env": environment, **changed}
    return subprocess.run(words, **options)


# They cost 4 s of CPU, all of it to import TensorFlow.
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("--help", 0, "Train, measure and export"),
        ("--version", 0, "version"),
        ("tasks", 0, "bilstm_gated"),
        ("tasks classify --preset own", 0, "your file to measure on"),
        ("train classify --help", 0, "Models of classify"),
        ("trian", 2, "Did you mean 'train'"),
        ("train mlv --run x", 1, "did you mean 'mlu'"),
        ("train mlu --model codda --run x", 1, "did you mean 'coda'"),
        ("train mlu --set model.with=3 --run x", 1, "unknown option"),
        ("train classify --data none.tsv --run x", 1, "none.tsv"),
        ("predict runs/nope text", 1, "runs/nope does not exist"),
        ("compare nope.toml --show", 1, "cannot read nope.toml"),
    ],
)
def test_help_and_typos_do_not_import_keras(arguments, code, said, tmp_path):
    ended = light(*arguments.split(), cwd=tmp_path)
    assert ended.returncode == code and said in ended.stdout + ended.stderr, ended.stderr
    assert len(ended.stderr.splitlines()) == (code != 0) and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("tr", "plain,train"),
        ("train rea", "plain,read\n"),
        ("train mlu --model uni", "plain,universal\nplain,universal_coda\n"),
        ("train read --preset quasar_t_", "plain,quasar_t_long\n"),
        ("train mlu --policy mixed_b", "plain,mixed_bfloat16\n"),
        ("train mlu --set training.ste", "plain,training.steps=2800\n"),
    ],
)
def test_completion_does_not_import_keras(typed, completed, tmp_path):
    environment = {
        "_QUASIATTN_COMPLETE": "bash_complete",
        "COMP_WORDS": f"quasiattn {typed}",
        "COMP_CWORD": str(len(typed.split())),
    }
    ended = light(cwd=tmp_path, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "") and completed in ended.stdout
    assert not list(tmp_path.iterdir())


def test_the_package_is_whole_once_something_is_computed(tmp_path):
    code = (
        "import os; os.environ['QUASIATTN_WITHOUT_KERAS'] = 'yes'\n"
        "import keras_quasiattn.lab.cli; assert not hasattr(keras_quasiattn, 'attention')\n"
        "from keras_quasiattn.lab.cli.loading import load\n"
        "load(); load(); print(keras_quasiattn.layers.CoDA.__name__, keras_quasiattn.__version__)"
    )
    ended = warm.run([sys.executable, "-c", code], text=True, env=tiny_mlu.environment())
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("CoDA ")


@pytest.mark.parametrize(("package", "words"), [("click", []), ("tensorflow", ["evaluate"])])
def test_a_command_without_a_package_ended_in_a_traceback(package, words, mlu_run):
    arguments = ["quasiattn", *words, *[str(mlu_run)] * len(words)]
    code = (
        f"import sys; sys.modules['{package}'] = None; import quasiattn\n"
        f"sys.argv = {arguments}; quasiattn.main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, env=tiny_mlu.environment()
    )
    line = f"{package} is not installed: pip install 'keras-quasiattn[tasks]'"
    assert (ended.returncode, ended.stderr.splitlines()) == (1, [f"quasiattn: {line}".encode()])


def test_import_that_fails_says_why(tmp_path):
    (tmp_path / "keras_quasiattn").mkdir()
    (tmp_path / "keras_quasiattn/__init__.py").write_text(
        "import os\nos.write(2, b'a note\\n')\nos.no_such_name"
    )
    for part in ("lab", "errors.py", "extras.py", "sizes.py", "_version.py"):
        (tmp_path / "keras_quasiattn" / part).symlink_to(tiny_mlu.ROOT / "keras_quasiattn" / part)
    shutil.copy(tiny_mlu.ROOT / "quasiattn.py", tmp_path)
    command = [sys.executable, "-m", "quasiattn", "serve-check", "nothing"]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env={}
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("a note\n") and "no_such_name" in ended.stderr
