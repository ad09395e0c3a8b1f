"""A swap with `start="unchanged"` or "blend" changes nothing until training does."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from test_swap_blocks import MASK, Block, X, model_of, values
from tools import long_except, reloaded, run_with_gradients, to_numpy

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.attention.start import Heads, Start
from keras_quasiattn.core.recording import recording
from keras_quasiattn.layers import MultiHeadSoftmax, TransformerDecoder, TransformerEncoder
from keras_quasiattn.models import (
    BlendAttention,
    CausalTransformer,
    TransformerClassifier,
    swap_attention,
)

FORMS = {"unchanged": "added", "blend": "blended"}
# The cost of open gates is part of the loss from the first update on.
OPTIONS = {"gated": {"open_gate_cost": 0.0}}


def attended(x: Any, mask: Any) -> Any:
    """Apply self-attention, plain and causal, and cross-attention, with key masks."""
    mask = ops.expand_dims(mask, 1)
    y = keras.layers.MultiHeadAttention(2, 4, name="itself")(x, x, attention_mask=mask)
    y = keras.layers.MultiHeadAttention(1, 8, use_gate=True, name="causal")(
        y, y, use_causal_mask=True
    )
    return keras.layers.GroupQueryAttention(4, 4, 2, name="across")(y, x, attention_mask=mask)


def functional(x: Any, mask: Any) -> Any:
    """Apply the same, and a third-party block."""
    return Block(8, name="block")(attended(x, mask))


def blocks(x: Any, mask: Any) -> Any:
    """Apply blocks of this package with three attentions that have further weights or means."""
    y = TransformerEncoder(12, 2, attention="forgetting", name="forgetting")(x, mask=mask)
    learned = {"alpha": "learned", "gate_range": "centered"}
    z = TransformerEncoder(12, 2, attention_options=learned, name="centered")(y, mask=mask)
    layer = MultiHeadSoftmax(2, 4, use_bias=False)
    decoder = TransformerDecoder(12, 2, attention_options={"gate_range": "centered"}, name="two")
    y = decoder(z, y, encoder_mask=mask)
    return TransformerDecoder(12, attention=layer, name="layer")(y, z, encoder_mask=mask)


def randomized(model: keras.Model) -> keras.Model:
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(0.3 * random.normal(size=weight.shape))
    return model


MAKERS = {"functional": functional, "blocks": blocks}
MODELS: dict[str, keras.Model] = {}
UPSTREAM = np.random.default_rng(1).normal(size=(2, 5, 8)).astype("float32")


def original(name: str) -> keras.Model:
    if name not in MODELS:
        MODELS[name] = randomized(model_of(MAKERS[name]))
    return MODELS[name]


def starts(model: keras.Model) -> list[Start]:
    return [one for one in model._flatten_layers() if isinstance(one, Start)]


def own_weights(model: keras.Model) -> set[int]:
    """Return the ids of attention weights other than projections."""
    kinds = (MultiHeadQuasiAttention, Start, Heads)
    layers = [one for one in model._flatten_layers() if isinstance(one, kinds)]
    return {id(weight) for one in layers for weight in one._trainable_variables}


def gradients(model: keras.Model) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Return the gradients of the projections, in order, and of all other weights, by path."""
    found, own = model.trainable_weights, own_weights(model)

    def outputs(*weights: Any) -> list[Any]:
        with keras.StatelessScope(state_mapping=list(zip(found, weights, strict=True))):
            return [model([X, MASK], training=True)]

    _, of_weights = run_with_gradients(outputs, to_numpy([one.value for one in found]), [UPSTREAM])
    both = list(zip(found, of_weights, strict=True))
    return (
        [gradient for weight, gradient in both if id(weight) not in own],
        {weight.path: gradient for weight, gradient in both if id(weight) in own},
    )


OTHERS = [("functional", "blend"), ("blocks", "unchanged"), ("blocks", "blend")]


