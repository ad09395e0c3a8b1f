import random
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_quasiattn.lab.text.encoder_tokenizers import EncoderTokenizer

ROOT = Path(__file__).parents[2]
SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PARTS = [
    *("Hello", "unaffable", "na\u00efve", "\u00c9T\u00c9", "stra\u00dfe", "\u0130stanbul"),
    *("don't", "3.14", "[SEP]", "[CLS]", "##ing", "CO2", "www.x.org", "x" * 101, "\u00e9" * 60),
    *("\u65e5\u672c\u8a9e", "\u4e2d\u6587", "\U0001f642", "\u200d", "\ufffd", "e\u0301", "\ufb01"),
]
# ASCII twice, controls, accents, marks, Greek to Arabic, Devanagari, Thai, general punctuation,
# Japanese, Chinese, Korean, compatibility forms, emoji, rare Chinese, and the end of the first
# plane.
RANGES = [
    *((0x20, 0x7E), (0x20, 0x7E), (0x00, 0x1F), (0x80, 0x17F), (0x300, 0x36F), (0x370, 0x6FF)),
    *((0x900, 0x97F), (0xE00, 0xE7F), (0x2000, 0x206F), (0x3040, 0x30FF), (0x4E00, 0x9FFF)),
    *((0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0xFE00, 0xFFFF)),
]
MARKS = re.compile("[\u0300-\u036f]{2}")
BETWEEN = ["", " ", " ", "\t", "\n", "\u00a0", "\u3000", "\0"]


def generated(count):
    """Return texts of known parts and random characters; some are empty."""
    draw = random.Random(0)

    def part():
        if draw.random() < 0.5:
            return draw.choice(PARTS)
        low, high = draw.choice(RANGES)
        return "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 6)))

    return [
        "".join(part() + draw.choice(BETWEEN) for _ in range(draw.randint(0, 12)))
        for _ in range(count)
    ]


def real():
    """Return lines of this project's documentation."""
    pages = sorted(ROOT.glob("docs/*/*.md"))
    return [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]


def texts_to_read(count):
    """Return so many texts, half of them from the documentation as far as it goes."""
    lines = real()
    lines = lines[:: max(1, 2 * len(lines) // count)]
    return lines + generated(count - len(lines))


@pytest.fixture(scope="module")
def vocabulary():
    """Return a vocabulary of most of the texts' characters and some of their words."""
    texts, draw = texts_to_read(10_000), random.Random(1)
    characters = sorted({one for text in texts for one in text.casefold() + text} - {" "})
    known = [one for one in characters if draw.random() < 0.9 and one.isprintable()]
    words = sorted({word for text in texts[:2000] for word in text.split() if len(word) < 9})
    return list(dict.fromkeys([*SPECIAL, *known, *(f"##{one}" for one in known), *words[::3]]))


ACCENTS = [(True, False), (True, True), (False, False), (False, True)]


@pytest.mark.parametrize(
    ("lowercase", "strip_accents", "count"),
    [
        (*ACCENTS[0], 1000),
        *(pytest.param(*both, 1000, marks=pytest.mark.long) for both in ACCENTS[1:]),
        *(pytest.param(*both, 10_000, marks=pytest.mark.complete) for both in ACCENTS),
    ],
)
def test_ids_are_those_of_keras_hub(lowercase, strip_accents, count, vocabulary):
    keras_hub = pytest.importorskip("keras_hub")
    texts, options = texts_to_read(count), {"lowercase": lowercase, "strip_accents": strip_accents}
    theirs = keras_hub.tokenizers.WordPieceTokenizer(vocabulary, **options)
    ours = EncoderTokenizer(vocabulary, **options)
    found = ours.ids(ours.split(tf.constant(texts))).to_list()
    # In a graph, KerasHub's tokenizer ends a text at a NUL; in Python it treats NUL as a space.
    whole = [text.replace("\0", " ") for text in texts]
    in_graph = tf.function(theirs.tokenize)(tf.constant(whole)).to_list()
    assert found == in_graph
    # KerasHub's tokenizer orders several marks on one letter differently in Python and in a graph.
    in_python = [list(ids) for ids in theirs.tokenize(texts)]
    others = [row for row, ids in enumerate(in_python) if ids != found[row]]
    assert len(others) < 20 and all(MARKS.search(texts[row]) for row in others)
    share = np.mean([2 in ids for ids in found])
    assert 0.05 < share < 0.95  # both known and unknown words occur


def test_bytes_that_are_not_utf_8_are_read(vocabulary):
    tokenizer = EncoderTokenizer(vocabulary)
    assert tokenizer.tokenize(tf.constant([b"\xff\xfe a", b"", b"\x80" * 200])).shape[0] == 3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["[UNK]", "[PAD]", "[CLS]", "[SEP]"], "must begin with"),
        ([], "must begin with"),
        (["[PAD]", "[UNK]", "[SEP]"], r"must have \[CLS\]"),
        (["[PAD]", "[CLS]", "[SEP]"], r"must have \[UNK\]"),
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", ""], "empty token"),
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a\0"], "NUL"),
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "a"], "twice"),
    ],
)
def test_a_vocabulary_without_its_tokens_is_refused(changed, said):
    with pytest.raises(ValueError, match=said):
        EncoderTokenizer(changed)
