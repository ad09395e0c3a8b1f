"""Exact match and F1 of answers, as SQuAD's own script computes them."""

import collections
import re
import string
from collections.abc import Callable, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = set(string.punctuation)


def normalized_answer(text: str) -> str:
    """Returns the answer in lower case, without ASCII punctuation and English articles.

    Single spaces separate the words.

    >>> normalized_answer("The  Beatles' (1964)")
    'beatles 1964'
    """
    kept = "".join(character for character in text.lower() if character not in _PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", kept).split())


def answer_exact_match(prediction: str, reference: str) -> float:
    """Returns 1 if both texts are equal after normalization, else 0.

    >>> answer_exact_match("the cat.", "Cat")
    1.0
    """
    return float(normalized_answer(prediction) == normalized_answer(reference))


def answer_f1(prediction: str, reference: str) -> float:
    """Returns the F1 of the prediction's words against the reference's, after normalization.

    F1 is 2·p·r/(p + r): p is the share of the prediction's words that are in the reference, r the
    share of the reference's words that are in the prediction. A repeated word counts as often as
    both texts contain it. Without words on one side, such as "" for no answer, F1 is 1 if the other
    side has none either, else 0.

    >>> answer_f1("a big cat", "the cat")
    0.6666666666666666
    """
    words, right = (normalized_answer(text).split() for text in (prediction, reference))
    if not words or not right:
        return float(words == right)
    common = sum((collections.Counter(words) & collections.Counter(right)).values())
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(right)
    return 2 * precision * recall / (precision + recall)


def answer_scores(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Returns mean exact match and mean F1 over questions, each scored by its best reference.

    Args:
        predictions: one answer per question.
        references: for each question its right answers, at least one.

    Returns:
        `exact_match` and `f1`, in [0, 1].

    Raises:
        ValueError: if there are unequal numbers of predictions and references, or none, or a
            question without references.

    >>> answer_scores(["big cat", "dog"], [["a cat", "cats"], ["the dog"]])
    {'exact_match': 0.5, 'f1': 0.8333333333333333}

    Source: Rajpurkar et al. 2016, "SQuAD", §6.1, and its evaluate-v1.1.py.
    """
    scores = scores_by_question(predictions, references)
    return {name: sum(values) / len(values) for name, values in scores.items()}


def scores_by_question(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, list[float]]:
    """Returns the exact match and the F1 of every question, each by its best reference.

    Args:
        predictions: one answer per question.
        references: for each question its right answers, at least one.

    Returns:
        `exact_match` and `f1`, each a list of as many numbers in [0, 1].

    Raises:
        ValueError: if there are unequal numbers of predictions and references, or none, or a
            question without references.

    >>> scores_by_question(["big cat"], [["a cat", "cats"]])
    {'exact_match': [0.0], 'f1': [0.6666666666666666]}
    """
    if len(predictions) != len(references) or not predictions:
        raise ValueError(
            "predictions and references must have the same length, at least 1; "
            f"got {len(predictions)} and {len(references)}"
        )
    if not all(references):
        raise ValueError("references must have at least one answer for every question; got []")

    def best(score: Callable[[str, str], float]) -> list[float]:
        return [
            max(score(prediction, reference) for reference in right)
            for prediction, right in zip(predictions, references, strict=True)
        ]

    return {"exact_match": best(answer_exact_match), "f1": best(answer_f1)}