@pytest.mark.parametrize(
    ("name", "model", "start"),
    [
        *((name, "functional", "unchanged") for name in sorted(ATTENTIONS)),
        *(
            pytest.param(name, *OTHERS[number % 3], marks=pytest.mark.long)
            for number, name in enumerate(sorted(ATTENTIONS))
        ),
    ],
)
def test_the_copy_answers_as_the_original(name, model, start):
    copy = swap_attention(original(model), name, start=start)
    # Keras' own softmax becomes ours, which needs no other attention to start from.
    assert bool(starts(copy)) == ((name, model) != ("softmax", "functional"))
    assert {one.form for one in starts(copy)} <= {FORMS[start]}
    np.testing.assert_allclose(
        values(copy, X, MASK), values(original(model), X, MASK), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("name", long_except(sorted(ATTENTIONS), "coda", "forgetting"))
def test_the_first_gradients_are_those_of_the_original_and_the_factors_have_some(name):
    copy = swap_attention(original("functional"), name, start="unchanged", **OPTIONS.get(name, {}))
    known, found = gradients(original("functional"))[0], gradients(copy)
    for one, other in zip(known, found[0], strict=True):
        np.testing.assert_allclose(other, one, atol=2e-5)
    factors = {path: one for path, one in found[1].items() if path.endswith("/factor")}
    assert len(factors) == len(starts(copy))
    count = sum(np.abs(one).max() > 0 for one in factors.values())
    assert count == len(factors) or (name == "relu" and count)  # where no score is positive
    # Weights that only the new attention has get no gradient while its factor is 0.
    assert all((one == 0).all() for path, one in found[1].items() if path not in factors)


def moved(model: keras.Model, amount: float = 0.5) -> keras.Model:
    """Return the model with factors or shares at which the new attentions count."""
    for start in starts(model):
        start.amount.assign(ops.full(start.amount.shape, amount))
    return model


def test_a_factor_of_a_head_multiplies_the_other_attention():
    x = keras.Input((None, 8))
    model = randomized(
        keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="one", use_bias=False)(x, x))
    )
    copy = swap_attention(model, "sigmoid", start="unchanged", use_bias=False)
    factors = np.array([2.0, -3.0], "float32")
    copy.get_layer("one")._start.amount.assign(factors[:, None, None])
    other = swap_attention(model, "sigmoid", use_bias=False)
    kernel = other.get_layer("one").output_dense.kernel
    kernel.assign(kernel * factors[:, None, None])
    np.testing.assert_allclose(values(copy, X), values(model, X) + values(other, X), atol=1e-5)
    layer = copy.get_layer("one")
    output, scores = layer(X, X, return_attention_scores=True)
    heads = ops.einsum("bnts,bsnh->btnh", scores, layer.value_dense(X))
    np.testing.assert_allclose(
        ops.convert_to_numpy(layer.output_dense(heads)), ops.convert_to_numpy(output), atol=1e-5
    )


@pytest.mark.parametrize("start", FORMS)
@pytest.mark.parametrize("name", MAKERS)
def test_it_is_saved_and_loaded(name, start, tmp_path):
    copy = moved(swap_attention(original(name), "coda", alpha="learned", start=start))
    loaded = reloaded(copy, tmp_path)
    np.testing.assert_allclose(values(loaded, X, MASK), values(copy, X, MASK), atol=1e-6)
    assert [one.arguments for one in starts(loaded)] == [one.arguments for one in starts(copy)]
    assert np.abs(values(copy, X, MASK) - values(original(name), X, MASK)).max() > 1e-3


@pytest.mark.long
@pytest.mark.parametrize("make", [attended, blocks])
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float64"])
def test_other_precision_is_unchanged_too(make, policy):
    keras.config.set_dtype_policy(policy)
    try:
        model = randomized(model_of(make))
    finally:
        keras.config.set_dtype_policy("float32")
    for attention in ("coda", "relu", "gated"):
        copy = swap_attention(model, attention, start="unchanged")
        got, expected = (ops.cast(one([X, MASK]), "float64") for one in (copy, model))
        # Keras rounds the weights of its softmax, and we do not.
        error = np.abs(ops.convert_to_numpy(got) - ops.convert_to_numpy(expected)).max()
        assert error <= {"float64": 1e-6, "mixed_float16": 5e-3, "mixed_bfloat16": 5e-2}[policy]
        assert {one.amount.dtype for one in starts(copy)} == {
            "float64" if policy == "float64" else "float32"
        }


