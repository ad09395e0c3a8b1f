import pytest
import tensorflow as tf

from keras_quasiattn.text import SPAN_CLEANINGS, SpanTokenizer, WordTokenizer

VOCABULARY = ["[PAD]", "[UNK]", "the"]
TEXTS = [
    "The tower: 24–10, isn't it?",
    "",
    " \t\n ",
    "Él comió «pan» à Zürich. 日本語 наш\u00a0дом",
    "a\u0301 e\u200bf \U0001f600!",
    b"caf\xe9 \xff noir",
]


@pytest.mark.parametrize("cleaning", SPAN_CLEANINGS)
def test_words_are_those_of_the_cleaning(cleaning: str) -> None:
    texts = tf.constant(TEXTS[:-1])
    found = SpanTokenizer(VOCABULARY, cleaning).split(texts).to_list()
    assert found == WordTokenizer(VOCABULARY, cleaning).split(texts).to_list()


@pytest.mark.parametrize("cleaning", SPAN_CLEANINGS)
def test_places_are_of_the_string_itself(cleaning: str) -> None:
    texts = [text if isinstance(text, bytes) else text.encode() for text in TEXTS]
    tokens, starts, ends = SpanTokenizer(VOCABULARY, cleaning).split_with_offsets(
        tf.constant(texts)
    )
    rows = zip(texts, tokens.to_list(), starts.to_list(), ends.to_list(), strict=True)
    for text, words, begins, stops in rows:
        for word, start, end in zip(words, begins, stops, strict=True):
            slice_ = text[start:end].decode("utf-8", "replace")
            assert (slice_.lower() if cleaning == "pieces" else slice_) == word.decode(
                "utf-8", "replace"
            )
        assert begins == sorted(begins) and all(
            a <= b for a, b in zip(stops, begins[1:], strict=False)
        )


def test_unknown_cleanings_are_refused() -> None:
    with pytest.raises(
        ValueError, match="cleaning must be one of pieces, cased_pieces; got 'words'"
    ):
        SpanTokenizer(VOCABULARY, "words")
