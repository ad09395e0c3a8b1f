"""How the package behaves if an extra is missing."""

import json

import pytest
import warm

import keras_quasiattn
from keras_quasiattn.extras import MissingPackageError

TRY = """
import json, sys
missing = {missing}
for name in {{*missing, *(name for name in sys.modules if name.partition(".")[0] in missing)}}:
    sys.modules[name] = None
said = {{}}
for use in {uses}:
    try:
        exec(use, {{}})
        said[use] = ""
    except Exception as error:
        said[use] = f"{{type(error).__name__}}: {{error}}"
print(json.dumps(said))
"""
TASKS = [
    *("click", "sacrebleu", "tensorboard", "tensorflow_datasets", "tensorflow_text"),
    *("tensorflow_serving", "sentencepiece", "keras_tuner", "jinja2", "matplotlib"),
]
FIT = """
import keras
import numpy as np
from keras_quasiattn import layers, metrics, models, ops

tokens = keras.Input((None,), dtype="int32")
x = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
x = layers.MaskedPooling()(keras.layers.MultiHeadAttention(2, 3)(x, x))
model = keras.Model(tokens, keras.layers.Dense(1, activation="sigmoid")(x))
swapped = models.swap_attention(model)
for one in (model, swapped):  # on JAX the second had the arrays that training the first deletes
    one.compile("sgd", "binary_crossentropy")
    one.fit(np.ones((4, 3), "int32"), np.ones((4, 1)), verbose=0)
models.TransformerClassifier(9, 2, num_layers=1, hidden_dim=4, intermediate_dim=4, num_heads=2)
"""
SHOW = """
import numpy as np
from keras_quasiattn import layers, report
view = report.show(layers.CoDA(), [np.ones((1, 2, 4), "float32")] * 2)
"""
NAMED = {
    f"{{}} is not installed: pip install 'keras-quasiattn[{extra}]'": uses
    for extra, uses in {
        "tasks": [
            *("import keras_quasiattn.lab.data", "from keras_quasiattn.lab.data import read_table"),
            "from keras_quasiattn.serving import export",
            "import keras_quasiattn; keras_quasiattn.serving.load",
            "from keras_quasiattn.metrics import bleu; bleu(['a'], ['a'])",
            *(
                "import keras_quasiattn.lab.text",
                "from keras_quasiattn.lab.text import WordTokenizer",
            ),
            "import keras_quasiattn; keras_quasiattn.lab.tasks.get('mlu')",
            "from keras_quasiattn.lab.training import train",
            "import keras_quasiattn; keras_quasiattn.lab.training.RunFolder",
            "import keras_quasiattn; keras_quasiattn.report.write_report",
        ],
        "tuning": ["import keras_quasiattn.tuning", "from keras_quasiattn.tuning import search"],
        "report,tensorflow": ["from keras_quasiattn.lab.training import AttentionSummaries"],
        "report": [SHOW + "view.html()", SHOW + "view.figure()"],
    }.items()
}
WORKS_ON_TENSORFLOW = [
    "import keras_quasiattn; keras_quasiattn.lab.training.RunFolder",
    "from keras_quasiattn.serving import export",  # a task to export needs the extra
]
WORKS = [
    "from keras_quasiattn import layers, metrics, models, ops, report, serving",
    "from keras_quasiattn.lab import training",
    SHOW,
    FIT,
]


@pytest.mark.parametrize(
    ("backend", "missing"),
    [
        ("tensorflow", TASKS),
        pytest.param("jax", ["tensorflow", *TASKS], marks=pytest.mark.long),
        pytest.param("torch", ["tensorflow", *TASKS], marks=pytest.mark.long),
    ],
)
def test_a_base_install_fits_models_and_names_the_extra_that_the_rest_needs(backend, missing):
    uses = [*WORKS, *(use for uses in NAMED.values() for use in uses)]
    run = warm.run if backend == "tensorflow" else warm.fresh
    code = TRY.format(missing=missing, uses=uses)
    printed = warm.printed(["-c", code], run, variables={"KERAS_BACKEND": backend})
    said = json.loads(printed.splitlines()[-1])
    assert {use: said[use] for use in WORKS} == dict.fromkeys(WORKS, "")
    for message, uses in NAMED.items():
        for use in uses:
            if backend == "tensorflow" and use in WORKS_ON_TENSORFLOW:
                assert not said[use]
                continue
            kind, _, line = said[use].partition(": ")
            assert kind == "MissingPackageError", (use, said[use])
            package = line.partition(" ")[0]
            assert line == message.format(package) and package in missing, (use, line)


def test_a_missing_backend_is_named_with_its_extra():
    code = TRY.format(missing=["tensorflow"], uses=["import keras_quasiattn"])
    said = warm.printed(["-c", code], warm.fresh, variables={"KERAS_BACKEND": "tensorflow"})
    assert "pip install 'keras-quasiattn[tensorflow]', or set the environment" in said


def test_every_package_is_an_attribute_and_nothing_else_is():
    for name in keras_quasiattn.__all__:
        assert getattr(keras_quasiattn, name)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = keras_quasiattn.nope
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = keras_quasiattn.lab.training.nope


def test_an_error_inside_the_package_is_not_taken_for_a_missing_extra():
    with pytest.raises(ModuleNotFoundError) as caught:
        keras_quasiattn.extras.require("keras_quasiattn.nowhere", "tasks")
    assert not isinstance(caught.value, MissingPackageError)
