"""Properties of every model that generates tokens: steps, padding, files, training."""

import functools
import inspect
import re

import keras
import numpy as np
import pytest
from keras import ops
from tools import reloaded, to_numpy

from keras_quasiattn.models import CausalTransformer, Seq2Seq, Transformer

V, B, S, T = 11, 4, 7, 5
BLOCKS = {
    "vocabulary_size": V,
    **{"num_layers": 2, "hidden_dim": 12, "intermediate_dim": 20, "num_heads": 2},
}
RECURRENT = {"vocabulary_size": V, "embedding_dim": 6, "units": 5, "num_layers": 2}
# Three steps, so that positions can halt before the last two; with these options some halt at each.
ADAPTIVE = {
    **{"num_layers": 3, "universal": True, "adaptive": True},
    "halting_options": {"initial_bias": -0.5, "threshold": 0.6},
}
CENTERED = {"gate_range": "centered", "center_similarity": True}
LEARNED = {**CENTERED, "alpha": "learned", "scaling": "none"}
CASES = {
    "transformer-coda-centered": (Transformer, {"attention_options": CENTERED}),
    "transformer-adaptive": (
        Transformer,
        {**ADAPTIVE, "attention_options": {"similarity": "sigmoid"}},
    ),
    "seq2seq": (Seq2Seq, {}),
    "seq2seq-centered": (Seq2Seq, {"attention": "coda", "attention_options": LEARNED}),
    "causal-centered": (CausalTransformer, {"attention_options": CENTERED}),
    "causal-gated": (CausalTransformer, {"attention": "gated"}),
    "causal-post-norm": (CausalTransformer, {"attention": "conflict", "normalize_first": False}),
}
every_case = pytest.mark.parametrize("case", CASES)


def ids(kind):
    """Return ids: row 0 is full, row 1 is padded, the source of row 2 is padding only."""
    generator = np.random.default_rng(0)
    source, target = generator.integers(2, V, (B, S)), generator.integers(2, V, (B, T))
    source[1, 4:] = source[2] = 0
    target[:, 0], target[1, 3:] = 1, 0
    texts = {"source": source.astype("int32"), "target": target.astype("int32")}
    return texts["target"] if kind is CausalTransformer else texts


def targets_of(inputs):
    return inputs["target"] if isinstance(inputs, dict) else inputs


def changed(inputs, change):
    """Return the inputs with targets modified by `change`, and the same sources."""
    targets = targets_of(inputs).copy()
    change(targets)
    return {**inputs, "target": targets} if isinstance(inputs, dict) else targets


def make(kind, **arguments):
    """Return a model with weights large enough to distinguish sources and earlier tokens."""
    keras.utils.set_random_seed(7)
    model = kind(**{**(RECURRENT if kind is Seq2Seq else BLOCKS), **arguments})
    random = np.random.default_rng(3)
    for weight in model.weights if kind is Seq2Seq else ():
        if len(weight.shape):
            weight.assign(random.normal(size=weight.shape))
    if kind is CausalTransformer:
        model.token_embedding.set_weights([3 * w for w in model.token_embedding.get_weights()])
    return model


@functools.cache
def made(case):
    """Return a model that no test changes, its inputs and its logits."""
    kind, arguments = CASES[case]
    model, inputs = make(kind, **arguments), ids(kind)
    return model, inputs, to_numpy(model(inputs))


def token_log_probabilities(model, tokens, source=None):
    """Return the log-probability of each generated token from a single call; padding has 0."""
    shifted = np.concatenate([np.ones((len(tokens), 1), "int32"), tokens[:, :-1]], axis=1)
    inputs = shifted if source is None else {"source": source, "target": shifted}
    every = to_numpy(ops.log_softmax(model(inputs), axis=-1))
    return np.take_along_axis(every, tokens[..., None], axis=2)[..., 0] * (tokens != 0)


def cache_of(model, inputs, length):
    return model.start_cache(inputs["source"] if isinstance(inputs, dict) else B, length)


@every_case
def test_steps_from_the_cache_give_the_full_pass(case):
    model, inputs, want = made(case)
    cache, targets = cache_of(model, inputs, T + 2), targets_of(inputs)
    assert all(leaf.shape[0] == B for leaf in keras.tree.flatten(cache))
    for index in range(T):
        logits, cache = model.step(targets[:, index], index, cache)
        real = targets[:, index] != 0
        np.testing.assert_allclose(to_numpy(logits)[real], want[real, index], atol=1e-5)


