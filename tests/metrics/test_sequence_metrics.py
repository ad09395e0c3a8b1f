import math

import keras
import numpy as np
import pytest

from keras_quasiattn.metrics import SequenceAccuracy, SequencePerplexity, perplexity

TARGETS = np.array([[5, 3, 1, 0], [4, 1, 0, 0], [2, 2, 2, 1]])


def logits_of(ids, dtype="float32"):
    """Return logits whose argmax is `ids`, with noise below it."""
    noise = np.random.default_rng(0).uniform(-1, 1, (*np.shape(ids), 7))
    return (noise + 3.0 * np.eye(7)[ids]).astype(dtype)


def accuracy_of(predicted, targets=TARGETS, weight=None, **settings):
    metric = SequenceAccuracy(**settings)
    metric.update_state(targets, logits_of(np.asarray(predicted)), weight)
    return float(metric.result())


def changed(*positions):
    predicted = TARGETS.copy()
    for position in positions:
        predicted[position] = 6
    return predicted


def test_rows_of_padding_do_not_count():
    targets = np.concatenate([TARGETS, np.zeros((5, 4), int)])
    predicted = np.concatenate([changed((0, 0)), np.full((5, 4), 6)])
    assert accuracy_of(predicted, targets) == pytest.approx(2 / 3)
    assert accuracy_of(np.zeros((2, 4), int), np.zeros((2, 4), int)) == 0.0


@pytest.mark.parametrize("dtype", ["float32", "bool", "int32"])
def test_mask_of_positions(dtype):
    mask = np.ones((3, 4), dtype)
    mask[0, 1] = 0
    assert accuracy_of(changed((0, 1)), weight=mask) == 1.0
    assert accuracy_of(changed((0, 2)), weight=mask) == pytest.approx(2 / 3)
    mask[2] = 0
    assert accuracy_of(changed((0, 2)), weight=mask) == pytest.approx(1 / 2)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_weights_of_sequences(shape):
    weight = np.array([1.0, 0.0, 3.0]).reshape(shape)
    assert accuracy_of(changed((0, 0), (1, 0)), weight=weight) == pytest.approx(3 / 4)


def test_other_padding():
    assert accuracy_of(changed((0, 3)), pad_id=6) == pytest.approx(2 / 3)


def test_several_batches_are_exact_and_reset():
    metric = SequenceAccuracy()
    random = np.random.default_rng(1)
    right = total = 0
    for size in (1, 4, 9, 2):
        targets = random.integers(0, 3, (size, 3))
        predicted = np.where(random.random((size, 3)) < 0.8, targets, 6)
        metric.update_state(targets, logits_of(predicted))
        rows = [(t, p) for t, p in zip(targets, predicted, strict=True) if t.any()]
        right += sum((p[t != 0] == t[t != 0]).all() for t, p in rows)
        total += len(rows)
    assert 0 < right < total
    assert float(metric.result()) == pytest.approx(right / total, abs=1e-7)
    metric.reset_state()
    assert float(metric.result()) == 0.0


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_low_precision_logits_and_policy_count_exactly(policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        metric = SequenceAccuracy()
        targets = np.ones((3000, 2), int)
        logits = keras.ops.cast(logits_of(targets), policy.removeprefix("mixed_"))
        for _ in range(2):
            metric.update_state(targets, logits)
        metric.update_state(targets[:1], keras.ops.cast(logits_of(targets[:1] + 1), logits.dtype))
        # 6001 is beyond the whole numbers of both 16-bit types.
        assert float(metric.count) == 6001.0 and float(metric.total) == 6000.0
    finally:
        keras.config.set_dtype_policy(before)


def test_config_round_trip():
    metric = SequenceAccuracy(pad_id=3, name="whole", dtype="float64")
    again = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert type(again) is SequenceAccuracy
    assert again.get_config() == metric.get_config()
    assert (again.pad_id, again.name, again.dtype) == (3, "whole", "float64")
    assert keras.saving.get_registered_name(SequenceAccuracy) == "keras_quasiattn>SequenceAccuracy"


@pytest.mark.parametrize(
    ("shapes", "complaint"),
    [
        (((3,), (3, 7), None), r"`y_true` must have shape \(B, T\) and `y_pred` \(B, T, V\)"),
        (((3, 4), (3, 4, 7), (3, 4, 1)), r"`sample_weight` must have shape .*3, 4, 1"),
    ],
)
def test_wrong_ranks_are_named(shapes, complaint):
    arrays = [None if shape is None else np.ones(shape) for shape in shapes]
    with pytest.raises(ValueError, match=complaint):
        SequenceAccuracy().update_state(*arrays)


def test_weights_of_sequences_were_taken_for_those_of_positions():
    with pytest.raises(ValueError, match=r"`sample_weight` must have shape \(B, T\)\. .*=\(4,\)"):
        SequencePerplexity().update_state(np.ones((4, 4)), np.ones((4, 4, 7)), np.ones(4))


def test_a_uniform_choice_has_as_many_as_there_are():
    assert perplexity(7 * math.log(50), 7) == pytest.approx(50)
    assert perplexity(0.0, 3) == 1


def test_a_hopeless_model_is_infinite_and_a_broken_one_no_number():
    assert perplexity(1e6, 1) == perplexity(math.inf, 1) == math.inf
    assert math.isnan(perplexity(math.nan, 1))


@pytest.mark.parametrize("tokens", [0, -1])
def test_no_tokens_are_refused(tokens):
    with pytest.raises(ValueError, match=f"`tokens` must be at least 1. Received: tokens={tokens}"):
        perplexity(1.0, tokens)


def test_the_metric_of_a_set_is_the_function_of_its_sums():
    logits = np.random.default_rng(0).normal(size=(3, 4, 6)).astype("float32")
    targets = np.array([[2, 3, 1, 0], [5, 1, 0, 0], [1, 0, 0, 0]])
    losses = (
        np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    )
    metric = SequencePerplexity()
    for rows in (slice(0, 1), slice(1, 3)):
        metric.update_state(targets[rows], logits[rows])
    assert float(metric.result()) == pytest.approx(
        perplexity(losses[targets != 0].sum(), 6), rel=1e-5
    )
    weight = (targets == 1).astype("float32") * 0.5  # a position counts or does not
    metric.reset_state()
    metric.update_state(targets, logits, weight)
    assert float(metric.result()) == pytest.approx(
        perplexity(losses[targets == 1].sum(), 3), rel=1e-5
    )
    assert SequencePerplexity.from_config(metric.get_config()).get_config() == metric.get_config()
