import functools
import inspect
import itertools

import keras
import numpy as np
import pytest
from keras import ops
from tools import sampled

from keras_quasiattn.models import Seq2Seq, beam_search, greedy_search

V, B, S, T = 11, 4, 6, 4
SMALL = {"vocabulary_size": V, "embedding_dim": 6, "units": 5, "num_layers": 1}
CENTERED = {
    "gate_range": "centered",
    "center_similarity": True,
    "alpha": "learned",
    "scaling": "none",
}
ATTENTIONS = {
    "none": {"num_layers": 2},
    "softmax": {"attention": "softmax", "num_layers": 2},
    "coda": {"attention": "coda", "num_layers": 2},
    "coda_centered": {"attention": "coda", "attention_options": CENTERED},
}
every_attention = pytest.mark.parametrize("attention", ATTENTIONS)


def ids(seed=0):
    generator = np.random.default_rng(seed)
    source, target = generator.integers(2, V, (B, S)), generator.integers(2, V, (B, T))
    source[1, 4:] = 0  # a padded row
    source[2] = 0  # a row of nothing but padding
    target[:, 0] = 1
    target[1, 3:] = 0
    return {"source": source.astype("int32"), "target": target.astype("int32")}


def make(attention, **changed):
    """A model whose weights are large enough to tell sources and pasts apart."""
    model = Seq2Seq(**{**SMALL, **ATTENTIONS[attention], **changed})
    generator = np.random.default_rng(3)
    for weight in model.weights:
        if len(weight.shape):
            weight.assign(generator.normal(size=weight.shape))
    return model


def numpy(x):
    return ops.convert_to_numpy(x)


@functools.cache
def made(attention):
    """A model that no test changes, and its logits."""
    model = make(attention)
    return model, numpy(model(ids()))


@every_attention
def test_steps_from_the_cache_give_the_full_pass(attention):
    (model, want), inputs = made(attention), ids()
    cache = model.start_cache(inputs["source"], T)
    assert all(leaf.shape[0] == B for leaf in keras.tree.flatten(cache))
    for index in range(T):
        logits, cache = model.step(inputs["target"][:, index], index, cache)
        real = inputs["target"][:, index] != 0
        np.testing.assert_allclose(numpy(logits)[real], want[real, index], atol=1e-5)


@every_attention
def test_padding_and_later_tokens_change_nothing(attention):
    (model, out), inputs = made(attention), ids()
    assert np.isfinite(out).all()
    for row, (sources, targets) in enumerate([(S, T), (4, 3), (1, T)]):
        short = {"source": inputs["source"][row : row + 1, :sources]}
        short["target"] = inputs["target"][row : row + 1, :targets]
        np.testing.assert_allclose(numpy(model(short))[0], out[row, :targets], atol=1e-5)
    inputs["target"][0, 3:] = 2
    np.testing.assert_allclose(numpy(model(inputs))[0, :3], out[0, :3], atol=1e-5)


@every_attention
def test_both_ends_of_the_source_reach_the_answer(attention):
    (model, out), inputs = made(attention), ids()
    for position in (0, S - 1):
        source = inputs["source"].copy()
        source[0, position] = 2 + (source[0, position] - 1) % (V - 2)
        assert np.abs(numpy(model({**inputs, "source": source}))[0] - out[0]).max() > 1e-3


@every_attention
def test_searches_agree_with_each_other_and_with_the_full_pass(attention):
    (model, _), source = made(attention), ids()["source"]
    greedy, beam_of_one, beam = (
        [numpy(x) for x in search(model.step, model.start_cache(source, 6), 6, **arguments)]
        for search, arguments in (
            (greedy_search, {}),
            (beam_search, {"beam_width": 1, "alpha": 0.0}),
            (beam_search, {"beam_width": 3}),
        )
    )
    np.testing.assert_array_equal(greedy[0], beam_of_one[0])
    np.testing.assert_allclose(greedy[1], beam_of_one[1], atol=1e-5)
    assert len({tuple(row) for row in greedy[0].tolist()}) > 1
    for tokens, total in (greedy, beam):
        target = np.concatenate([np.ones((B, 1), int), tokens[:, :-1]], axis=1)
        every = numpy(ops.log_softmax(model({"source": source, "target": target}), axis=-1))
        want = np.take_along_axis(every, tokens[..., None], axis=2)[..., 0]
        np.testing.assert_allclose(total, (want * (tokens != 0)).sum(1), atol=1e-4)
    alone = beam_search(model.step, model.start_cache(source[1:2, :4], 6), 6, beam_width=3)
    np.testing.assert_array_equal(numpy(alone[0])[0], beam[0][1])


