"""Properties of every model of two texts."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import pytest
from pair_kinds import CLASSES, FIRST, KINDS, LABELS, SECOND, answer, lively, make, pair
from tools import long_except, reloaded, to_numpy

# These kinds contain every part of the others: "both" has the parts of "none", "attention" and
# "conflict".
CHOSEN = ("coda", "intra", "no_projection", "both", "mixture")
MIXTURES = ("mixture", "elbo", "reinforce")


def kinds(*chosen: str, among: Iterable[str] = KINDS) -> pytest.MarkDecorator:
    """Parametrize over those kinds; the others of `among` are complete tests."""
    return pytest.mark.parametrize("kind", long_except(among, *chosen, others=pytest.mark.complete))


@kinds(*CHOSEN, "softmax")
def test_padding_changes_nothing_and_empty_texts_have_finite_answers(kind):
    model = make(kind)
    whole = answer(model)
    assert whole.shape == (len(FIRST), CLASSES) and np.isfinite(whole).all()
    longer = answer(model, np.pad(FIRST, ((0, 0), (0, 3))), np.pad(SECOND, ((0, 0), (0, 2))))
    np.testing.assert_allclose(longer, whole, atol=1e-5)
    np.testing.assert_allclose(answer(model, FIRST[1:2, :2], SECOND[1:2]), whole[1:2], atol=1e-5)
    np.testing.assert_allclose(answer(model, FIRST[3:, :3], SECOND[3:, :1]), whole[3:], atol=1e-5)
    nothing = np.zeros((1, 2), int)
    assert np.isfinite(answer(model, nothing, nothing)).all()
    # The embedding of padding, too.
    table = to_numpy(model.embedding.embeddings).copy()
    table[0] = 1e3
    model.embedding.set_weights([table])
    np.testing.assert_allclose(answer(model), whole, atol=1e-5)


@kinds(*CHOSEN, "softmax", "none")
def test_every_text_and_every_class_matters(kind):
    model = lively(make(kind))
    base = answer(model, FIRST[:1], SECOND[:1])
    for side in (0, 1):
        texts = [FIRST[:1].copy(), SECOND[:1].copy()]
        texts[side][0, 1] = 11
        assert (np.abs(answer(model, *texts) - base) > 1e-4).any()


@kinds(
    "coda", "both", "mixture", among=("softmax", "coda", "intra", "both", "mixture", "reinforce")
)
def test_a_gradient_reaches_every_weight_and_the_loss_falls(kind):
    model = make(kind, **({} if kind in MIXTURES else {"dropout": 0.0}))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"], run_eagerly=True)
    before = [to_numpy(variable).copy() for variable in model.trainable_variables]
    first_loss = model.test_on_batch(pair(), LABELS)[0]
    steps = 18 if kind == "reinforce" else 6  # its gradient is a noisy one
    losses = [model.train_on_batch(pair(), LABELS)[0] for _ in range(steps)]
    assert model.test_on_batch(pair(), LABELS)[0] < 0.8 * first_loss
    assert losses[-1] < losses[0]
    for variable, value in zip(model.trainable_variables, before, strict=True):
        assert (to_numpy(variable) != value).any(), variable.path


@kinds(*CHOSEN, "reinforce")
def test_every_argument_survives_saving(kind, tmp_path):
    changed: dict[str, Any] = {"train_embedding": False, "name": "mine"}
    model = make(kind, **changed)
    assert model.embedding.embeddings.path not in {
        variable.path for variable in model.trainable_variables
    }
    loaded = reloaded(model, tmp_path, compile=False)
    assert loaded.get_config() == model.get_config()
    assert all(loaded.get_config()[name] == value for name, value in changed.items())
    assert len(loaded.weights) == len(model.weights)
    for one, other in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other), err_msg=other.path)
    np.testing.assert_array_equal(answer(loaded), answer(model))


@pytest.mark.parametrize(
    "policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.complete)]
)
@kinds(*CHOSEN)
def test_answers_are_float32_and_finite_in_half_precision(kind, policy):
    model, full = make(kind, dtype=policy), make(kind)
    full.set_weights([to_numpy(weight) for weight in model.weights])
    assert model.compute_dtype == policy.removeprefix("mixed_")
    output = model(pair())
    assert keras.backend.standardize_dtype(output.dtype) == "float32"
    np.testing.assert_allclose(to_numpy(output), answer(full), atol=0.03)


@pytest.mark.parametrize("kind", ["coda", pytest.param("both", marks=pytest.mark.long)])
@pytest.mark.usefixtures("tensorflow_only")
def test_compiled_by_xla(kind):
    import tensorflow as tf

    model, given = make(kind, dropout=0.0), pair()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    weights = [weight.value for weight in model.trainable_weights]

    def step() -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            logits = model(given, training=True)
            total = loss(LABELS, logits)
        return logits, tape.gradient(total, weights)

    logits, gradients = step()
    for one, other in zip(tf.function(step, jit_compile=True)(), (logits, gradients), strict=True):
        for got, expected in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
            np.testing.assert_allclose(
                tf.convert_to_tensor(got), tf.convert_to_tensor(expected), rtol=1e-4, atol=1e-5
            )


@kinds(
    "coda", "both", "mixture", among=[kind for kind in KINDS if kind not in ("elbo", "reinforce")]
)
def test_dropout_is_on_in_training_alone(kind):
    model = lively(
        make(kind, **({"common": {"dropout": 0.5}} if kind in MIXTURES else {"dropout": 0.5}))
    )
    np.testing.assert_array_equal(answer(model), answer(model))
    noisy = [to_numpy(model(pair(), training=True)) for _ in range(2)]
    assert (noisy[0] != noisy[1]).any()


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("softmax", {"projection_dim": 0}, "`projection_dim` must be a positive integer"),
        ("softmax", {"intra_options": {"max_distance": 2}}, "`intra_options` need"),
        ("both", {"pooling": "last"}, "`pooling` must be one of .*last"),
        ("mixture", {"inference": {"units": 3}}, "`inference` needs .*inference={'units': 3}"),
        ("mixture", {"components": []}, "`components` must have at least one"),
        ("mixture", {"num_classes": 1}, "`num_classes` must be at least 2"),
        ("elbo", {"estimator": "none"}, "`estimator` must be one of .*none"),
    ],
)
def test_arguments_out_of_range(kind, changed, message):
    with pytest.raises(ValueError, match=message):
        make(kind, **changed)
