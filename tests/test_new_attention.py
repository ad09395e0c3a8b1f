"""An attention defined only in this file can be used by name wherever one is chosen."""

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tiny_mlu
import warm
from keras import ops
from tools import reloaded

from keras_quasiattn import layers, models, report
from keras_quasiattn.attention import (
    ATTENTIONS,
    MultiHeadQuasiAttention,
    ScoreAttention,
    register_attention,
)
from keras_quasiattn.attention.probe import probe
from keras_quasiattn.errors import UserError
from keras_quasiattn.metrics import attention_flops
from keras_quasiattn.tuning import search_space

RANDOM = np.random.default_rng(0)
A, B = (RANDOM.normal(size=(2, length, 8)).astype("float32") for length in (4, 5))
IDS, OTHER_IDS = np.array([[3, 1, 2, 0], [4, 5, 0, 0]]), np.array([[1, 2, 6], [5, 0, 0]])
MASK_A, MASK_B = np.arange(4) < [[4], [2]], np.arange(5) < [[3], [5]]
CHOSEN = {"attention": "power", "attention_options": {"power": 1.5}}


@pytest.fixture(scope="module", autouse=True)
def multi_head():
    """Return the multi-head layer; the attention exists only in this file's tests."""

    @dataclasses.dataclass
    class Power(ScoreAttention):
        label = "power weights"
        search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"power": (1.0, 2.0, 3.0)}

        power: float = 2.0

        def __post_init__(self):
            if self.power <= 0:
                raise ValueError(f"`power` must be above 0. Received: power={self.power!r}")

        def make_weights(self, layer, features, heads=None):
            shape = () if heads is None else (heads, 1, 1)
            return {"gain": layer.add_weight(shape=shape, initializer="ones", name="gain")}

        def weights(self, scores, mask, learned):
            weights = learned["gain"] * ops.relu(scores) ** self.power
            return weights if mask is None else ops.where(mask, weights, 0.0)

        def operations(self, *sizes):
            queries, keys, *_, heads = (*sizes, 1)[:5]
            return super().operations(*sizes) + heads * queries * keys

    @register_attention("power")
    @keras.saving.register_keras_serializable(package="tests")
    class MultiHeadPower(MultiHeadQuasiAttention):
        options_class = Power

    yield MultiHeadPower
    del ATTENTIONS["power"]
    keras.saving.get_custom_objects().pop("tests>MultiHeadPower")


def has_gain(layer):
    return any(weight.name == "gain" for weight in layer.weights)


def test_in_layers_over_two_sequences():
    layer = layers.DecomposableAttention(units=6, **CHOSEN)
    outputs = layer([A, B], mask=[MASK_A, MASK_B], return_attention_scores=True)
    of_a, of_b, weights_a, weights_b = (np.asarray(x) for x in outputs)
    a, b = (np.asarray(layer.network(x), "float64") for x in (A, B))
    visible = MASK_A[:, :, None] & MASK_B[:, None]
    expected = np.where(visible, np.maximum(a @ b.swapaxes(1, 2), 0) ** 1.5, 0)
    for weights in (weights_a, weights_b):
        np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(of_a, expected @ B, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_b, expected.swapaxes(1, 2) @ A, rtol=1e-4, atol=1e-5)
    for other in (layers.DotAttention(**CHOSEN), layers.GatedContextQueryAttention(6, **CHOSEN)):
        other([A, B])
        assert has_gain(other)
    with pytest.raises(ValueError, match="`power` must be above 0. Received: power=-1"):
        layers.DotAttention(attention="power", attention_options={"power": -1})


def test_in_blocks_and_their_saved_files(multi_head, tmp_path):
    sizes = {"intermediate_dim": 12, "num_heads": 2, **CHOSEN}
    source, target = keras.Input((None, 8)), keras.Input((None, 8))
    encoded = layers.TransformerEncoder(**sizes)(source)
    model = keras.Model([source, target], layers.TransformerDecoder(**sizes)(target, encoded))
    assert sum(isinstance(one, multi_head) for one in model._flatten_layers()) == 3
    loaded = reloaded(model, tmp_path)
    np.testing.assert_array_equal(*(np.asarray(one([A, B])) for one in (model, loaded)))
    # No position sees later ones.
    changed = np.concatenate([B[:, :-1], B[:, -1:] + 1], axis=1)
    np.testing.assert_allclose(model([A, changed])[:, :-1], model([A, B])[:, :-1], atol=1e-5)