@pytest.mark.parametrize("kind", [TransformerClassifier, CausalTransformer])
def test_a_transformer_starts_unchanged_with_the_options_of_each_depth(kind):
    sizes = {"num_layers": 2, "hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2}
    if kind is TransformerClassifier:
        sizes["num_classes"] = 3
    ids = np.array([[3, 4, 0], [5, 0, 0]])
    model = randomized(kind(vocabulary_size=9, **sizes, attention="differential"))
    copy = swap_attention(model, "coda", start="unchanged")
    assert type(copy) is kind
    np.testing.assert_allclose(values(copy, ids), values(model, ids), atol=1e-6)


def test_lora_adapts_the_projections_of_both_and_starts_unchanged():
    copy = swap_attention(original("functional"), "coda", start="unchanged")
    for one in copy._flatten_layers():
        if isinstance(one, MultiHeadQuasiAttention):
            one.query_dense.enable_lora(2)
    np.testing.assert_allclose(
        values(copy, X, MASK), values(original("functional"), X, MASK), atol=1e-6
    )
    assert sum("lora" in weight.path for weight in copy.trainable_weights) == 8


def test_a_swap_of_a_swap_is_refused():
    copy = swap_attention(original("functional"), "coda", start="unchanged")
    with pytest.raises(ValueError, match="must not have been swapped with `start=added` before"):
        swap_attention(copy, "relu", start="unchanged")
    plain = swap_attention(copy, "relu")
    assert not starts(plain)
    with pytest.raises(ValueError, match="`start` must be one of 'projections', 'unchanged', 'bl"):
        swap_attention(copy, "relu", start="softly")


@pytest.mark.parametrize("start", FORMS)
def test_softmax_with_another_factor_did_not_start_unchanged(start):
    copy = swap_attention(original("functional"), "softmax", start=start, alpha=3.0)
    assert len(starts(copy)) == 4
    expected = values(original("functional"), X, MASK)
    np.testing.assert_allclose(values(copy, X, MASK), expected, atol=1e-6)
    learned = swap_attention(original("functional"), "softmax", start=start, alpha="learned")
    assert not starts(learned)
    np.testing.assert_allclose(values(learned, X, MASK), expected, atol=1e-6)


@pytest.mark.parametrize("option", ["rotary_base", "sliding_window", "use_gate"])
@pytest.mark.parametrize("make", MAKERS)
def test_an_option_of_both_attentions_changed_the_old_one(option, make):
    given = {option: {"rotary_base": 100.0, "sliding_window": 2, "use_gate": True}[option]}
    with pytest.raises(ValueError, match=f"`{option}` must stay as it is with `start='unchanged'`"):
        swap_attention(original(make), "sigmoid", start="unchanged", **given)


class Shares(keras.callbacks.Callback):
    """Record the share and what is computed after each batch."""

    def on_train_begin(self, logs: Any = None) -> None:
        self.seen: list[tuple[float, bool]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        (start,) = starts(self.model)
        self.seen.append((float(ops.convert_to_numpy(start.amount)), start.is_finished))


def blended(run_eagerly: bool = False) -> keras.Model:
    x = keras.Input((None, 8))
    model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x))
    copy = swap_attention(randomized(model), "sigmoid", start="blend")
    copy.compile("sgd", "mse", run_eagerly=run_eagerly)
    return copy


def test_the_blend_moves_over_its_share_of_the_batches_and_ends_with_the_new_one(
    tmp_path,
):
    copy, shares, data = blended(), Shares(), np.tile(X, (4, 1, 1))  # 4 batches per epoch
    before = copy.get_layer("attention").get_weights()
    fit = {"batch_size": 2, "epochs": 2, "verbose": 0, "callbacks": [BlendAttention(), shares]}
    copy.fit(data, data, validation_data=(X, X), **fit)
    assert shares.seen == [(0.25, False), (0.5, False), (0.75, False), *[(1.0, True)] * 5]
    layer = copy.get_layer("attention")
    assert any(
        np.abs(one - two).max() > 0 for one, two in zip(before, layer.get_weights(), strict=True)
    )
    config = {**layer.get_config(), "start": None}
    plain = type(layer).from_config(config)
    plain.build(X.shape, X.shape)
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        getattr(plain, name).set_weights(getattr(layer, name).get_weights())
    np.testing.assert_allclose(values(copy, X), ops.convert_to_numpy(plain(X, X)), atol=1e-6)
    # A file records that the old attention is gone.
    loaded = reloaded(copy, tmp_path)
    assert starts(loaded)[0].is_finished
    np.testing.assert_allclose(values(loaded, X), values(copy, X), atol=1e-6)
    with recording() as found:
        copy(X)
    assert list(found) == ["weights"]


