"""Scores of decoded texts: exact match, SQuAD's exact match and F1, BLEU, program accuracy."""

import collections
import re
import string
from collections.abc import Callable, Sequence, Sized
from typing import TYPE_CHECKING, Any

from keras_quasiattn.extras import require

if TYPE_CHECKING:
    from keras_quasiattn.lab.data import ProgramTests

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = set(string.punctuation)
_BLEU_SETTINGS: dict[str, dict[str, Any]] = {
    "bleu": {},
    "bleu_uncased": {"lowercase": True},
    "bleu_tokens": {"tokenize": "none"},
    "bleu_tokens_uncased": {"tokenize": "none", "lowercase": True},
}


def exact_match(predictions: Sequence[str | bytes], references: Sequence[str | bytes]) -> float:
    """Return the share of decoded strings that equal their reference byte for byte.

    A `str` is compared as UTF-8 bytes.

    Args:
        predictions: the model's answers.
        references: the right answers, in the same order.

    Raises:
        ValueError: the two differ in number, or are empty.

    >>> exact_match(["-137", b"12"], ["-137", "13"])
    0.5
    """
    _check_lengths(predictions=predictions, references=references)

    def as_bytes(text: str | bytes) -> bytes:
        # On the command line, bytes that are not UTF-8 arrive as surrogates.
        return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text

    pairs = zip(predictions, references, strict=True)
    return sum(as_bytes(one) == as_bytes(other) for one, other in pairs) / len(references)


