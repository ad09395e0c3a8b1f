"""What a swap does to the state of a model: frozen, adapted or compiled."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from test_swap_blocks import Block, X, model_of, values
from tools import reloaded

from keras_quasiattn.layers import MultiHeadSoftmax, TransformerEncoder
from keras_quasiattn.models import TransformerClassifier, swap_attention


def plain(attention: Any = None) -> keras.Model:
    x = keras.Input((None, 8), name="x")
    y = (attention or keras.layers.MultiHeadAttention(2, 4, name="attention"))(x, x)
    return keras.Model(x, keras.layers.Dense(3, name="dense")(y))


def nested() -> keras.Model:
    """Return a nested model with a sequential one, a third-party block and one of this package."""
    x = keras.Input((None, 8))
    y = Block(8, name="block")(x)
    y = TransformerEncoder(4, 2, attention="softmax", name="encoder")(y)
    inside = keras.Sequential([keras.Input((None, 8)), plain(), keras.layers.Dense(8)], name="in")
    return keras.Model(x, keras.layers.Dense(2, name="head")(inside(y)))


def flags(model: keras.Model) -> list[bool]:
    """Return whether each weight is trainable."""
    return [weight.trainable for weight in model.weights]


def freeze_all(model: keras.Model) -> None:
    model.trainable = False


def freeze_attention(model: keras.Model) -> None:
    for one in model._flatten_layers():
        if isinstance(one, keras.layers.MultiHeadAttention):
            one.trainable = False


def freeze_a_projection(model: keras.Model) -> None:
    for one in model._flatten_layers():
        if isinstance(one, keras.layers.MultiHeadAttention):
            one.key_dense.trainable = False


def freeze_all_but_a_part(model: keras.Model) -> None:
    model.trainable = False
    model.get_layer("encoder").attention.value_dense.trainable = True
    model.get_layer("encoder").trainable = True
    model.get_layer("encoder").attention.query_dense.trainable = False


def freeze_kernels(model: keras.Model) -> None:
    for weight in model.weights:
        weight.trainable = "bias" in weight.name


@pytest.mark.parametrize(
    "freeze",
    [freeze_all, freeze_attention, freeze_a_projection, freeze_all_but_a_part, freeze_kernels],
)
def test_what_is_frozen_stays_frozen_at_every_depth(freeze):
    model = nested()
    freeze(model)
    copy = swap_attention(model, "sigmoid")  # no weights beyond the projections
    assert copy.trainable == model.trainable
    assert flags(copy) == flags(model) and not all(flags(copy))
    assert len(copy.trainable_weights) == len(model.trainable_weights)
    for one, other in zip(model.layers, copy.layers, strict=True):
        assert one.trainable == other.trainable, one.name


@pytest.mark.parametrize("name", ["softmax", "gated", "forgetting"])
@pytest.mark.parametrize("frozen", [True, False])
def test_further_weights_of_an_attention_are_frozen_with_its_layer(name, frozen):
    softmax = MultiHeadSoftmax(2, 4, name="attention")
    model = plain() if name == "softmax" else plain(softmax)
    model.get_layer("attention").trainable = not frozen
    attention = swap_attention(model, name).get_layer("attention")
    assert len(attention.trainable_weights) == (0 if frozen else len(attention.weights))


def with_lora(model: keras.Model) -> None:
    for one in model._flatten_layers():
        if isinstance(one, keras.layers.EinsumDense):
            one.enable_lora(2)


def with_int8(model: keras.Model) -> None:
    model.quantize("int8")


def with_lora_in_a_block(model: keras.Model) -> None:
    model.get_layer("block").dense.enable_lora(2)


def block() -> keras.Model:
    return model_of(lambda x, mask: Block(8, name="block")(x))


def ours() -> keras.Model:
    return plain(MultiHeadSoftmax(2, 4, name="attention"))


def whole() -> keras.Model:
    sizes = {"num_layers": 1, "hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2}
    return TransformerClassifier(9, 2, **sizes, attention="softmax")


@pytest.mark.parametrize(
    ("make", "adapt", "message"),
    [
        (plain, with_lora, "attention/query', which has LoRA of rank 2: save the model and load"),
        (plain, with_int8, "attention/query', which is quantized to int8: swap first"),
        (ours, with_int8, "attention/query', which is quantized to int8: swap first"),
        (block, with_lora, "self_attention/query', which has LoRA of rank 2"),
        (block, with_lora_in_a_block, "dense.*', which has LoRA of rank 2"),
        (whole, with_int8, "which is quantized to int8: swap first, quantize the copy"),
    ],
)
def test_adapted_attention_is_refused_with_what_to_do(make, adapt, message):
    model = make()
    adapt(model)
    with pytest.raises(ValueError, match=f"must have no LoRA and no quantization.*{message}"):
        swap_attention(model)


def test_lora_is_merged_as_the_message_says(tmp_path):
    model = plain()
    with_lora(model)
    query = model.get_layer("attention").query_dense
    query.lora_kernel_b.assign(np.ones(query.lora_kernel_b.shape))
    loaded = reloaded(model, tmp_path)
    copy = swap_attention(loaded, "softmax")
    np.testing.assert_allclose(values(copy, X), values(model, X), atol=1e-5)


def test_lora_outside_the_attention_is_copied():
    model = plain()
    model.get_layer("dense").enable_lora(2)
    copy = swap_attention(model, "softmax")
    assert copy.get_layer("dense").lora_rank == 2 and flags(copy) == flags(model)
    np.testing.assert_allclose(values(copy, X), values(model, X), atol=1e-5)


class Unknown(keras.metrics.Mean):
    """A metric that Keras cannot recreate from its configuration."""


@pytest.mark.parametrize("make", [plain, nested, whole])
def test_the_copy_of_a_compiled_model_is_not_compiled(make):
    model = make()
    model.compile("sgd", "mse", metrics=[Unknown()], run_eagerly=True)
    inside = [
        one for one in model._flatten_layers(include_self=False) if isinstance(one, keras.Model)
    ]
    for one in inside:
        one.compile("sgd", "mse")
    copy = swap_attention(model)
    compiled = [one.compiled for one in copy._flatten_layers() if isinstance(one, keras.Model)]
    assert compiled == [False] * (1 + len(inside)) and not copy.metrics
    assert model.compiled and all(one.compiled for one in inside) and model.optimizer is not None


TEXTS = np.array(["a b c", "c d"])
WORDS = np.array([["a", "b"], ["c", "d"]])


def adapted(name: str) -> tuple[Any, Any]:
    """Return a layer of Keras that has seen data, and data for it."""
    layer, data = {
        "normalization": (keras.layers.Normalization(), 3.0 * X + 5.0),
        "words": (keras.layers.StringLookup(), WORDS),
        "integers": (keras.layers.IntegerLookup(), np.array([[3, 4], [9, 3]])),
        "texts": (keras.layers.TextVectorization(output_sequence_length=4), TEXTS),
        "frequencies": (keras.layers.TextVectorization(output_mode="tf_idf"), TEXTS),
        "bins": (keras.layers.Discretization(num_bins=3), np.arange(8.0).reshape(4, 2)),
    }[name]
    layer.adapt(data)
    return layer, data


def over(layer: Any, data: Any) -> keras.Model:
    """Return a model that applies the layer and then attention."""
    dtype = "string" if data.dtype.kind == "U" else data.dtype
    inputs = keras.Input(data.shape[1:], dtype=dtype)
    x = layer(inputs)
    if "int" in x.dtype:
        x = keras.layers.Embedding(20, 8)(x)
    elif len(x.shape) == 2:
        x = keras.layers.Reshape((1, 8))(keras.layers.Dense(8)(x))
    return keras.Model(inputs, keras.layers.MultiHeadAttention(2, 4)(x, x))


@pytest.mark.parametrize(
    "name", ["normalization", "words", "integers", "texts", "frequencies", "bins"]
)
def test_a_copy_had_not_what_a_layer_learned_by_adapt(name, tensorflow_only):
    import tensorflow as tf

    layer, data = adapted(name)
    model = over(layer, data)
    copy = swap_attention(model, "sigmoid", start="unchanged")
    data = tf.constant(data)
    np.testing.assert_allclose(copy(data), model(data), atol=1e-6)


@pytest.mark.parametrize("kind", [keras.layers.StringLookup, keras.layers.TextVectorization])
def test_a_layer_that_has_not_been_adapted_is_copied_as_it_is(kind, tensorflow_only):
    swap_attention(over(kind(), WORDS if kind is keras.layers.StringLookup else TEXTS[:, None]))


class Listed(keras.layers.Layer):
    """A layer whose numbers are neither weights nor arguments, but a file."""

    numbers = (0.0,)

    def call(self, x: Any) -> Any:
        return x + self.numbers[0]

    def save_assets(self, folder: str) -> None:
        (Path(folder) / "numbers").write_text(str(self.numbers[0]))

    def load_assets(self, folder: str) -> None:
        self.numbers = (float((Path(folder) / "numbers").read_text()),)


def test_a_copy_had_not_the_assets_of_a_layer():
    layer = Listed()
    layer.numbers = (2.5,)
    model = over(layer, X)
    copy = swap_attention(model, "sigmoid", start="unchanged")
    np.testing.assert_allclose(values(copy, X), values(model, X), atol=1e-6)
