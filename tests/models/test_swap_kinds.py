"""Which of Keras' attention layers `swap_attention` replaces, and which it reports as kept."""

from typing import Any

import keras
import numpy as np
import pytest
from test_swap_blocks import X, kinds, values
from tools import reloaded

from keras_quasiattn.layers import MultiHeadCoDA, MultiHeadSoftmax, TransformerEncoder
from keras_quasiattn.models import swap_attention

OPTIONS = {
    "plain": {},
    "one": {"num_key_value_heads": 1, "use_bias": False, "dropout": 0.1, "seed": 3},
    "all": {"num_key_value_heads": 4, "use_gate": True, "sliding_window": 2},
    "regularized": {"kernel_regularizer": "l2", "bias_constraint": "non_neg", "trainable": False},
}


@keras.saving.register_keras_serializable("tests")
class Grouped(keras.layers.Layer):
    """A third-party block with grouped-query attention."""

    def build(self, shape: Any) -> None:
        self.attention = grouped()
        self.attention.build(shape, shape)

    def call(self, x: Any) -> Any:
        return self.attention(x, x, use_causal_mask=True)


@keras.saving.register_keras_serializable("tests")
class Dotted(keras.layers.Layer):
    """A third-party block with attention without heads, and some with heads."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = [
            keras.layers.Attention(name="dot"),
            keras.layers.AdditiveAttention(name="add"),
        ]
        self.heads = keras.layers.MultiHeadAttention(2, 4, name="heads")

    def call(self, x: Any) -> Any:
        for part in self.parts:
            x = part([x, x])
        return self.heads(x, x)


class Own(keras.layers.GroupQueryAttention):
    """A subclass, which may mean something else."""


class Mine(MultiHeadSoftmax):
    """A subclass of a layer of this package, which may mean something else, too."""


class Inheriting(keras.layers.MultiHeadAttention):
    """A subclass of which only the attention method is replaced; Keras does not know its name."""


def grouped(**options: Any) -> keras.layers.Layer:
    return keras.layers.GroupQueryAttention(4, 4, **{"num_key_value_heads": 2, **options})


def of(*layers: keras.layers.Layer, **call: Any) -> keras.Model:
    x = y = keras.Input((5, 8))
    for layer in layers:
        y = layer(y, y, **call)
    return keras.Model(x, y)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_grouped_queries_become_softmax_with_the_same_outputs(name):
    layer = grouped(**OPTIONS[name], name="grouped")
    mask = np.random.default_rng(0).random((1, 5, 5)) < 0.7
    mask |= np.eye(5, dtype=bool)
    model = of(layer, attention_mask=keras.ops.convert_to_tensor(mask))
    for weight in model.weights:
        weight.assign(np.random.default_rng(len(weight.path)).normal(size=weight.shape))
    copy = swap_attention(model, "softmax")
    np.testing.assert_allclose(values(copy, X), values(model, X), atol=1e-5)
    config, before = (one.get_layer("grouped").get_config() for one in (copy, model))
    assert (config["num_heads"], config["key_dim"]) == (4, 4)
    for option in before.keys() & config.keys():
        assert str(config[option]) == str(before[option]), option
    assert [w.trainable for w in copy.weights] == [w.trainable for w in model.weights]


def test_grouped_queries_are_swapped_wherever_they_stand(tmp_path):
    x = keras.Input((5, 8))
    y = TransformerEncoder(4, attention=grouped(), name="encoder")(Grouped(name="block")(x))
    y = keras.Sequential([keras.Input((5, 8)), of(grouped(name="inner"))])(y)
    model = keras.Model(x, y)
    same = swap_attention(model, "softmax")
    np.testing.assert_allclose(values(same, X), values(model, X), atol=1e-5)
    copy = swap_attention(model)
    assert kinds(copy) == [MultiHeadCoDA] * 3
    loaded = reloaded(copy, tmp_path)
    np.testing.assert_allclose(values(loaded, X), values(copy, X), atol=1e-6)


def test_attention_that_stays_is_named_with_the_reason_wherever_it_is():
    x = keras.Input((5, 8))
    y = keras.layers.AdditiveAttention(name="additive")([x, x])
    y = Dotted(name="block")(y)
    inner = keras.Input((5, 8))
    dot = keras.Model(inner, keras.layers.Attention(name="inner")([inner, inner]))
    y = Mine(2, 4, name="ours")(dot(y), y)
    y = Own(4, 4, 2, name="mine")(y, y)
    with pytest.warns(UserWarning, match="leaves these layers unchanged") as caught:
        copy = swap_attention(keras.Model(x, y))
    (said,) = {str(one.message).partition("unchanged: ")[2] for one in caught}
    named = [reason.partition(": ")[::2] for reason in said.split("; ")]
    headless = "it has neither heads nor projections, whose weights could be kept"
    assert dict(named) == {
        "additive (AdditiveAttention)": headless,
        "dot (Attention) in block (Dotted)": headless,
        "add (AdditiveAttention) in block (Dotted)": headless,
        "inner (Attention)": headless,
        "ours (Mine)": "a subclass of MultiHeadSoftmax may compute something else",
        "mine (Own)": "a subclass of GroupedQueryAttention may compute something else",
    }
    assert len(named) == 6 and kinds(copy) == [MultiHeadCoDA, Mine]


@pytest.mark.parametrize("kind", [keras.layers.Attention, keras.layers.AdditiveAttention])
def test_a_model_of_attention_without_heads_alone_is_refused_with_the_reason(kind):
    x = keras.Input((5, 8))
    model = keras.Model(x, kind(name="dot")([x, x]))
    with pytest.raises(ValueError, match=r"no layer such as .* Unchanged: dot \(.*neither heads"):
        swap_attention(model)


def test_options_come_one_by_one_or_as_a_choice_of_the_tuner():
    model = of(keras.layers.MultiHeadAttention(2, 4, name="attention"))
    raw, half = {"gate_range": "raw"}, {"alpha": 0.5}
    for choice, rest in (({}, {**raw, **half}), (raw, half), ({**raw, **half}, {})):
        layer = swap_attention(model, attention_options=choice, **rest).get_layer("attention")
        assert (layer.gate_range, layer.alpha) == ("raw", 0.5)
    with pytest.raises(ValueError, match=r"not both. Received: \['alpha'\] in both"):
        swap_attention(model, attention_options={"alpha": 1.0}, alpha=1.0)


def test_a_layer_whose_method_was_replaced_kept_the_first_replacement():
    """A second swap did nothing, and set what was learned back."""
    model = of(Inheriting(2, 4, name="attention"))
    once = swap_attention(model, "coda", alpha="learned")
    factors = [one for one in once.weights if one.name == "alpha"]
    assert len(factors) == 1
    factors[0].assign(0 * factors[0] + 3)
    np.testing.assert_allclose(
        values(swap_attention(once, "relu"), X), values(swap_attention(model, "relu"), X), atol=1e-6
    )
    with pytest.raises(ValueError, match="different attention from 'coda'.*Received: attention"):
        swap_attention(once, "coda")

    x = keras.Input((5, 8))
    longer = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="more")(once(x), x))
    kept = swap_attention(longer, "coda").get_layer(once.name)
    np.testing.assert_allclose(values(kept, X), values(once, X), atol=1e-6)


@pytest.mark.parametrize("make", [Inheriting, None])
def test_a_swapped_block_started_from_the_attention_before_its_swap(make):
    layer = Grouped(name="block") if make is None else make(2, 4, name="block")
    x = keras.Input((5, 8))
    once = swap_attention(keras.Model(x, layer(x) if make is None else layer(x, x)), "sigmoid")
    for start in ("unchanged", "blend"):
        with pytest.raises(ValueError, match=f"not have been swapped before for start='{start}'"):
            swap_attention(once, "relu", start=start)
    assert swap_attention(once, "relu").get_layer("block").name == "block"
