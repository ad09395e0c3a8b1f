import keras
import numpy as np
import pytest
from pair_kinds import FIRST, SECOND, answer, lively, make
from reference import softmax
from tools import to_numpy

from keras_quasiattn.models import PairClassifier


def relu_network(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    for kernel, bias in zip(weights[::2], weights[1::2], strict=True):
        x = np.maximum(x @ kernel + bias, 0)
    return x


def test_one_pair_after_the_paper():
    """Eqs. 1–5 in NumPy, for a pair without padding, biases and all."""
    model = lively(make("softmax"))
    table, projection, *rest = (weight.astype("float64") for weight in model.get_weights())
    attend, compare, aggregate, last = rest[:4], rest[4:8], rest[8:12], rest[12:]
    first, second = FIRST[0], SECOND[1]
    a, b = table[first] @ projection, table[second] @ projection
    products = relu_network(a, attend) @ relu_network(b, attend).T
    beta, alpha = softmax(products) @ b, softmax(products.T) @ a
    v1 = relu_network(np.concatenate([a, beta], 1), compare).sum(0)
    v2 = relu_network(np.concatenate([b, alpha], 1), compare).sum(0)
    logits = relu_network(np.concatenate([v1, v2]), aggregate) @ last[0] + last[1]
    np.testing.assert_allclose(
        answer(model, first[None], second[None])[0], logits, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("kind", ["softmax", "intra", "coda"])
def test_explained_logits_are_those_of_the_model(kind):
    model = lively(make(kind, dropout=0.5))
    explained = {name: to_numpy(x) for name, x in model.explain(FIRST, SECOND).items()}
    np.testing.assert_allclose(explained.pop("logits"), answer(model), atol=1e-6)
    real = (FIRST != 0)[:, :, None] & (SECOND != 0)[:, None, :]
    if kind == "coda":
        assert list(explained) == ["weights"]
        assert not explained["weights"][~real].any() and explained["weights"][real].any()
    else:
        for side, shown in (("first", real), ("second", real.swapaxes(1, 2))):
            weights = explained[f"weights_{side}"]
            assert not weights[~shown].any()
            np.testing.assert_allclose(weights.sum(-1), shown.any(-1), atol=1e-5)


@pytest.mark.parametrize(("intra_attention", "published"), [(False, 380_000), (True, 580_000)])
def test_as_many_parameters_as_published_for_snli(intra_attention, published):
    model = PairClassifier(
        10,
        3,
        projection_dim=200,
        intra_attention=intra_attention,
        train_embedding=False,
        attention="softmax",
    )
    count = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    assert abs(count - published) < 0.01 * published


def test_the_initializer_makes_every_kernel():
    model = make("intra", units=64, kernel_initializer=keras.initializers.RandomNormal(stddev=0.01))
    kernels = [weight for weight in model.weights if weight.path.endswith("kernel")]
    assert len(kernels) == 10
    values = [to_numpy(kernel) for kernel in kernels]
    assert all(0.006 < value.std() < 0.014 for value in values)
    assert len({float(value.flat[0]) for value in values}) == len(values)
    assert PairClassifier.from_config(model.get_config()).get_config() == model.get_config()


def test_exact_matches_are_a_feature_of_the_words():
    """It acts like one more feature of the embedding."""
    model = lively(make("softmax", exact_match=True))
    plain = make("softmax", embedding_dim=model.embedding.output_dim + 1)
    table, *rest = model.get_weights()
    first, second = FIRST[:1], SECOND[:1]
    answers = []
    for side, other in ((first, second), (second, first)):
        found = np.isin(side, other).astype("float32")
        assert 0 < found[side != 0].sum() < (side != 0).sum()
        answers.append(np.concatenate([table[side], found[..., None]], axis=-1))
    network = plain.get_layer("network")
    network.set_weights(rest)
    logits = network(answers, mask=[first != 0, second != 0])
    np.testing.assert_allclose(to_numpy(logits), answer(model, first, second), atol=1e-5)


def test_coda_options_change_the_answer():
    plain, sharp = lively(make("coda")), make("coda", attention_options={"alpha": 5.0})
    sharp.set_weights(plain.get_weights())
    assert np.abs(answer(plain) - answer(sharp)).max() > 1e-4
