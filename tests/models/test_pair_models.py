"""What holds for every model of two texts."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from pair_kinds import CLASSES, FIRST, KINDS, LABELS, SECOND, answer, lively, make, pair, to_numpy

every_kind = pytest.mark.parametrize("kind", KINDS)
MIXTURES = ("mixture", "elbo", "reinforce")


@every_kind
def test_padding_changes_nothing_and_empty_texts_have_finite_answers(kind: str) -> None:
    model = make(kind)
    whole = answer(model)
    assert whole.shape == (len(FIRST), CLASSES) and np.isfinite(whole).all()
    longer = answer(model, np.pad(FIRST, ((0, 0), (0, 3))), np.pad(SECOND, ((0, 0), (0, 2))))
    np.testing.assert_allclose(longer, whole, atol=1e-5)
    np.testing.assert_allclose(answer(model, FIRST[1:2, :2], SECOND[1:2]), whole[1:2], atol=1e-5)
    np.testing.assert_allclose(answer(model, FIRST[3:, :3], SECOND[3:, :1]), whole[3:], atol=1e-5)
    nothing = np.zeros((1, 2), int)
    assert np.isfinite(answer(model, nothing, nothing)).all()
    # What the embedding says of padding, too.
    table = to_numpy(model.embedding.embeddings).copy()
    table[0] = 1e3
    model.embedding.set_weights([table])
    np.testing.assert_allclose(answer(model), whole, atol=1e-5)


@every_kind
def test_every_text_and_every_class_matters(kind: str) -> None:
    model = lively(make(kind))
    base = answer(model, FIRST[:1], SECOND[:1])
    for side in (0, 1):
        texts = [FIRST[:1].copy(), SECOND[:1].copy()]
        texts[side][0, 1] = 11
        assert (np.abs(answer(model, *texts) - base) > 1e-4).any()


@every_kind
def test_a_gradient_reaches_every_weight_and_the_loss_falls(kind: str) -> None:
    model = make(kind, **({} if kind in MIXTURES else {"dropout": 0.0}))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"], jit_compile=False)
    before = [to_numpy(variable).copy() for variable in model.trainable_variables]
    first_loss = model.evaluate(pair(), LABELS, verbose=0)[0]
    history = model.fit(pair(), LABELS, epochs=25, batch_size=4, verbose=0)
    assert model.evaluate(pair(), LABELS, verbose=0)[0] < 0.8 * first_loss
    assert history.history["loss"][-1] < history.history["loss"][0]
    for variable, value in zip(model.trainable_variables, before, strict=True):
        assert (to_numpy(variable) != value).any(), variable.path


@every_kind
def test_every_argument_survives_saving(kind: str, tmp_path: Path) -> None:
    changed: dict[str, Any] = {"train_embedding": False, "name": "mine"}
    model = make(kind, **changed)
    assert model.embedding.embeddings.path not in {variable.path for variable in model.trainable_variables}
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    assert loaded.get_config() == model.get_config()
    assert all(loaded.get_config()[name] == value for name, value in changed.items())
    assert len(loaded.weights) == len(model.weights)
    for one, other in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other), err_msg=other.path)
    np.testing.assert_array_equal(answer(loaded), answer(model))


@pytest.mark.parametrize(
    ("kind", "policy"),
    [*((kind, "mixed_float16") for kind in KINDS), ("softmax", "mixed_bfloat16"), ("both", "mixed_bfloat16")],
)
def test_answers_are_float32_and_finite_in_half_precision(kind: str, policy: str) -> None:
    model, full = make(kind, dtype=policy), make(kind)
    full.set_weights([to_numpy(weight) for weight in model.weights])
    assert model.compute_dtype == policy.removeprefix("mixed_")
    output = model(pair())
    assert keras.backend.standardize_dtype(output.dtype) == "float32"
    np.testing.assert_allclose(to_numpy(output), answer(full), atol=0.03)


@pytest.mark.parametrize("kind", ["intra", "coda", "both", "reinforce"])
@pytest.mark.usefixtures("tensorflow_only")
def test_compiled_by_xla(kind: str) -> None:
    model = make(kind)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=True)
    np.testing.assert_allclose(model.predict(pair(), verbose=0), answer(model), atol=1e-5)
    assert np.isfinite(model.train_on_batch(pair(), LABELS))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("elbo", "reinforce")])
def test_dropout_is_on_in_training_alone(kind: str) -> None:
    model = lively(make(kind, **({"common": {"dropout": 0.5}} if kind in MIXTURES else {"dropout": 0.5})))
    np.testing.assert_array_equal(answer(model), answer(model))
    noisy = [to_numpy(model(pair(), training=True)) for _ in range(2)]
    assert (noisy[0] != noisy[1]).any()


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("softmax", {"attention": "hard"}, "`attention` must be one of .*hard"),
        ("softmax", {"vocabulary_size": 0}, "`vocabulary_size` must be a positive integer"),
        ("softmax", {"embedding_dim": 0}, "`embedding_dim` must be a positive integer"),
        ("softmax", {"projection_dim": 0}, "`projection_dim` must be a positive integer"),
        ("softmax", {"num_layers": 0}, "`num_layers` must be a positive integer"),
        ("softmax", {"dropout": 1.0}, "`dropout` must be a number in"),
        ("softmax", {"intra_options": {"max_distance": 2}}, "`intra_options` are options of"),
        ("both", {"interaction": "all"}, "`interaction` must be one of .*all"),
        ("both", {"difference": "none"}, "`difference` must be one of .*none"),
        ("both", {"pooling": "last"}, "`mode` must be one of .*last"),
        ("both", {"num_dense_layers": 0}, "`num_dense_layers` must be a positive integer"),
        ("mixture", {"components": []}, "`components` must have at least one"),
        ("mixture", {"num_classes": 1}, "`num_classes` must be at least 2"),
        ("mixture", {"objective": "vae"}, "`objective` must be one of .*vae"),
        ("elbo", {"estimator": "none"}, "`estimator` must be one of .*none"),
        ("elbo", {"kl_weight": -1.0}, "`kl_weight` must not be negative"),
    ],
)
def test_arguments_out_of_range(kind: str, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(kind, **changed)
