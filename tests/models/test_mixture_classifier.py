import re

import keras
import numpy as np
import pytest
from pair_kinds import CLASSES, FIRST, LABELS, SECOND, answer, lively, make, pair
from tools import to_numpy

COMPONENTS = 3
ROWS = np.eye(CLASSES, dtype="float32")[LABELS]
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def likelihood(model: keras.Model) -> np.ndarray:
    """Return log p(y | c) of the labels, (B, K)."""
    components = to_numpy(model.component_log_probabilities(FIRST, SECOND))
    assert components.shape == (len(FIRST), COMPONENTS, CLASSES)
    return np.take_along_axis(components, LABELS[:, None, None], 2)[..., 0]


def repeated(times: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the pairs and labels `times` times in one batch; each draws its own component."""
    return pair(np.tile(FIRST, (times, 1)), np.tile(SECOND, (times, 1))), np.tile(LABELS, times)


def loss_in_training(
    model: keras.Model,
    labels: np.ndarray = LABELS,
    weights: np.ndarray | None = None,
    inputs: dict[str, np.ndarray] | None = None,
) -> float:
    inputs = pair() if inputs is None else inputs
    return float(model.compute_loss(inputs, labels, model(inputs, training=True), weights))


def test_the_answer_is_the_mean_of_the_components_and_their_loss_the_exact_objective():
    model = make("mixture")
    components = to_numpy(model.component_log_probabilities(FIRST, SECOND))
    np.testing.assert_allclose(np.exp(components).sum(-1), 1, atol=1e-5)
    assert np.abs(components - components.mean(1, keepdims=True)).max() > 1e-3, (
        "components must differ"
    )
    np.testing.assert_allclose(answer(model), np.log(np.exp(components).mean(1)), atol=1e-5)
    model.compile("sgd", LOSS)
    marginal = np.log(np.exp(likelihood(model)).mean(1))
    np.testing.assert_allclose(loss_in_training(model), -marginal.mean(), atol=1e-5)


@pytest.mark.parametrize("kind", ["mixture", "elbo"])
def test_a_list_of_texts_was_a_type_error_in_training_with_a_bound(kind):
    model, named = make(kind), pair()
    model.compile("sgd", LOSS)
    expected = loss_in_training(model)
    for inputs in (list(named.values()), tuple(named.values())):
        np.testing.assert_allclose(loss_in_training(model, inputs=inputs), expected, rtol=1e-5)


def test_wrong_inputs_were_a_type_error_in_training_with_a_bound():
    model, shape = make("elbo"), re.escape(str(FIRST.shape))
    for wrong in ({"first": FIRST}, {"first": FIRST, "other": SECOND}, [FIRST], FIRST):
        with pytest.raises(ValueError, match='`inputs` must be {"first": ids .*' + shape):
            model.call(wrong, training=True)


def test_posterior_is_bayes_rule():
    model = make("mixture")
    p = np.exp(likelihood(model))
    expected = p / p.sum(1, keepdims=True)
    for labels in (LABELS, LABELS[:, None], ROWS):
        np.testing.assert_allclose(
            to_numpy(model.posterior(FIRST, SECOND, labels)), expected, atol=1e-5
        )


@pytest.mark.parametrize("kind", ["elbo", "reinforce"])
def test_the_loss_of_training_is_a_bound_and_that_of_evaluation_exact(kind):
    model = make(kind)
    model.compile("sgd", LOSS, run_eagerly=True)
    exact = -np.log(np.exp(likelihood(model)).mean(1)).mean()
    inputs, labels = repeated(1 if kind == "elbo" else 20)
    drawn = loss_in_training(model, labels, inputs=inputs)
    assert drawn > exact + 1e-4
    np.testing.assert_allclose(model.test_on_batch(pair(), LABELS), exact, atol=1e-5)
    # Each pair has its own bound: a pair of weight 0 does not count.
    if kind == "elbo":
        np.testing.assert_allclose(loss_in_training(model, ROWS), drawn, atol=1e-6)
        weighted = loss_in_training(model, weights=np.array([2.0, 1.0, 1.0, 0.0], "float32"))
        assert abs(weighted - drawn) > 1e-4


def test_the_label_reaches_the_inference_network():
    model = make("elbo", kl_weight=0.0)
    model.compile("sgd", LOSS)
    inferred = [
        variable for variable in model.trainable_variables if variable.path.startswith("inference/")
    ]
    kernel = next(variable for variable in inferred if "aggregate" in variable.path)
    assert kernel.shape[0] == 2 * 8 + CLASSES


@pytest.mark.usefixtures("tensorflow_only")
def test_gradients_of_draws_average_to_those_of_enumeration():
    import tensorflow as tf

    whole, drawn = make("elbo"), make("reinforce")
    for weight, other in zip(drawn.trainable_variables, whole.trainable_variables, strict=True):
        weight.assign(other)

    def gradients(model: keras.Model, times: int):
        model.compile("sgd", LOSS)
        watched = [v for v in model.trainable_variables if v.path.endswith("logits/kernel")]
        inputs, labels = repeated(times)

        def step():
            with tf.GradientTape() as tape:
                loss = model.compute_loss(inputs, labels, model(inputs, training=True))
            return tf.concat(
                [tf.reshape(x, [-1]) for x in tape.gradient(loss, [v.value for v in watched])], 0
            )

        return step

    expected, draw = gradients(whole, 1)().numpy(), tf.function(gradients(drawn, 4))
    draws = np.stack([draw().numpy() for _ in range(121)])  # means of 4
    error = draws.std(0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - expected) <= 5 * error + 1e-4).all()
    assert draws.std(0).max() > 10 * error.max() and np.abs(expected).max() > 10 * error.max()


def test_draws_follow_the_seed():
    losses = []
    for seed in (3, 3, 4):
        keras.utils.set_random_seed(0)
        model = make("reinforce", seed=seed)
        model.compile("sgd", LOSS)
        losses.append([loss_in_training(model) for _ in range(2)])
    assert losses[0] == losses[1] != losses[2]


def test_the_bound_left_out_the_cost_of_open_gates():
    def loss(cost):
        network = {"attention": "gated", "attention_options": {"open_gate_cost": cost}}
        model = make("elbo", components=[{}, {}], common={"units": 4, **network})
        lively(model)
        model.compile("sgd", LOSS)
        return loss_in_training(model)

    # Each network attends twice, with gates that are neither all open nor all closed.
    assert 600 < loss(1000.0) < 6000 and loss(0.0) < 100


def test_training_runs_every_component_once(monkeypatch):
    model = make("elbo")
    model.compile("sgd", LOSS)
    calls = []
    original = type(model).component_log_probabilities
    monkeypatch.setattr(
        type(model),
        "component_log_probabilities",
        lambda self, *arguments, **options: (
            calls.append(1) or original(self, *arguments, **options)
        ),
    )
    loss_in_training(model)
    assert len(calls) == 1
    # If the predictions come from elsewhere, the loss computes the components.
    model.compute_loss(pair(), LABELS, answer(model))
    assert len(calls) == 2


def test_metrics_of_training_are_those_of_the_mixture():
    model = make("elbo")
    model.compile("sgd", LOSS, metrics=["accuracy"], run_eagerly=True)
    expected = (answer(model).argmax(-1) == LABELS).mean()
    assert 0 < expected < 1
    logs = model.train_on_batch(pair(), LABELS, return_dict=True)
    assert logs["accuracy"] == pytest.approx(expected)


def test_explaining_names_the_component_behind_the_answer():
    model = lively(make("mixture"))
    explained = {name: to_numpy(value) for name, value in model.explain(FIRST, SECOND).items()}
    np.testing.assert_allclose(explained["logits"], answer(model), atol=1e-5)
    expected = to_numpy(model.posterior(FIRST, SECOND, explained["logits"].argmax(axis=-1)))
    np.testing.assert_allclose(explained["posterior"], expected, atol=1e-6)


def test_a_mixture_explained_nothing_with_another_float_type(floatx):
    model = make("mixture")
    posterior = to_numpy(model.explain(FIRST, SECOND)["posterior"])
    np.testing.assert_allclose(posterior.sum(axis=-1), 1, rtol=1e-5)
