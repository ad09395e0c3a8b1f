import keras
import numpy as np
import pytest
from tools import run_with_gradients

from keras_quasiattn.models import SequenceCrossentropy, Transformer


def reference(ids: np.ndarray, logits: np.ndarray, smoothing: float) -> np.ndarray:
    """Compute the cross-entropy with a smoothed one-hot target, in float64."""
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    vocabulary = logits.shape[-1]
    target = np.eye(vocabulary)[ids] * (1 - smoothing) + smoothing / vocabulary
    return -(target * log_probabilities).sum(-1)


@pytest.fixture
def batch():
    random = np.random.default_rng(1)
    ids = random.integers(0, 11, (4, 6))
    logits = random.normal(0, 3, (4, 6, 11)).astype(np.float32)
    mask = np.arange(6) < np.array([[6], [1], [4], [0]])
    return ids, logits, mask


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_every_position_is_that_of_the_reference(batch, smoothing):
    ids, logits, _ = batch
    loss = SequenceCrossentropy(smoothing, reduction=None)
    got = keras.ops.convert_to_numpy(loss(ids, logits))
    np.testing.assert_allclose(got, reference(ids, logits, smoothing), rtol=2e-6)


def test_an_id_that_a_logit_forbids_made_the_loss_nan(batch):
    ids, logits, _ = batch
    forbidden = np.concatenate([logits, np.full((*ids.shape, 1), -np.inf, "float32")], axis=-1)
    loss = SequenceCrossentropy(reduction=None)
    got = keras.ops.convert_to_numpy(loss(ids, forbidden))
    np.testing.assert_allclose(got, reference(ids, logits, 0.0), rtol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gradient_comes_in_the_dtype_of_the_loss(batch, dtype):
    ids, logits, mask = batch
    loss = SequenceCrossentropy(0.1, reduction=None, dtype=dtype)
    _, [gradient] = run_with_gradients(lambda x: [loss(ids, x)], [logits], [np.ones(mask.shape)])
    assert gradient.dtype == np.float32  # that of the logits
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient.sum(-1), 0, atol=5e-2)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_gradient_is_the_probabilities_less_the_smoothed_target(batch, smoothing):
    ids, logits, mask = batch
    logits[0, 0] = 60 * logits[0, 0]  # probabilities of 0 and 1
    cotangent = np.random.default_rng(2).normal(size=mask.shape).astype(np.float32) * mask
    loss = SequenceCrossentropy(smoothing, reduction=None)
    _, [gradient] = run_with_gradients(lambda x: [loss(ids, x)], [logits], [cotangent])
    step = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    target = np.eye(11)[ids] * (1 - smoothing) + smoothing / 11
    expected = (step / step.sum(-1, keepdims=True) - target) * cotangent[..., None]
    np.testing.assert_allclose(gradient, expected, atol=2e-6)


def test_weights_leave_padding_out(batch):
    ids, logits, mask = batch
    loss = SequenceCrossentropy(0.1, reduction="sum")
    got = float(loss(ids, logits, sample_weight=mask.astype("float32")))
    assert got == pytest.approx((reference(ids, logits, 0.1) * mask).sum(), rel=2e-6)
    others = np.where(mask, ids, 10 - ids), np.where(mask[..., None], logits, 50.0)
    assert float(loss(*others, sample_weight=mask.astype("float32"))) == got


def test_mask_of_the_models_logits_makes_it_the_mean_over_real_tokens(batch):
    ids, _, mask = batch
    sizes = {
        "num_layers": 1,
        "hidden_dim": 8,
        "intermediate_dim": 8,
        "num_heads": 2,
        "dropout": 0.0,
    }
    model = Transformer(vocabulary_size=11, **sizes)
    target = np.where(mask, ids + 1, 0).clip(max=10)
    logits = model({"source": ids, "target": target})
    expected = reference(ids, keras.ops.convert_to_numpy(logits), 0.1)[mask].mean()
    assert float(SequenceCrossentropy(0.1)(ids, logits)) == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, float("nan")])
def test_share_out_of_range_is_named(smoothing):
    with pytest.raises(ValueError, match=rf"`label_smoothing` must be a number.*{smoothing}"):
        SequenceCrossentropy(label_smoothing=smoothing)


def test_config_round_trip():
    loss = SequenceCrossentropy(label_smoothing=0.3, name="other", reduction="sum")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert again.get_config() == loss.get_config()
    assert (again.label_smoothing, again.name, again.reduction) == (0.3, "other", "sum")
