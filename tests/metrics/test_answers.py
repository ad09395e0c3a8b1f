import numpy as np
import pytest

from keras_quasiattn.metrics import (
    SpanAccuracy,
    SpanF1,
    answer_exact_match,
    answer_f1,
    answer_scores,
    normalized_answer,
)


# By hand, after SQuAD's rule: lower case, ASCII punctuation away, articles away, single spaces.
@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Beatles'  (1964)!", "beatles 1964"),
        ("a an the", ""),
        ("theatre and anthem", "theatre and anthem"),
        ("U.S.-based", "usbased"),
        ("Zürich – A", "zürich –"),
        ("", ""),
    ],
)
def test_normalization(text: str, normal: str) -> None:
    assert normalized_answer(text) == normal


@pytest.mark.parametrize(
    ("prediction", "reference", "exact", "f1"),
    [
        ("the Denver Broncos.", "Denver Broncos", 1, 1),
        ("Broncos", "Denver Broncos", 0, 2 / 3),
        (
            "in 1964 in",
            "in in in",
            0,
            2 / 3,
        ),  # each word as often as both have it: 2 of 3 and 2 of 3
        ("cat", "dog", 0, 0),
        ("the", "cat", 0, 0),
    ],
)
def test_scores_by_hand(prediction: str, reference: str, exact: float, f1: float) -> None:
    assert answer_exact_match(prediction, reference) == exact
    assert answer_f1(prediction, reference) == pytest.approx(f1)


def test_the_best_reference_counts_for_each_figure() -> None:
    scores = answer_scores(
        ["big red dog", "x"], [["dog", "red big dog", "big red dogs"], ["y", "x y"]]
    )
    # F1: of the first 1 (the words of the second reference), of the second 2/3.
    assert scores == pytest.approx({"exact_match": 0.0, "f1": (1 + 2 / 3) / 2})


@pytest.mark.parametrize(("predictions", "references"), [([], []), (["a"], []), (["a"], [[]])])
def test_missing_answers_are_refused(predictions: list[str], references: list[list[str]]) -> None:
    with pytest.raises(ValueError, match="must"):
        answer_scores(predictions, references)


def logits(*spans: tuple[int, int], length: int = 6) -> np.ndarray:
    made = np.zeros((len(spans), length, 2), "float32")
    for row, span in enumerate(spans):
        made[row, span[0], 0] = made[row, span[1], 1] = 9.0
    return made


def test_spans_over_batches_without_what_does_not_count() -> None:
    accuracy, f1 = SpanAccuracy(4), SpanF1(4)
    batches = [
        ([[1, 2, 1], [0, 3, 1]], logits((1, 2), (2, 4))),
        ([[5, 5, 1], [0, 0, 0]], logits((0, 1), (5, 5))),
    ]
    for target, answer in batches:
        accuracy.update_state(np.array(target), answer)
        f1.update_state(np.array(target), answer)
    assert float(accuracy.result()) == pytest.approx(1 / 3)
    # Two tokens of 4 and of 3 in common, and none.
    assert float(f1.result()) == pytest.approx((1 + 4 / 7) / 3)
    f1.reset_state()
    assert float(f1.result()) == 0
    assert SpanF1.from_config(f1.get_config()).longest == 4
    with pytest.raises(ValueError, match="sample_weight"):
        f1.update_state(np.array(batches[0][0]), batches[0][1], sample_weight=1.0)


@pytest.mark.parametrize(
    ("prediction", "reference", "f1"),
    [("", "", 1.0), ("", "cat", 0.0), ("cat", "", 0.0), ("the", "", 1.0), ("A", "a", 1.0)],
)
def test_no_answer_where_none_is_right_had_an_f1_of_0(
    prediction: str, reference: str, f1: float
) -> None:
    """As SQuAD 2.0's evaluate-v2.0.py."""
    assert answer_f1(prediction, reference) == f1
    assert answer_scores([prediction], [[reference]])["f1"] == f1