def test_in_models():
    pair = {"first": IDS, "second": OTHER_IDS}
    two_ways = models.PairClassifier(vocabulary_size=9, num_classes=2, units=4, **CHOSEN)
    translator = models.Seq2Seq(vocabulary_size=9, units=4, embedding_dim=4, **CHOSEN)
    classifier = models.TextClassifier(vocabulary_size=9, num_classes=2, units=4, **CHOSEN)
    for model, inputs in (
        (two_ways, pair),
        (translator, {"source": IDS, "target": OTHER_IDS}),
        (classifier, IDS),
    ):
        assert has_gain(model) and np.isfinite(np.asarray(model(inputs))).all()
    assert two_ways.explain(**pair)["weights_second"].shape == (2, 3, 4)
    x = keras.Input((None, 8))
    plain = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x))
    swapped = models.swap_attention(plain, "power", power=3.0)
    assert swapped.get_layer("attention").power == 3.0


def test_in_tasks_and_searches():
    task = tiny_mlu.make(
        Path("data"), "softmax", model__attention="power", model__attention_options={"power": 1.5}
    )
    assert has_gain(task.build_model())
    space = search_space(task)
    assert space["model.attention_options.power"] == [1.0, 2.0, 3.0]
    tried = task.options.with_overrides({"model.attention_options.power": 3.0})
    assert tried["model.attention_options"] == {"power": 3.0}
    with pytest.raises(UserError, match="`power` must be above 0"):
        tiny_mlu.make(
            Path("data"),
            "softmax",
            model__attention="power",
            model__attention_options={"power": -1},
        ).build_model()


def test_in_reports_and_counts():
    pair = layers.DecomposableAttention(units=6, **CHOSEN)
    _, _, first, second = pair([A, B], return_attention_scores=True)
    _, (seen,) = probe(pair, [A, B])
    assert list(seen.matrices) == ["weights_first", "weights_second"]
    np.testing.assert_allclose(seen.matrices["weights_first"].values, first, rtol=1e-5)
    np.testing.assert_allclose(
        np.swapaxes(seen.matrices["weights_second"].values, 1, 2), second, rtol=1e-5
    )
    block = layers.TransformerEncoder(12, 2, attention="power")
    (shown,) = report.show(block, A).maps
    assert shown.heads == 2 and shown.panels[0].title == "power weights"
    assert attention_flops("power", [3, 5], 4) == (9 + 25) * (4 + 4 + 1)


def test_of_another_package(tmp_path):
    """An installed package: no import names it, nor does any file of this package."""
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    source = page.split("```python\n")[1].split("```")[0]
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "power.py").write_text(source)
    installed = tmp_path / "my_package-0.1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 0.1\n")
    (installed / "entry_points.txt").write_text(
        "[keras_quasiattn.attentions]\npower = my_package.power\n"
    )
    code = """
import numpy as np, keras, keras_quasiattn
x = keras.Input((4, 8))
y = keras_quasiattn.layers.TransformerEncoder(16, 2, attention="power")(x)
model = keras.Model(x, y)
model.save("model.keras")
values = np.ones((1, 4, 8), "float32")
np.testing.assert_array_equal(model(values), keras.models.load_model("model.keras")(values))
layer = keras_quasiattn.attention.ATTENTIONS["power"](2, 4, power=3.0)
_, weights = layer(values, values, return_attention_scores=True)
assert layer.power == 3.0 and np.asarray(weights).min() >= 0
"""
    warm.printed(["-c", code], paths=[tmp_path], cwd=tmp_path)


def test_options_are_arguments_and_read_only_attributes(multi_head):
    """Setting one was silently ignored, because the attention has its own copy."""
    signature = inspect.signature(multi_head.__init__)
    assert list(signature.parameters)[:3] == ["self", "num_heads", "key_dim"]
    assert signature.parameters["power"].default == 2.0
    layer = multi_head(2, 4, power=3.0)
    with pytest.raises(AttributeError, match="`power` cannot be set .* Received: power=2"):
        layer.power = 2
    assert layer.power == layer.options.power == layer.get_config()["power"] == 3.0
    with pytest.raises(ValueError, match="strength"):
        multi_head(2, 4, strength=3.0)
