from typing import Any

import keras
import numpy as np
import pytest
from tools import reloaded, to_numpy

from keras_quasiattn.models import TextClassifier, TransformerClassifier

IDS = np.array([[5, 4, 3, 2, 6], [7, 2, 0, 0, 0], [0, 0, 0, 0, 0]])
SIZES = {"vocabulary_size": 20, "num_classes": 3}
RECURRENT = {**SIZES, "embedding_dim": 6, "units": 4}
ENCODER = {**SIZES, "num_layers": 1, "hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}
OPTIONS: dict[str, dict[str, Any]] = {
    "gated": {"units": 4, "network": "feed_forward"},
    "soft": {},
    "local": {"window": 1},
    "none": {},
    "coda": {"num_heads": 2},
    "conflict": {"num_heads": 2},
}


def make(kind: str, **changed: Any) -> keras.Model:
    if kind.startswith("transformer"):
        attention = "coda" if kind == "transformer_coda" else "softmax"
        return TransformerClassifier(**{**ENCODER, "attention": attention, **changed})
    if kind == "convolution":
        return TextClassifier(**{**RECURRENT, **CONVOLUTION, **changed})
    layers = 2 if kind == "gated" else 1
    options = {"attention": kind, "attention_options": OPTIONS[kind], "num_layers": layers}
    return TextClassifier(**{**RECURRENT, **options, **changed})


CONVOLUTION = {
    "encoder": "convolution",
    "num_layers": 1,
    "units": 6,
    "attention_options": OPTIONS["gated"],
}
KINDS = ["gated", "local", "none", "conflict", "convolution", "transformer_coda"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def logits(model: keras.Model, ids: np.ndarray) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(model(ids)))


@every_kind
def test_padding_changes_nothing_and_a_text_of_padding_has_finite_logits(kind):
    model = make(kind)
    whole = logits(model, IDS)
    assert whole.shape == (3, 3) and np.isfinite(whole).all()
    np.testing.assert_allclose(logits(model, IDS[1:2, :2]), whole[1:2], atol=1e-5)
    np.testing.assert_allclose(logits(model, np.pad(IDS, ((0, 0), (0, 4)))), whole, atol=1e-5)


@every_kind
def test_every_word_matters_to_training(kind):
    """A gradient reaches the embedding of every real token, and the loss decreases."""
    model = make(kind)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.1), loss, run_eagerly=True)
    before = [to_numpy(variable) for variable in model.trainable_variables]
    losses = [float(np.ravel(model.train_on_batch(IDS[:2], np.array([0, 2])))[0]) for _ in range(5)]
    assert losses[-1] < 0.7 * losses[0]
    for variable, value in zip(model.trainable_variables, before, strict=True):
        assert (to_numpy(variable) != value).any(), variable.path
    table = before[0] - to_numpy(model.trainable_variables[0])
    assert set(np.unique(IDS[:2])) - {0} <= set(np.flatnonzero(np.abs(table).sum(axis=1)))


@every_kind
def test_explained_logits_are_those_of_the_model(kind):
    model = make(kind, dropout=0.5)
    explained = to_numpy(model.explain(IDS))
    np.testing.assert_allclose(explained["logits"], logits(model, IDS), atol=1e-6)
    if kind in ("gated", "soft", "local", "convolution"):
        weights = explained["weights"]
        assert weights.shape == IDS.shape
        assert not weights[IDS == 0].any()
        assert (weights[:2].sum(axis=1) > 0).all()
    assert ("gates" in explained) == (kind in ("gated", "convolution"))
    if "gates" in explained:
        gates = explained["gates"]
        assert not gates[IDS == 0].any() and gates[:2].any(axis=1).all()
        assert ((weights > 0) == gates).all()


@every_kind
def test_every_argument_survives_saving(kind, tmp_path):
    changed: dict[str, Any] = {"dropout": 0.25, "name": "mine"}
    if not kind.startswith("transformer"):
        changed.update(merge_mode="sum", embedding_dropout=0.5, num_layers=2, train_embedding=False)
    model = make(kind, **changed)
    loaded = reloaded(model, tmp_path, compile=False)
    assert loaded.get_config() == model.get_config()
    assert all(loaded.get_config()[name] == value for name, value in changed.items())
    np.testing.assert_array_equal(logits(loaded, IDS), logits(model, IDS))


