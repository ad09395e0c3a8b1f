"""Keras finds every class that a saved model may name, whichever part of the package is imported.

Otherwise it takes a class from the same module, or asks to decorate a decorated class.
"""

import ast
import json
from pathlib import Path
from typing import Any

import keras
import pytest
import warm
from test_swap_blocks import model_of, of_blocks
from tools import only_on

import keras_quasiattn
from keras_quasiattn import layers, metrics, models
from keras_quasiattn.models import CausalTransformer, swap_attention

ROOT = Path(keras_quasiattn.__file__).parent
# Optimizers of training runs, whose models are saved without them; they need the extra `tasks`.
NEEDS_AN_EXTRA = "lab"
BLOCK = """
import keras

@keras.saving.register_keras_serializable("elsewhere")
class Block(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = keras.layers.MultiHeadAttention(2, 4)

    def build(self, shape):
        self.attention.build(shape, shape)

    def call(self, x):
        return x + self.attention(x, x)
"""
ASK = """
import json, sys
import keras
import {module}
{block}
loaded = [keras.saving.load_model(path) for path in sys.argv[1:]]
print(json.dumps([sorted(keras.saving.get_custom_objects()), [
    [type(one).__name__ for one in model._flatten_layers()
     if isinstance(one, keras.layers.MultiHeadAttention)] for model in loaded
]]))
"""


def registered() -> dict[str, str]:
    """Return the module of each class that the source registers, by its registered name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [ast.unparse(one) for one in getattr(node, "decorator_list", ())]
            if any("register_keras_serializable" in name for name in names):
                found[f"keras_quasiattn>{node.name}"] = path.relative_to(ROOT).parts[0]
    return found


def test_a_model_with_metrics_of_spans_could_not_be_loaded():
    savable = (keras.Layer, keras.metrics.Metric, keras.losses.Loss)
    public = [value for module in (layers, metrics, models) for value in vars(module).values()]
    kinds = {one for one in public if isinstance(one, type) and issubclass(one, savable)}
    bases = {metrics.RankingMetric, layers.MultiHeadQuasiAttention}
    name_of = keras.saving.get_registered_name
    assert len(kinds) > 50
    assert {one for one in kinds - bases if name_of(one) == one.__name__} == set()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Save swapped copies: a third-party layer, a block of ours, and a model of ours."""
    made: dict[str, Any] = {}
    exec(BLOCK, made)
    folder = tmp_path_factory.mktemp("swapped")
    language = CausalTransformer(
        9, attention="softmax", num_layers=1, hidden_dim=8, intermediate_dim=8, num_heads=2
    )
    originals = [model_of(lambda x, mask: made["Block"]()(x)), model_of(of_blocks), language]
    paths = [folder / f"{number}.keras" for number in range(len(originals))]
    for model, path in zip(originals, paths, strict=True):
        swap_attention(model).save(path)
    keras.saving.get_custom_objects().pop("elsewhere>Block")
    return paths


@only_on("tensorflow", "the names of classes are the same on every backend")
@pytest.mark.parametrize("module", ["keras_quasiattn", "keras_quasiattn.layers"])
def test_one_import_registers_every_class_and_loads_what_is_swapped(module, files):
    code = ASK.format(module=module, block=BLOCK)
    names, kinds = json.loads(warm.printed(["-c", code, *files]).splitlines()[-1])
    wanted = {name for name, room in registered().items() if room != NEEDS_AN_EXTRA}
    assert len(wanted) > 30 and wanted <= set(names), sorted(wanted - set(names))
    assert kinds == [["MultiHeadCoDA"], ["MultiHeadCoDA"] * 3, ["MultiHeadCoDA"]]