@every_attention
def test_explained_logits_are_those_of_the_model(attention):
    model, inputs = make(attention, dropout=0.5), ids()
    answer = {name: numpy(value) for name, value in model.explain(**inputs).items()}
    np.testing.assert_allclose(answer["logits"], numpy(model(inputs)), atol=1e-6)
    assert ("weights" in answer) == (attention != "none")
    if attention != "none":
        weights = answer["weights"]
        assert weights.shape == (B, T, S)
        pairs = (inputs["target"] != 0)[:, :, None] & (inputs["source"] != 0)[:, None]
        assert not weights[~pairs].any() and np.abs(weights[pairs]).min() > 0
    if attention == "softmax":
        np.testing.assert_allclose(weights.sum(-1), pairs.any(-1), atol=1e-5)


@every_attention
def test_one_training_step_moves_every_weight(attention):
    model, inputs = make(attention), ids()
    assert model.output.shape == (None, None, V)
    model.compile(
        keras.optimizers.SGD(0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
        run_eagerly=True,
    )
    labels = np.roll(inputs["target"], -1, axis=1)
    before = [numpy(w) for w in model.trainable_weights]
    model.train_on_batch(inputs, labels)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.abs(numpy(weight) - old).max() > 0, weight.path
        assert np.isfinite(numpy(weight)).all(), weight.path


@pytest.mark.parametrize("attention", ["none", "softmax"])
def test_losses_leave_target_padding_out(attention):
    model, inputs = make(attention), ids()
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True
    )
    real = inputs["target"] != 0
    loss = float(np.ravel(model.test_on_batch(inputs, np.where(real, 4, 0)))[0])
    log_probability = numpy(ops.log_softmax(model(inputs), axis=-1))[..., 4]
    assert loss == pytest.approx(-log_probability[real].mean(), rel=1e-5)


def test_sizes_are_those_of_the_write_up():
    plain, attending = Seq2Seq(V), Seq2Seq(V, attention="softmax")
    lstm = 4 * 100 * (100 + 100 + 1)
    assert plain.count_params() == 2 * V * 100 + 2 * lstm + 101 * V
    bridges, keys = 2 * 100 * 201, 200 * 100
    assert attending.count_params() == 2 * V * 100 + 3 * lstm + bridges + keys + 301 * V


NON_DEFAULT = {
    "vocabulary_size": V,
    "attention": "coda",
    "attention_options": {"gate": "arctan"},
    "embedding_dim": 6,
    "units": 5,
    "num_layers": 3,
    "dropout": 0.25,
}


def test_every_constructor_argument_survives_save_and_load(tmp_path):
    parameters = inspect.signature(Seq2Seq.__init__).parameters
    assert set(parameters) - {"self", "kwargs"} == set(NON_DEFAULT)
    model = Seq2Seq(**NON_DEFAULT, name="reader", dtype="mixed_bfloat16")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert {name: loaded.get_config()[name] for name in NON_DEFAULT} == NON_DEFAULT
    assert loaded.name == "reader" and loaded.dtype_policy.name == "mixed_bfloat16"
    np.testing.assert_array_equal(numpy(model(ids())), numpy(loaded(ids())))


@pytest.mark.parametrize(
    "policy,attention",
    sampled(itertools.product(["mixed_float16", "mixed_bfloat16"], ["none", "softmax", "coda"]), 3),
)
def test_low_precision_gives_finite_float32_logits(policy, attention):
    model, inputs = make(attention, dtype=policy), ids()
    logits = model(inputs)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32" == model.output.dtype
    assert np.isfinite(numpy(logits)).all()
    step, _ = model.step(inputs["target"][:, 0], 0, model.start_cache(inputs["source"], T))
    np.testing.assert_allclose(numpy(step), numpy(logits)[:, 0], atol=0.2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"vocabulary_size": 1}, "vocabulary_size=1"),
        ({"embedding_dim": 0}, "embedding_dim=0"),
        ({"units": -1}, "units=-1"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"attention": "hard"}, "attention='hard'"),
        ({"attention": "softmax", "attention_options": {"gate": "tanh"}}, "attention_options"),
        ({"attention_options": {"gate": "tanh"}}, "attention_options"),
    ],
)
def test_bad_arguments_are_named(changed, message):
    with pytest.raises(ValueError, match=message):
        Seq2Seq(**{**SMALL, **changed})
