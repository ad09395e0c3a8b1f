"""Scores of decoded texts: answers, translations and programs."""

import numpy as np
import pytest

from keras_quasiattn.lab.data import ProgramTests
from keras_quasiattn.lab.data.algolisp.problems import Example
from keras_quasiattn.metrics import (
    answer_exact_match,
    answer_f1,
    answer_scores,
    bleu,
    exact_match,
    normalized_answer,
    program_accuracy,
)


def test_exact_match_of_text_and_bytes():
    assert exact_match(["-137", b"0", "1", b"\xff"], [b"-137", "0", "10", "\udcff"]) == 0.75
    assert exact_match(np.array([b"1"], object), ["1"]) == 1.0


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
def test_normalization(text, normal):
    assert normalized_answer(text) == normal


@pytest.mark.parametrize(
    ("prediction", "reference", "exact", "f1"),
    [
        ("the Denver Broncos.", "Denver Broncos", 1, 1),
        ("Broncos", "Denver Broncos", 0, 2 / 3),
        ("in 1964 in", "in in in", 0, 2 / 3),  # as often as both have it: 2 of 3 and 2 of 3
        ("cat", "dog", 0, 0),
        ("the", "cat", 0, 0),
        # As in SQuAD 2.0's evaluate-v2.0.py; no answer where none is right had an F1 of 0.
        ("", "", 1, 1),
        ("", "cat", 0, 0),
        ("cat", "", 0, 0),
        ("the", "", 1, 1),
    ],
)
def test_scores_by_hand(prediction, reference, exact, f1):
    assert answer_exact_match(prediction, reference) == exact
    assert answer_f1(prediction, reference) == pytest.approx(f1)
    assert answer_scores([prediction], [[reference]])["f1"] == pytest.approx(f1)


def test_the_best_reference_counts_for_each_figure():
    scores = answer_scores(
        ["big red dog", "x"], [["dog", "red big dog", "big red dogs"], ["y", "x y"]]
    )
    # F1: of the first 1 (the words of the second reference), of the second 2/3.
    assert scores == pytest.approx({"exact_match": 0.0, "f1": (1 + 2 / 3) / 2})


REFERENCES = [
    "A dog, brown and big, runs on the green grass.",
    "Two men are standing near the bushes.",
]


def test_a_copy_is_perfect_and_nothing_is_nothing():
    for hypotheses in (REFERENCES, [text.encode() for text in REFERENCES]):
        figures = bleu(hypotheses, REFERENCES)
        scores = [value for name, value in figures.items() if name != "signature"]
        assert len(scores) == 4 and scores == pytest.approx([100.0] * 4)
    assert bleu(["", ""], REFERENCES)["bleu"] == 0


def test_the_published_formula():
    # 4 of 5, 3 of 4, 2 of 3 and 1 of 2 n-grams are right, and no word is missing.
    figures = bleu(["a b c d e"], ["a b c d f"])
    assert figures["bleu"] == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_case_and_tokens_matter_where_they_should():
    cased = bleu([text.lower() for text in REFERENCES], REFERENCES)
    assert cased["bleu"] < 100 and cased["bleu_tokens"] < 100
    assert cased["bleu_uncased"] == cased["bleu_tokens_uncased"] == pytest.approx(100)
    tokenized = [text.replace(",", " ,").replace(".", " .") for text in REFERENCES]
    spaced = bleu(tokenized, REFERENCES)
    assert spaced["bleu"] == pytest.approx(100) and spaced["bleu_tokens"] < 100


def test_the_signature_tells_how_the_first_figure_was_made():
    signature = bleu(REFERENCES, REFERENCES)["signature"]
    assert signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_bytes_that_are_no_text_are_wrong_and_no_error():
    assert 0 < bleu([b"\xff\xfe", REFERENCES[1]], REFERENCES)["bleu"] < 100


TESTS = ProgramTests({"a": "int[]"}, "int", (Example({"a": [3, 4]}, 7), Example({"a": []}, 0)))


def test_programs_count_when_they_do_what_the_reference_does():
    reference = "[ reduce a 0 + ]"
    programs = [
        reference,
        "[ reduce [ reverse a ] 0 + ]",  # another program, the same answers
        b"[ reduce [ sort a ] 0 [ lambda2 [ + arg2 arg1 ] ] ]",
        "[ head a ]",  # fails on one test
        "[ reduce a 0 +",
        "",
        b"\xff\xfe",
        "[ invoke1 [ lambda1 [ + [ self arg1 ] [ self arg1 ] ] ] 1 ]",
    ]
    assert program_accuracy(programs, [TESTS] * 8) == 3 / 8
    assert exact_match(programs, [reference] * 8) == 1 / 8


def test_each_program_runs_on_its_own_tests():
    other = ProgramTests({"b": "int"}, "int", (Example({"b": 2}, 4),))
    assert program_accuracy(["[ square b ]", "[ square b ]"], [other, TESTS]) == 0.5


@pytest.mark.parametrize("score", [exact_match, answer_scores, bleu, program_accuracy])
@pytest.mark.parametrize("pair", [([], []), (["a"], []), (["a"], ["a", "b"])])
def test_unlike_lists_are_refused(score, pair):
    with pytest.raises(
        ValueError, match=f"must .* Received lengths: {len(pair[0])} and {len(pair[1])}"
    ):
        score(*pair)


def test_a_question_without_a_right_answer_is_refused():
    with pytest.raises(ValueError, match="`references` must have at least one answer"):
        answer_scores(["a"], [[]])