@every_case
def test_padding_and_later_tokens_change_nothing(case):
    model, inputs, want = made(case)
    assert np.isfinite(want).all()
    cut = {"source": (slice(1, 2), slice(4)), "target": (slice(1, 2), slice(3))}
    if isinstance(inputs, dict):
        short = {name: inputs[name][place] for name, place in cut.items()}
    else:
        short = inputs[cut["target"]]
    np.testing.assert_allclose(to_numpy(model(short)), want[1:2, :3], atol=1e-5)
    later = to_numpy(model(changed(inputs, lambda targets: targets[0, 3:].fill(2))))
    np.testing.assert_allclose(later[0, :3], want[0, :3], atol=1e-5)
    assert np.abs(later[0, 3:] - want[0, 3:]).max() > 1e-3


@pytest.mark.parametrize("case", [case for case in CASES if case != "causal-gated"])
def test_losses_leave_padding_out_and_one_step_of_training_moves_every_weight(case):
    kind, arguments = CASES[case]
    model, inputs = make(kind, **arguments, dropout=0.0), ids(kind)
    assert model.output.shape == (None, None, V)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.2), loss, run_eagerly=True)
    real = targets_of(inputs) != 0
    loss = float(np.ravel(model.test_on_batch(inputs, np.where(real, 4, 0)))[0])
    log_probability = to_numpy(ops.log_softmax(model(inputs), axis=-1))[..., 4]
    assert loss == pytest.approx(-log_probability[real].mean(), rel=1e-5)
    before = [to_numpy(w) for w in model.trainable_weights]
    model.train_on_batch(inputs, np.roll(targets_of(inputs), -1, axis=1))
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.abs(to_numpy(weight) - old).max() > 0, weight.path
        assert np.isfinite(to_numpy(weight)).all(), weight.path


@pytest.mark.parametrize(
    "case,policy",
    [
        ("transformer-coda-centered", "mixed_float16"),
        ("transformer-adaptive", "mixed_bfloat16"),
        ("seq2seq-centered", "mixed_float16"),
        ("causal-post-norm", "mixed_float16"),
    ],
)
def test_low_precision_gives_finite_float32_logits_also_from_the_cache(case, policy):
    kind, arguments = CASES[case]
    model, inputs = make(kind, **arguments, dtype=policy), ids(kind)
    logits = model(inputs)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32" == model.output.dtype
    assert np.isfinite(to_numpy(logits)).all()
    step, _ = model.step(targets_of(inputs)[:, 0], 0, cache_of(model, inputs, T))
    np.testing.assert_allclose(to_numpy(step), to_numpy(logits)[:, 0], atol=0.2)


OF_BLOCKS = {
    **{"vocabulary_size": 12, "num_layers": 3, "hidden_dim": 6, "intermediate_dim": 5},
    **{"num_heads": 3, "attention": "softmax", "attention_options": {"use_bias": True}},
    "dropout": 0.25,
}
NON_DEFAULT = {
    Transformer: {
        **OF_BLOCKS,
        **{"universal": True, "adaptive": True, "halting_options": {"threshold": 0.5}},
    },
    CausalTransformer: {**OF_BLOCKS, "normalize_first": False},
    Seq2Seq: {
        **{"vocabulary_size": 12, "embedding_dim": 6, "units": 5, "num_layers": 3},
        **{"attention": "coda", "attention_options": {"gate": "arctan"}, "dropout": 0.25},
    },
}


@pytest.mark.parametrize("kind", NON_DEFAULT)
def test_every_constructor_argument_survives_save_and_load(kind, tmp_path):
    given, parameters = NON_DEFAULT[kind], inspect.signature(kind.__init__).parameters
    assert set(parameters) - {"self", "kwargs"} == set(given)
    assert not [name for name in given if parameters[name].default == given[name]]
    model = kind(**given, name="writer", dtype="mixed_bfloat16")
    loaded = reloaded(model, tmp_path)
    assert {name: loaded.get_config()[name] for name in given} == given
    assert loaded.name == "writer" and loaded.dtype_policy.name == "mixed_bfloat16"
    np.testing.assert_array_equal(to_numpy(model(ids(kind))), to_numpy(loaded(ids(kind))))


@pytest.mark.parametrize("arguments", [{"adaptive": True}, {"halting_options": {"threshold": 0.5}}])
def test_halting_needs_steps_of_one_block(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}")):
        Transformer(**BLOCKS, **arguments)


@pytest.mark.parametrize("attention", [None, "softmax"])
def test_options_that_an_attention_has_not_are_refused(attention):
    with pytest.raises(ValueError, match="attention_options"):
        Seq2Seq(**RECURRENT, attention=attention, attention_options={"gate": "tanh"})
