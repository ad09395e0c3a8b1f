"""A subclass of a multi-head layer must override `attend`; overriding others is an error."""

from typing import Any

import keras
import numpy as np
import pytest
from tools import to_numpy

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.layers import TransformerDecoder, TransformerEncoder

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
# All private methods of Keras 3.15's layer: its `call` or its `build` uses them.
HOOKS = (
    "_compute_attention",
    "_compute_attention_mask",
    "_compute_causal_mask",
    "_compute_sliding_window_mask",
    "_masked_softmax",
    "_build_attention",
    "_make_output_dense",
    "_get_common_kwargs_for_sublayer",
)
every_layer = pytest.mark.parametrize("kind", ATTENTIONS.values(), ids=list(ATTENTIONS))


def never(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("an override was called")


@pytest.mark.parametrize("name", HOOKS)
def test_an_override_that_nothing_would_call_is_refused(name):
    if not hasattr(keras.layers.MultiHeadAttention, name):
        pytest.skip(f"{name} is newer than this Keras")
    own = type("Own", (ATTENTIONS["coda"],), {name: never})
    with pytest.raises(
        TypeError, match=f"must override `attend` or `call`.*Own, which overrides `{name}`"
    ):
        own(2, 4)(X, X)


@every_layer
def test_an_override_is_refused_from_a_mixin_and_below_a_subclass(kind):
    mixin = type("Mixin", (), {"_compute_attention": never})
    mixed = type("Mixed", (mixin, kind), {})
    below = type("Below", (type("Own", (kind,), {"_compute_attention": never}),), {})
    for own in (mixed, below):
        with pytest.raises(TypeError, match="override `attend`"):
            own(2, 4)(X, X)
        with pytest.raises(TypeError, match="override `attend`"):
            own(2, 4)(keras.Input((3, 8)), keras.Input((3, 8)))


def test_an_override_beside_a_call_that_uses_it_is_called():
    def call(layer: Any, query: Any, value: Any, key: Any = None) -> Any:
        return layer._compute_attention(query, value, key)

    def again(layer: Any, query: Any, value: Any, key: Any = None) -> Any:
        return ATTENTIONS["coda"].call(layer, query, value, key)

    hook = {"_compute_attention": lambda layer, query, value, key: query + value}
    own = type("Own", (ATTENTIONS["coda"],), {**hook, "call": call})
    np.testing.assert_allclose(to_numpy(own(2, 4)(X, X)), 2 * X)
    with pytest.raises(TypeError, match="override `attend`"):
        type("Own", (own,), {"call": again})(2, 4)(X, X)


@pytest.mark.parametrize("block", [TransformerEncoder, TransformerDecoder])
def test_an_override_is_refused_within_a_block(block):
    own = keras.saving.register_keras_serializable("tests", "Own")(
        type("Own", (ATTENTIONS["coda"],), {"_compute_attention": never})
    )
    with pytest.raises(TypeError, match="override `attend`"):
        block(4, attention=own(2, 4))(X)


@every_layer
def test_the_hook_that_is_named_is_called(kind):
    def attend(layer: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        del layer, query, key, mask
        scores = keras.ops.zeros((2, 2, 3, 3))
        return (value * 0 + 1, scores) if options["return_scores"] else value * 0 + 1

    layer = type("Own", (kind,), {"attend": attend})(2, 4, use_bias=False)
    output = layer(X, X)
    expected = to_numpy(keras.ops.sum(layer.output_dense.kernel, axis=(0, 1)))
    np.testing.assert_allclose(to_numpy(output)[0, 0], expected, atol=1e-5)
    assert layer(X, X, return_attention_scores=True)[1].shape == (2, 2, 3, 3)
