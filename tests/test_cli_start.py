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


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "said"),
    [
        (["--help"], {}, 0, "Train, measure and export"),
        (["--version"], {}, 0, "version"),
        (["tasks"], {}, 0, "bilstm_gated"),
        (["tasks", "classify", "--preset", "own"], {}, 0, "your file to measure on"),
        (["train", "classify", "--help"], {}, 0, "Models of classify"),
        (["trian"], {}, 2, "Did you mean 'train'"),
        (["train", "mlv", "--run", "x"], {}, 1, "did you mean 'mlu'"),
        (["train", "mlu", "--model", "codda", "--run", "x"], {}, 1, "did you mean 'coda'"),
        (["train", "mlu", "--set", "model.with=3", "--run", "x"], {}, 1, "unknown option"),
        (["train", "classify", "--data", "none.tsv", "--run", "x"], {}, 1, "none.tsv"),
        (["predict", "runs/nope", "text"], {}, 1, "runs/nope does not exist"),
        (["compare", "nope.toml", "--show"], {}, 1, "cannot read nope.toml"),
        ([], {"COMP_WORDS": "quasiattn tr", "COMP_CWORD": "1"}, 0, "plain,train"),
        ([], {"COMP_WORDS": "quasiattn train rea", "COMP_CWORD": "2"}, 0, "plain,read\n"),
        (
            [],
            {"COMP_WORDS": "quasiattn train mlu --model uni", "COMP_CWORD": "4"},
            0,
            "plain,universal\nplain,universal_coda\n",
        ),
        (
            [],
            {"COMP_WORDS": "quasiattn train read --preset quasar_t_", "COMP_CWORD": "4"},
            0,
            "plain,quasar_t_long\n",
        ),
        (
            [],
            {"COMP_WORDS": "quasiattn train mlu --policy mixed_b", "COMP_CWORD": "4"},
            0,
            "plain,mixed_bfloat16\n",
        ),
        (
            [],
            {"COMP_WORDS": "quasiattn train mlu --set training.ste", "COMP_CWORD": "4"},
            0,
            "plain,training.steps=2800\n",
        ),
    ],
)
def test_help_typos_and_completion_do_not_import_keras(
    arguments, environment, code, said, tmp_path
):
    # They cost 4 s of CPU, all of it to import TensorFlow.
    if environment:
        environment = {**environment, "_QUASIATTN_COMPLETE": "bash_complete"}
    ended = subprocess.run(
        [sys.executable, "-c", LIGHT.format(heavy=HEAVY, arguments=arguments)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**tiny_mlu.environment(), **environment},
    )
    assert ended.returncode == code, ended.stderr
    assert said in ended.stdout + ended.stderr
    assert len(ended.stderr.splitlines()) == (code != 0) and not list(tmp_path.iterdir())


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


def test_the_command_without_click_ended_in_a_traceback():
    code = "import sys; sys.modules['click'] = None; import quasiattn; quasiattn.main()"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, env=tiny_mlu.environment()
    )
    line = "click is not installed: pip install 'keras-quasiattn[tasks]'"
    assert (ended.returncode, ended.stderr.splitlines()) == (1, [f"quasiattn: {line}".encode()])


def test_a_command_without_tensorflow_names_the_extra(mlu_run):
    code = (
        "import sys; sys.modules['tensorflow'] = None; import quasiattn\n"
        f"sys.argv = ['quasiattn', 'evaluate', {str(mlu_run)!r}]; quasiattn.main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, env=tiny_mlu.environment()
    )
    line = "tensorflow is not installed: pip install 'keras-quasiattn[tasks]'"
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
