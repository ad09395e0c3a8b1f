import numpy as np
import pytest
import sklearn.metrics

from keras_quasiattn.metrics import MacroF1, classification_figures

CLASSES = ("a", "b", "c", "never")


def drawn(examples: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of three of the four classes, right more often than not."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, examples)
    probabilities = generator.dirichlet([0.3, 0.3, 0.3, 0.0001], examples)
    probabilities += 0.6 * np.eye(4)[labels]
    return labels, probabilities / probabilities.sum(axis=1, keepdims=True)


def test_figures_by_class_are_those_of_scikit_learn():
    labels, probabilities = drawn()
    figures = classification_figures(labels, probabilities, CLASSES)
    answers = probabilities.argmax(axis=1)
    assert 0.6 < figures["accuracy"] < 0.99
    expected = sklearn.metrics.precision_recall_fscore_support(
        labels, answers, labels=range(4), zero_division=0.0
    )
    found = [
        [one[name] for one in figures["per_class"].values()]
        for name in ("precision", "recall", "f1", "count")
    ]
    np.testing.assert_allclose(found, expected)
    # A class that is neither a label nor an answer does not count.
    assert figures["macro_f1"] == pytest.approx(
        sklearn.metrics.f1_score(labels, answers, average="macro")
    )
    assert figures["cross_entropy"] == pytest.approx(
        sklearn.metrics.log_loss(labels, probabilities, labels=range(4))
    )
    assert list(figures["per_class"]) == list(CLASSES)


def test_calibration_error_is_the_gap_between_confidence_and_accuracy():
    labels, probabilities = drawn()
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    expected = 0.0
    for low in np.arange(15) / 15:
        chosen = (confidence >= low) & (confidence < low + 1 / 15)
        if chosen.any():
            gap = abs(right[chosen].mean() - confidence[chosen].mean())
            expected += gap * chosen.sum() / len(labels)
    figures = classification_figures(labels, probabilities, CLASSES)
    assert figures["expected_calibration_error"] == pytest.approx(expected)


def test_a_wrong_answer_of_probability_1_has_finite_figures():
    figures = classification_figures(np.array([0]), np.array([[0.0, 1.0]]), ("a", "b"))
    assert figures["expected_calibration_error"] == 1.0 and figures["accuracy"] == 0.0
    assert np.isfinite(figures["cross_entropy"]) and figures["macro_f1"] == 0.0


@pytest.mark.parametrize("labels", [[0, 1, 1], [[0], [1], [1]]])
def test_class_numbers_were_taken_for_one_hot_labels(labels):
    with pytest.raises(ValueError, match=r"`y_true` must have shape \(B, 3\), one-hot\. .*=\(3"):
        MacroF1(3).update_state(np.array(labels), np.eye(3))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_error_of_probabilities_that_are_not_finite_was_numpys(value):
    labels, probabilities = drawn()
    probabilities[7, 2] = value
    with pytest.raises(ValueError, match=r"`probabilities` must be finite.*probabilities\[7\]=\["):
        classification_figures(labels, probabilities, CLASSES)


def test_nan_was_an_answer_of_the_first_class():
    labels, answers = np.eye(2)[[0, 1]], np.array([[np.nan, np.nan], [0.0, 1.0]])
    metric = MacroF1(2)
    metric.update_state(labels, answers, sample_weight=[0.0, 1.0])  # the row only fills a batch
    assert float(metric.result()) == 1.0
    metric.update_state(labels, answers)
    metric.update_state(labels, labels)
    assert np.isnan(float(metric.result()))
