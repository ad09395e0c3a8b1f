import warnings
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_quasiattn.layers import MultiHeadCoDA, TransformerEncoder
from keras_quasiattn.models import swap_attention

IDS = np.array([[3, 1, 2, 0], [4, 0, 0, 0]], "int32")
STATES = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")


class Own(keras.layers.MultiHeadAttention):
    """A subclass whose attention may mean something else."""

    def _masked_softmax(self, scores: Any, attention_mask: Any = None) -> Any:
        return super()._masked_softmax(scores, attention_mask)


class Called(keras.layers.MultiHeadAttention):
    """A subclass with another call that attends as Keras does, like KerasHub's with a cache."""

    def call(self, x: Any, training: Any = None) -> Any:
        query, key, value = (
            dense(x) for dense in (self.query_dense, self.key_dense, self.value_dense)
        )
        heads, _ = self._compute_attention(query, key, value, training=training)
        return self.output_dense(heads)

    def build(self, shape: Any) -> None:
        super().build(shape, shape)

    def compute_output_spec(self, x: Any, training: Any = None) -> Any:
        return keras.KerasTensor(x.shape, self.compute_dtype)


def build(attention: type, **options: Any) -> keras.Model:
    """Build a model with masked self-attention, a nested causal model, and cross-attention.

    The nested model is called twice.
    """
    ids, states = (
        keras.Input((None,), dtype="int32", name="ids"),
        keras.Input((None, 8), name="states"),
    )
    x = keras.layers.Embedding(9, 8, mask_zero=True, name="embedding")(ids)
    x = attention(2, 4, name="itself", use_bias=False, **options)(x, x)
    inner = keras.Input((None, 8))
    causal = attention(1, 8, name="causal", use_gate=True, **options)(
        inner, inner, use_causal_mask=True
    )
    nested = keras.Model(inner, causal, name="nested")
    x = nested(nested(x))
    x = attention(2, 4, output_shape=5, name="across", **options)(x, value=states)
    return keras.Model([ids, states], keras.layers.Dense(3, name="dense")(x), name="whole")


def test_the_copy_is_the_model_that_one_would_have_written():
    model = build(keras.layers.MultiHeadAttention)
    before = model.get_weights()
    copy = swap_attention(model, gate_range="raw")
    written = build(MultiHeadCoDA, gate_range="raw")
    written.set_weights(before)
    expected = ops.convert_to_numpy(written([IDS, STATES]))
    np.testing.assert_allclose(ops.convert_to_numpy(copy([IDS, STATES])), expected, atol=1e-6)
    assert [layer.name for layer in copy.layers] == [layer.name for layer in model.layers]
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)
    assert type(model.get_layer("itself")) is keras.layers.MultiHeadAttention
    swapped = [
        copy.get_layer("itself"),
        copy.get_layer("nested").get_layer("causal"),
        copy.get_layer("across"),
    ]
    assert all(type(layer) is MultiHeadCoDA and layer.gate_range == "raw" for layer in swapped)


def test_sequential_models_and_precision_are_kept():
    inner = keras.Input((4, 8))
    attended = keras.layers.MultiHeadAttention(2, 4, dtype="mixed_bfloat16", name="attention")(
        inner, inner
    )
    model = keras.Sequential(
        [keras.Input((4, 8)), keras.Model(inner, attended, name="part"), keras.layers.Dense(2)]
    )
    attention = swap_attention(model).get_layer("part").get_layer("attention")
    assert type(attention) is MultiHeadCoDA and attention.dtype_policy.name == "mixed_bfloat16"


def test_nothing_is_said_of_attention_of_this_package():
    x = keras.Input((4, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        swap_attention(
            keras.Model(x, MultiHeadCoDA(2, 4)(keras.layers.MultiHeadAttention(2, 4)(x, x), x))
        )


@keras.saving.register_keras_serializable("tests")
class Holding(keras.layers.Layer):
    """A block that holds such a layer."""

    def build(self, shape: Any) -> None:
        self.attention = Called(2, 4, dropout=0.1, name="attention")
        self.attention.build(shape)

    def call(self, x: Any, training: Any = None) -> Any:
        return self.attention(x, training=training)


@pytest.mark.parametrize(
    "make", [lambda: Called(2, 4, name="layer"), lambda: Holding(name="layer")]
)
def test_a_layer_that_is_called_in_another_way_attends_in_another_way(make, tmp_path):
    x = keras.Input((None, 8))
    model = keras.Model(x, make()(x))
    expected = ops.convert_to_numpy(model(STATES))
    same, other = (swap_attention(model, "coda", start=one) for one in ("unchanged", "projections"))
    np.testing.assert_allclose(ops.convert_to_numpy(same(STATES)), expected, atol=1e-6)
    assert np.abs(ops.convert_to_numpy(other(STATES)) - expected).max() > 1e-3
    assert isinstance(other.get_layer("layer"), type(model.get_layer("layer")))
    for copy in (same, other):
        copy.save(tmp_path / "copy.keras")
        with keras.saving.custom_object_scope({"Called": Called}):
            loaded = keras.saving.load_model(tmp_path / "copy.keras")
        answers = (ops.convert_to_numpy(one(STATES)) for one in (loaded, copy))
        np.testing.assert_allclose(*answers, atol=1e-6)


def test_errors_say_what_was_wrong():
    x, mask = keras.Input((4, 8)), keras.Input((4, 4))
    with pytest.raises(
        ValueError, match=r"'plain' contains no .*MultiHeadAttention to swap.*dense"
    ):
        swap_attention(keras.Model(x, keras.layers.Dense(2, name="dense")(x), name="plain"))
    for wrong in (None, keras.layers.Dense(2), keras.Sequential([keras.layers.Dense(2)])):
        with pytest.raises(ValueError, match="`model` must be a functional.* been built. Received"):
            swap_attention(wrong)
    # It was said to contain no layer such as Keras'.
    for same in (
        MultiHeadCoDA(2, 4, name="own"),
        TransformerEncoder(12, 2, attention="coda", name="block"),
    ):
        message = (
            r"a different attention from 'coda', which it already has; .*Received: (own|.*atten)"
        )
        with pytest.raises(ValueError, match=message):
            inputs = (x, x) if same.name == "own" else (x,)
            swap_attention(keras.Model(x, same(*inputs)), gate_range="centered")
    kept = keras.Model(x, Own(2, 4, name="mine")(x, x))
    with pytest.raises(ValueError, match=r"to swap for 'coda'.*Unchanged: mine \(Own\): a sub"):
        swap_attention(kept)
    with pytest.raises(ValueError, match="`attention` must be one of"):
        swap_attention(kept, "cosine")
    attended = keras.layers.MultiHeadAttention(2, 4, name="masked")(x, x, attention_mask=mask)
    with pytest.raises(ValueError, match=r"attention_mask.*float"):
        swap_attention(keras.Model([x, mask], attended))
    with pytest.raises(ValueError, match="`gate_range` must be one of"):
        swap_attention(build(keras.layers.MultiHeadAttention), gate_range="wide")
    with pytest.raises(
        ValueError, match=r"shapes of the projections.*itself/key'.*\(8, 1, 4\).*\(8, 2, 4\)"
    ):
        swap_attention(build(keras.layers.MultiHeadAttention), num_key_value_heads=1)