def test_a_blend_goes_on_where_it_was_and_stays_in_a_file(tmp_path):
    copy, shares, data = blended(run_eagerly=True), Shares(), np.tile(X, (4, 1, 1))
    fit = {"batch_size": 2, "verbose": 0}
    copy.fit(data, data, callbacks=[BlendAttention(updates=8), shares], **fit)
    assert shares.seen[-1] == (0.5, False)
    loaded = reloaded(copy, tmp_path)
    assert float(starts(loaded)[0].amount) == 0.5 and not starts(loaded)[0].is_finished
    again = [BlendAttention(updates=8), shares]
    loaded.fit(data, data, epochs=2, initial_epoch=1, callbacks=again, **fit)
    assert shares.seen[0] == (0.625, False) and shares.seen[-1] == (1.0, True)


class Worse(keras.callbacks.Callback):
    """Report a loss that rises from epoch to epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["val_loss"] = float(epoch)


def test_restored_weights_of_a_blend_were_computed_without_the_old_attention(tmp_path):
    copy, best = blended(), keras.callbacks.EarlyStopping(restore_best_weights=True, patience=9)
    fit = {"batch_size": 1, "epochs": 4, "verbose": 0, "validation_data": (X, X)}
    copy.fit(X, X, callbacks=[Worse(), BlendAttention(), best], **fit)  # s is 1 after 4 batches
    assert float(starts(copy)[0].amount) == 0.5  # after the best epoch
    copy.save(tmp_path / "best.keras")
    loaded = keras.saving.load_model(tmp_path / "best.keras")
    expected = values(loaded, X)
    np.testing.assert_allclose(copy.predict(X, verbose=0), expected, atol=1e-6)
    starts(copy)[0].amount.assign(1.0)
    assert np.abs(copy.predict(X, verbose=0) - expected).max() > 1e-3
    copy.load_weights(tmp_path / "best.keras")
    np.testing.assert_allclose(copy.predict(X, verbose=0), expected, atol=1e-6)


def test_a_loaded_blend_given_earlier_weights_predicted_without_the_old_attention(tmp_path):
    copy = blended()  # no callback told the layers of a loaded copy which model calls them
    earlier, expected = copy.get_weights(), values(copy, X)
    starts(copy)[0].amount.assign(1.0)
    loaded = reloaded(copy, tmp_path)
    assert np.abs(loaded.predict(X, verbose=0) - expected).max() > 1e-3
    loaded.set_weights(earlier)
    np.testing.assert_allclose(loaded.predict(X, verbose=0), expected, atol=1e-6)


def test_a_blend_over_epochs_of_unknown_length_began_again():
    copy, shares = blended(run_eagerly=True), Shares()
    for epoch in range(2):
        again, batches = [BlendAttention(updates=4), shares], ((X, X) for _ in range(2))
        copy.fit(batches, initial_epoch=epoch, epochs=epoch + 1, verbose=0, callbacks=again)
    assert shares.seen == [(0.75, False), (1.0, True)]  # of the second call


def test_what_a_blend_needs_is_named():
    x = keras.Input((None, 8))
    model = keras.Model(x, keras.layers.Dense(8)(x))
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match='must be a copy of `swap_attention` with `start="blend"`'):
        model.fit(X, X, verbose=0, callbacks=[BlendAttention()])
    copy = blended()
    with pytest.raises(ValueError, match="`updates` must be given where the number of batches"):
        copy.fit(((X, X) for _ in range(2)), verbose=0, callbacks=[BlendAttention()])
    for share in (0, True, "half", None, float("nan")):
        with pytest.raises(ValueError, match="`share` must be a number above 0 and at most 1. Rec"):
            BlendAttention(share)
    for updates in (0, 2.5, True, "3"):
        with pytest.raises(ValueError, match="`updates` must be a positive integer. Received: upd"):
            BlendAttention(updates=updates)