def normalized_answer(text: str) -> str:
    """Return the answer in lower case, without ASCII punctuation and English articles.

    Single spaces separate the words.

    >>> normalized_answer("The  Beatles' (1964)")
    'beatles 1964'
    """
    kept = "".join(character for character in text.lower() if character not in _PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", kept).split())


def answer_exact_match(prediction: str, reference: str) -> float:
    """Return 1 if both texts are equal after normalization, else 0.

    Args:
        prediction: the model's answer.
        reference: the right answer.

    Returns:
        1.0 or 0.0.

    >>> answer_exact_match("the cat.", "Cat")
    1.0
    """
    return float(normalized_answer(prediction) == normalized_answer(reference))


def answer_f1(prediction: str, reference: str) -> float:
    """Return the F1 of the prediction's words against the reference's, after normalization.

    F1 is 2·p·r/(p + r): p is the share of the prediction's words that are in the reference, r the
    share of the reference's words that are in the prediction. A repeated word counts as often as it
    occurs in both texts. If one text has no words, such as "" for no answer, F1 is 1 if the other
    has none either, and 0 otherwise.

    Args:
        prediction: the model's answer.
        reference: the right answer.

    Returns:
        A number in [0, 1].

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
    """Return mean exact match and mean F1 over questions, each scored by its best reference.

    Args:
        predictions: one answer per question.
        references: the right answers of each question, at least one.

    Returns:
        `exact_match` and `f1`, in [0, 1].

    Raises:
        ValueError: predictions and references differ in number or are empty, or a question has no
            reference.

    >>> answer_scores(["big cat", "dog"], [["a cat", "cats"], ["the dog"]])
    {'exact_match': 0.5, 'f1': 0.8333333333333333}

    Source: Rajpurkar et al. 2016, "SQuAD", §6.1, and its evaluate-v1.1.py.
    """
    scores = scores_by_question(predictions, references)
    return {name: sum(values) / len(values) for name, values in scores.items()}


def scores_by_question(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, list[float]]:
    """Return exact match and F1 per question; `answer_scores` returns their means.

    Args:
        predictions: one answer per question.
        references: the right answers of each question, at least one.

    Returns:
        `exact_match` and `f1`, each a list of numbers in [0, 1].

    Raises:
        ValueError: as for `answer_scores`.

    >>> scores_by_question(["big cat"], [["a cat", "cats"]])
    {'exact_match': [0.0], 'f1': [0.6666666666666666]}
    """
    _check_lengths(predictions=predictions, references=references)
    if not all(references):
        raise ValueError(
            "`references` must have at least one answer for every question. Received an empty list"
        )

    def best(score: Callable[[str, str], float]) -> list[float]:
        return [
            max(score(prediction, reference) for reference in right)
            for prediction, right in zip(predictions, references, strict=True)
        ]

    return {"exact_match": best(answer_exact_match), "f1": best(answer_f1)}


def bleu(
    hypotheses: Sequence[str | bytes], references: Sequence[str | bytes]
) -> dict[str, float | str]:
    """Return the BLEU of a whole set of translations, with one reference each, in percent.

    The texts are compared as given. Pass detokenized texts for the first two scores, and texts
    tokenized like the references for the last two.

    Args:
        hypotheses: the translations, perhaps empty. Bytes are UTF-8; invalid ones become U+FFFD.
        references: the right translations, in the same order.

    Returns:
        `bleu` (cased) and `bleu_uncased`, both on the tokens of mteval-v13a; `bleu_tokens` and
        `bleu_tokens_uncased`, on words separated by blanks; and sacrebleu's `signature` of the
        first. The signatures of the others differ from it only in `case` and `tok`.

    Raises:
        ValueError: the two differ in number, or are empty.
        MissingPackageError: sacrebleu is not installed, which the extra `tasks` brings.

    >>> figures = bleu(["the dog runs on the grass"], [b"The dog runs on the grass."])
    >>> (
    ...     round(figures["bleu"], 1),
    ...     round(figures["bleu_uncased"], 1),
    ...     figures["signature"].split("|")[3],
    ... )
    (64.3, 84.6, 'tok:13a')

    Source: Papineni et al. 2002; Post 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    _check_lengths(hypotheses=hypotheses, references=references)
    sacrebleu = require("sacrebleu", "tasks")
    written, right = ([_as_text(text) for text in texts] for texts in (hypotheses, references))
    figures: dict[str, float | str] = {}
    for name, settings in _BLEU_SETTINGS.items():
        # `force` turns off the warning about tokenized text, which two scores expect.
        metric = sacrebleu.BLEU(force=True, **settings)
        figures[name] = metric.corpus_score(written, [right]).score
        figures.setdefault("signature", str(metric.get_signature()))
    return figures


def program_accuracy(programs: Sequence[str | bytes], tests: Sequence["ProgramTests"]) -> float:
    """Return the share of programs that pass all their tests.

    A program fails if it cannot be parsed, fails a test or exceeds the interpreter's limits. It may
    pass although it differs from the reference. A copy of the reference fails if the reference
    fails its own tests, as some published ones do. For the share that equals the reference use
    `exact_match`.

    Args:
        programs: model outputs, tokens separated by spaces.
        tests: the tests of each program's problem, in the same order. The model must not see them
            in training.

    Raises:
        ValueError: the two differ in number, or are empty.

    >>> from keras_quasiattn.lab.data import ProgramTests
    >>> tests = ProgramTests.from_json('[{"a":"int[]"},"int",[[{"a":[3,4]},4],[{"a":[5,1]},5]]]')
    >>> program_accuracy(["[ reduce a 0 max ]", b"[ head a ]", "[ head"], [tests] * 3)
    0.3333333333333333

    Source: Polosukhin and Skidanov 2018, "Neural Program Search", section 5 (accuracy).
    """
    _check_lengths(programs=programs, tests=tests)
    pairs = zip(programs, tests, strict=True)
    return sum(test.passed_by(_as_text(program)) for program, test in pairs) / len(programs)


def _as_text(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _check_lengths(**lists: Sized) -> None:
    one, other = (len(values) for values in lists.values())
    if one != other or one == 0:
        raise ValueError(
            f"{' and '.join(f'`{name}`' for name in lists)} must have the same length, at least 1. "
            f"Received lengths: {one} and {other}"
        )