def test_a_convolution_reads_its_neighbours_and_an_lstm_the_whole_text():
    """What a word's state depends on, and so what its weight can say about the word."""
    ids = np.array([[5, 4, 3, 2, 6, 7, 8]])
    changed = ids.copy()
    changed[0, 0] = 9
    for encoder, kernel_size, reached in (
        ("convolution", 1, 1),
        ("convolution", 3, 2),
        ("lstm", 3, 7),
    ):
        model = make("soft", encoder=encoder, kernel_size=kernel_size)
        states = keras.Model(model.inputs, model.get_layer("attention").input[0])
        moved = np.abs(to_numpy(states([changed])) - to_numpy(states([ids]))).max(axis=(0, 2))
        assert np.flatnonzero(moved > 1e-7).tolist() == list(range(reached)), encoder


def test_gates_read_words_and_open_gates_over_a_convolution_change_nothing():
    """With every gate open, the model is the one with soft attention over the same states."""
    options = {"kernel_size": 3, "num_layers": 2}
    gated = make("convolution", attention_options={**OPTIONS["gated"], "threshold": 0.0}, **options)
    soft = make("soft", encoder="convolution", units=6, **options)
    attention = gated.get_layer("attention")
    soft.embedding.set_weights(gated.embedding.get_weights())
    soft.get_layer("convolution_0").set_weights(gated.get_layer("convolution_0").get_weights())
    soft.get_layer("convolution_1").set_weights(attention.convolution.get_weights())
    soft.get_layer("attention").kernel.assign(attention.kernel)
    soft.get_layer("logits").set_weights(gated.get_layer("logits").get_weights())
    found, expected = gated.explain(IDS), soft.explain(IDS)
    np.testing.assert_allclose(to_numpy(found["logits"]), to_numpy(expected["logits"]), atol=1e-6)
    np.testing.assert_allclose(to_numpy(found["weights"]), to_numpy(expected["weights"]), atol=1e-6)
    for model in (gated, make("gated")):
        words = model.get_layer("attention").gate_network.hidden.kernel
        assert tuple(words.shape) == (RECURRENT["embedding_dim"], OPTIONS["gated"]["units"])


def test_embedding_that_is_not_trained_stays():
    model = make("soft", train_embedding=False)
    assert model.embedding.embeddings.path not in {
        variable.path for variable in model.trainable_variables
    }


def test_logits_are_float32_in_half_precision():
    for kind in ("gated", "transformer_coda"):
        model = make(kind, dtype="mixed_bfloat16")
        assert model.compute_dtype == "bfloat16"
        assert keras.backend.standardize_dtype(model(IDS).dtype) == "float32"
        np.testing.assert_array_equal(np.isfinite(logits(model, IDS)), True)


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("local", {"attention_options": {"window": 0}}, "`window`"),
        ("convolution", {"kernel_size": 2}, "`kernel_size` must be odd"),
        ("convolution", {"attention": "none"}, "`attention` must not be 'none'"),
        ("none", {"attention_options": {"window": 3}}, "`attention_options` need .*'window': 3"),
        ("transformer", {"num_heads": 3}, "must be divisible by `num_heads`"),
        ("coda", {"attention_options": {"num_heads": 0}}, "`num_heads` must be a positive integer"),
        ("coda", {"attention_options": {"num_heads": 9}}, "`num_heads` must be at most 8, the wi"),
    ],
)
def test_arguments_out_of_range(kind, changed, message):
    with pytest.raises(ValueError, match=message):
        make(kind, **changed)


def test_images_with_channels_first_turned_the_convolutions_of_texts():
    keras.config.set_image_data_format("channels_first")
    try:
        model = make("convolution")
    finally:
        keras.config.set_image_data_format("channels_last")
    assert logits(model, IDS).shape == (3, 3)
