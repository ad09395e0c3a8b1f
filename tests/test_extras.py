"""What the package says and does where an extra is missing."""

import subprocess
import sys

import pytest

import keras_quasiattn
from keras_quasiattn.extras import MissingPackageError

TRY = """
import sys
for name in {missing}:
    sys.modules[name] = None
import keras_quasiattn
{use}
"""
TASKS = ["click", "sacrebleu", "tensorboard", "tensorflow_datasets", "tensorflow_text"]


@pytest.mark.parametrize(
    ("missing", "use", "said"),
    [
        (["tensorflow"], "", "pip install 'keras-quasiattn[tensorflow]', or set the environment"),
        (TASKS, "from keras_quasiattn import report, training; report.show", ""),
        (TASKS, "keras_quasiattn.training.AttentionSummaries", "tensorboard is not installed"),
        (TASKS, "keras_quasiattn.tasks.get('mlu')", "pip install 'keras-quasiattn[tasks]'"),
        (TASKS, "keras_quasiattn.text", "tensorflow_text is not installed"),
        (["keras_tuner"], "keras_quasiattn.tuning", "pip install 'keras-quasiattn[tuning]'"),
        (TASKS, "keras_quasiattn.metrics, keras_quasiattn.models", ""),
    ],
)
def test_a_base_install_says_which_extra_it_needs(missing: list[str], use: str, said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", TRY.format(missing=missing, use=use)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    last = ended.stderr.splitlines()[-1] if ended.returncode else ""
    assert (said in last) and (ended.returncode == (1 if said else 0)), ended.stderr


def test_every_package_is_an_attribute_and_nothing_else_is() -> None:
    for name in keras_quasiattn.__all__:
        assert getattr(keras_quasiattn, name)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = keras_quasiattn.nope
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = keras_quasiattn.training.nope


def test_an_error_inside_the_package_is_not_taken_for_a_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        keras_quasiattn.extras.require("keras_quasiattn.nowhere", "tasks")
    assert not isinstance(caught.value, MissingPackageError)
