"""CoDA with scales from the first batch."""

import keras
import numpy as np
import pytest
from tools import reloaded, to_numpy

from keras_quasiattn import layers, models
from keras_quasiattn.attention.coda.calibration import can_be_calibrated
from keras_quasiattn.core.recording import recording

X = np.random.default_rng(0).normal(size=(3, 7, 8)).astype("float32")
MASK = np.arange(7) < np.array([[7], [4], [0]])


def statistics(layer, *inputs, **masks):
    """Return the standard deviation of E and the mean gate of each head, over visible pairs."""
    with recording() as found:
        layer(*inputs, **masks)
    similarity, gate = (to_numpy(found[name].values) for name in ("similarity", "gate"))
    visible = np.broadcast_to(to_numpy(found["weights"].visible), gate.shape)
    by_head = zip(*(np.moveaxis(x, 1, 0) for x in (similarity, gate, visible)), strict=True)
    return [(np.arctanh(e[seen].astype("float64")).std(), g[seen].mean()) for e, g, seen in by_head]


@pytest.mark.parametrize("alpha", [1.0, "learned"])
def test_multi_head(alpha):
    layer = layers.MultiHeadCoDA(3, 5, scaling="calibrated", alpha=alpha)
    masks = {"query_mask": MASK, "value_mask": MASK}
    layer(X, X)
    assert can_be_calibrated(layer)
    models.calibrate_attention(layer, X, X, **masks)
    np.testing.assert_allclose(
        statistics(layer, X, X, **masks), [[1, 0.5]] * 3, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize(
    "masks",
    [{"query_mask": MASK, "value_mask": MASK}, {"attention_mask": MASK[:, None]}],
    ids=["all", "keys alone"],  # as KerasHub's layers do
)
def test_what_the_mask_hides_has_no_effect(masks):
    scales = []
    for padding in (0.0, 50.0):
        keras.utils.set_random_seed(0)
        layer = layers.MultiHeadCoDA(2, 4, scaling="calibrated")
        x = keras.ops.cast(np.where(MASK[..., None], X, padding), "float32")
        layer(X, X)
        models.calibrate_attention(layer, x, x, **masks)
        scales.append(to_numpy([weight.value for weight in layer.non_trainable_weights]))
    np.testing.assert_array_equal(*scales)


def test_each_layer_sees_the_calibrated_layers_before_it():
    inputs = keras.Input((7, 8))
    first = layers.MultiHeadCoDA(2, 4, scaling="calibrated")
    second = layers.MultiHeadCoDA(2, 4, scaling="calibrated")
    hidden = first(inputs, inputs)
    model = keras.Model(inputs, [hidden, second(hidden, hidden)])
    models.calibrate_attention(model, X)
    hidden = model(X)[0]
    for layer, x in ((first, X), (second, hidden)):
        with recording() as found:
            layer(x, x)
        np.testing.assert_allclose(to_numpy(found["gate"].values).mean((0, 2, 3)), 0.5, atol=1e-3)


def test_a_model_whose_call_is_traced_was_left_alone(tensorflow_only):
    import tensorflow as tf

    class Traced(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.attention = layers.MultiHeadCoDA(2, 4, scaling="calibrated")

        @tf.function
        def call(self, x):
            return self.attention(x, x)

    model = Traced()
    model(X)
    models.calibrate_attention(model, X)
    everything = {"value_mask": np.ones((3, 7), "bool")}
    found = statistics(model.attention, X, X, **everything)
    np.testing.assert_allclose(found, [[1, 0.5]] * 2, rtol=1e-3, atol=1e-3)


def test_pairs_and_saving(tmp_path):
    options = {"attention": "coda", "attention_options": {"scaling": "calibrated"}}
    model = models.PairClassifier(9, 2, embedding_dim=6, units=5, **options)
    ids = {
        "first": np.array([[1, 2, 3, 0], [4, 5, 0, 0]]),
        "second": np.array([[3, 2, 6], [7, 8, 1]]),
    }
    before = to_numpy(model(ids))
    models.calibrate_attention(model, ids)
    answer = to_numpy(model(ids))
    assert np.abs(answer - before).max() > 1e-5
    loaded = reloaded(model, tmp_path)
    np.testing.assert_allclose(to_numpy(loaded(ids)), answer, atol=1e-6)
    # A second calibration finds the same scales.
    models.calibrate_attention(loaded, ids)
    np.testing.assert_allclose(to_numpy(loaded(ids)), answer, atol=1e-5)


def test_equal_vectors_and_numbers_that_are_not_finite_keep_the_scales():
    equal = np.ones((2, 3, 8), "float32")
    broken = np.where(np.arange(7)[:, None] == 3, np.nan, X).astype("float32")
    for layer, usual, inputs in (
        (layers.CoDA(4, scaling="calibrated"), [[equal, equal]], [[equal, equal]]),
        (layers.MultiHeadCoDA(2, 4, scaling="calibrated"), [X, X], [broken, broken]),
    ):
        layer(*usual)
        models.calibrate_attention(layer, *inputs)
        scales = [w for w in layer.non_trainable_weights if w.name.endswith("_scale")]
        assert len(scales) == 2 and all(np.all(to_numpy(w.value) == 0.25) for w in scales)


def test_other_layers_are_left_alone():
    layer = layers.MultiHeadCoDA(2, 4)
    expected = to_numpy(layer(X, X))
    assert not can_be_calibrated(layer)
    models.calibrate_attention(layer, X, X)
    np.testing.assert_array_equal(to_numpy(layer(X, X)), expected)


def test_without_a_layer_or_numbers_it_is_an_error():
    with pytest.raises(ValueError, match="`layer` must be a Keras layer or model. Received"):
        models.calibrate_attention(None, X)
    layer = layers.MultiHeadCoDA(2, 4, scaling="calibrated")
    layer(X, X)
    symbolic = keras.Input((7, 8))
    with pytest.raises(ValueError, match="needs numbers: call it eagerly"):
        models.calibrate_attention(layer, symbolic, symbolic)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        traced = tf.function(lambda x: models.calibrate_attention(layer, x, x), autograph=False)
        with pytest.raises(ValueError, match="needs numbers: call it eagerly"):
            traced(tf.constant(X))
