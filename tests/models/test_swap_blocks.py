"""Attention is swapped inside layers: in this package's blocks and in third-party ones."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from tools import reloaded

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.layers import (
    MultiHeadCoDA,
    MultiHeadGated,
    MultiHeadReLU,
    MultiHeadSoftmax,
    TransformerDecoder,
    TransformerEncoder,
)
from keras_quasiattn.models import swap_attention

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 5, 8)).astype("float32")
MASK = np.array([[True] * 5, [True] * 3 + [False] * 2])


@keras.saving.register_keras_serializable("tests")
class Block(keras.layers.Layer):
    """A third-party block that creates its attention in `build`, like KerasHub's."""

    def __init__(self, units: int, keeps: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units, self.keeps = units, keeps
        self.dense = keras.layers.Dense(units, activation="relu")

    def build(self, shape: Any) -> None:
        made = keras.layers.MultiHeadAttention(2, 4, name="self_attention")
        if self.keeps:
            self.parts: list[Any] = []
            self.parts.append(made)
        else:
            self.attention = made
        made.build(query_shape=shape, value_shape=shape)
        self.dense.build(shape)

    def call(self, x: Any, padding_mask: Any = None, training: Any = None) -> Any:
        mask = None if padding_mask is None else ops.expand_dims(padding_mask, 1)
        attention = self.parts[0] if self.keeps else self.attention
        return self.dense(x + attention(x, x, attention_mask=mask, training=training))

    def compute_output_shape(self, shape: Any) -> Any:
        return (*shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "keeps": self.keeps}


class Stack(keras.layers.Layer):
    """Blocks in a list, and attention made in the constructor under two names, and in a tuple."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.blocks = [Block(8, name="first"), TransformerEncoder(4, 2, attention="sigmoid")]
        self.again = self.attention = keras.layers.MultiHeadAttention(2, 4, name="a")
        self.others = (keras.layers.MultiHeadAttention(1, 8, name="b"),)

    def build(self, shape: Any) -> None:
        for block in self.blocks:
            block.build(shape)
        for attention in (self.attention, *self.others):
            attention.build(shape, shape)

    def call(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.others[0](x, x) + self.again(x, x) + self.attention(x, x)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def values(model: Any, *inputs: Any) -> np.ndarray:
    return ops.convert_to_numpy(model(inputs[0] if len(inputs) == 1 else list(inputs)))


def kinds(model: keras.Model) -> list[type]:
    return [
        type(one)
        for one in model._flatten_layers()
        if isinstance(one, keras.layers.MultiHeadAttention)
    ]


def model_of(make: Any) -> keras.Model:
    x, mask = keras.Input((None, 8), name="x"), keras.Input((None,), dtype="bool", name="mask")
    return keras.Model([x, mask], make(x, mask))


def of_block(x: Any, mask: Any, **options: Any) -> Any:
    return Block(8, name="block", **options)(x, padding_mask=mask)


def of_stack(x: Any, mask: Any) -> Any:
    del mask
    return Stack(name="stack")(x)


def of_blocks(x: Any, mask: Any) -> Any:
    encoded = TransformerEncoder(12, 2, attention="softmax", name="encoder")(x, mask=mask)
    layer = MultiHeadSoftmax(2, 4, use_bias=False)
    return TransformerDecoder(12, attention=layer, name="decoder")(x, encoded, encoder_mask=mask)


@pytest.mark.parametrize("make", [of_block, of_stack])
def test_softmax_in_the_place_of_keras_attention_changes_nothing(make):
    model = model_of(make)
    before = [weight.copy() for weight in model.get_weights()]
    copy = swap_attention(model, "softmax")
    assert set(kinds(copy)) == {MultiHeadSoftmax} and MultiHeadSoftmax not in kinds(model)
    assert [layer.name for layer in copy.layers] == [layer.name for layer in model.layers]
    assert all(type(layer) is not MultiHeadSoftmax for layer in model._flatten_layers())
    for weight, known in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, known)
    if make is of_block:  # the stack has other attention too
        np.testing.assert_allclose(values(copy, X, MASK), values(model, X, MASK), atol=1e-5)


@pytest.mark.parametrize("name", sorted(ATTENTIONS))
def test_every_attention_gets_the_projections(name):
    model = model_of(of_block)
    copy = swap_attention(model, name)
    one, other = (each.get_layer("block") for each in (model, copy))
    assert isinstance(other, Block) and type(other.attention) is ATTENTIONS[name]
    for part in ("query_dense", "key_dense", "value_dense", "output_dense"):
        pair = (getattr(each.attention, part).get_weights() for each in (one, other))
        for weight, copied in zip(*pair, strict=True):
            np.testing.assert_array_equal(weight, copied)
    np.testing.assert_array_equal(
        *(ops.convert_to_numpy(each.dense.kernel) for each in (one, other))
    )
    assert np.isfinite(values(copy, X, MASK)).all()


def test_this_packages_blocks_exchange_their_attention_by_name():
    model = model_of(of_blocks)
    there = swap_attention(model, gate_range="raw")
    assert kinds(there) == [MultiHeadCoDA] * 3 and kinds(model) == [MultiHeadSoftmax] * 3
    assert type(there.get_layer("encoder")) is TransformerEncoder
    assert there.get_layer("encoder").get_config()["attention_options"] == {"gate_range": "raw"}
    assert there.get_layer("decoder").cross_attention.gate_range == "raw"
    back = swap_attention(there, "softmax")
    assert not back.get_layer("encoder").get_config()["attention_options"]
    np.testing.assert_allclose(values(back, X, MASK), values(model, X, MASK), atol=1e-5)
    assert np.abs(values(there, X, MASK) - values(model, X, MASK)).max() > 1e-3


def test_a_layer_of_this_package_becomes_another_without_its_own_options():
    x = keras.Input((None, 8))
    options = {"use_bias": False, "open_gate_cost": 0.5, "seed": 3, "name": "one"}
    copy = swap_attention(keras.Model(x, MultiHeadGated(2, 4, **options)(x, x)), "coda")
    config = copy.get_layer("one").get_config()
    assert not config["use_bias"] and config["seed"] == 3 and "open_gate_cost" not in config


@pytest.mark.parametrize(
    "make", [of_block, of_blocks, pytest.param(of_stack, marks=pytest.mark.long)]
)
def test_a_swapped_model_is_saved_with_its_swap(make, tmp_path):
    copy = swap_attention(model_of(make), "coda", alpha="learned")
    copy.save(tmp_path / "copy.keras")
    with keras.saving.custom_object_scope({"Stack": Stack}):
        loaded = keras.saving.load_model(tmp_path / "copy.keras")
    assert set(kinds(loaded)) == {MultiHeadCoDA}
    np.testing.assert_allclose(values(loaded, X, MASK), values(copy, X, MASK), atol=1e-6)
    again = swap_attention(loaded, "conflict")
    assert {kind.__name__ for kind in kinds(again)} == {"MultiHeadConflict"}


def test_a_layer_that_is_assigned_twice_is_swapped_once():
    stack = swap_attention(model_of(of_stack)).get_layer("stack")
    assert stack.again is stack.attention and type(stack.again) is MultiHeadCoDA
    assert isinstance(stack.others, tuple) and type(stack.others[0]) is MultiHeadCoDA
    assert stack.blocks[1].get_config()["attention"] == "coda"


class Late(keras.layers.Layer):
    """A layer that makes its attention in its first call, in a list."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts: list[Any] = []

    def build(self, shape: Any) -> None:
        self.parts.append(keras.layers.Dense(8))
        self.parts[0].build(shape)

    def call(self, x: Any) -> Any:
        if len(self.parts) == 1:
            self._tracker.unlock()
            self.parts.append(keras.layers.MultiHeadAttention(2, 4, name="self_attention"))
        return self.parts[1](self.parts[0](x), x)


def test_attention_that_is_no_attribute_is_named():
    def both(x: Any, mask: Any) -> Any:
        return Late(name="late")(of_block(x, mask))

    with pytest.warns(
        UserWarning,
        match=r"self_attention \(MultiHeadAttention\) in late \(Late\): its layer holds it nei",
    ):
        copy = swap_attention(model_of(both))
    assert kinds(copy) == [MultiHeadCoDA, keras.layers.MultiHeadAttention]
    with pytest.raises(ValueError, match="to swap for 'coda'.*Unchanged: self_attention"):
        swap_attention(model_of(lambda x, mask: Late()(x)))


@keras.saving.register_keras_serializable("tests")
class Collecting(keras.layers.Layer):
    """Attention and blocks in lists and dictionaries that grow after they are attributes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts: list[Any] = []
        self.first = keras.layers.MultiHeadAttention(2, 4, name="first")
        self.named: dict[str, Any] = {"more": []}
        for made in (keras.layers.MultiHeadAttention(2, 4, name="own"), self.first, Block(8)):
            self.parts.append(made)
        self.named["one"] = keras.layers.MultiHeadAttention(1, 8, name="one")
        self.named["more"].append(Block(8, keeps=True))
        self.after = keras.layers.Dense(8)

    def build(self, shape: Any) -> None:
        self.named["two"] = keras.layers.MultiHeadAttention(1, 4, name="two")
        for part in (*self.parts[:2], self.named["one"], self.named["two"]):
            part.build(shape, shape)
        for part in (self.parts[2], self.named["more"][0], self.after):
            part.build(shape)

    def call(self, x: Any) -> Any:
        for part in (*self.parts[:2], self.named["one"], self.named["two"]):
            x = part(x, x)
        return self.after(self.named["more"][0](self.parts[2](x)))


def test_attention_that_was_appended_to_a_list_stayed(tmp_path):
    x = keras.Input((None, 8))
    model = keras.Model(x, Collecting(name="collecting")(x))
    assert len(kinds(model)) == 6
    copy = swap_attention(model, "relu", start="unchanged")
    assert kinds(copy) == [MultiHeadReLU] * 6
    np.testing.assert_allclose(values(copy, X), values(model, X), atol=1e-6)
    assert [one.name for one in copy._flatten_layers() if one.name in ("own", "one", "two")] == [
        one.name for one in model._flatten_layers() if one.name in ("own", "one", "two")
    ]
    copy.save(tmp_path / "copy.keras")
    loaded = keras.saving.load_model(tmp_path / "copy.keras")
    assert kinds(loaded) == [MultiHeadReLU] * 6
    np.testing.assert_allclose(values(loaded, X), values(copy, X), atol=1e-6)


def test_a_layer_in_a_wrapper_of_keras(tmp_path):
    # Its `from_config` takes the wrapped layer out of the configuration.
    inputs = keras.Input((2, 5, 8))
    block = TransformerEncoder(16, num_heads=2, attention="softmax")
    model = keras.Model(inputs, keras.layers.TimeDistributed(block)(inputs))
    x = np.stack([X, X[:, ::-1]], axis=1)
    for start in ("projections", "unchanged"):
        copy = swap_attention(model, "relu", start=start)
        loaded = reloaded(copy, tmp_path)
        np.testing.assert_allclose(
            ops.convert_to_numpy(loaded(x)), ops.convert_to_numpy(copy(x)), atol=1e-6
        )
    np.testing.assert_allclose(
        ops.convert_to_numpy(copy(x)), ops.convert_to_numpy(model(x)), atol=1e-5
    )


@keras.saving.register_keras_serializable("tests")
class OwnModel(keras.Model):
    """A model without a functional graph, with a sequential one that is built by its first call."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inner = keras.Sequential([Block(8, name="own")])

    def call(self, x: Any) -> Any:
        return self.inner(x)


def in_own_model(x: Any) -> Any:
    return OwnModel(name="mine")(x)


def in_wrapped_model(x: Any) -> Any:
    # A layer that the wrapped model calls twice must stay one layer.
    inputs = keras.Input((5, 8))
    attention = keras.layers.MultiHeadAttention(2, 4, name="twice")
    model = keras.Model(inputs, attention(attention(inputs, inputs), inputs))
    return keras.layers.TimeDistributed(model, name="wrapped")(x[:, None])[:, 0]


@pytest.mark.parametrize("make", [in_own_model, in_wrapped_model])
def test_attention_in_a_model_that_a_layer_holds(make, tmp_path):
    # Such models were left as they were, and Keras' configuration of `OwnModel` has no name.
    inputs = keras.Input((5, 8), name="x")
    model = keras.Model(inputs, make(inputs))
    copy = swap_attention(model, "relu", start="unchanged")
    assert [layer.name for layer in copy.layers] == [layer.name for layer in model.layers]
    assert kinds(model) == [keras.layers.MultiHeadAttention]
    np.testing.assert_allclose(values(copy, X), values(model, X), atol=1e-6)
    loaded = reloaded(copy, tmp_path)
    assert MultiHeadReLU in kinds(loaded) and keras.layers.MultiHeadAttention not in kinds(loaded)
    np.testing.assert_allclose(values(loaded, X), values(copy, X), atol=1e-6)
