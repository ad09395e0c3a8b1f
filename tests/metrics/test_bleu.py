import pytest

from keras_quasiattn.metrics import bleu

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


@pytest.mark.parametrize("pair", [([], []), (["a"], []), (["a"], ["a", "b"])])
def test_unlike_lists_are_refused(pair):
    with pytest.raises(ValueError, match=f"got {len(pair[0])} and {len(pair[1])}"):
        bleu(*pair)
