"""Generated texts whose class is a count: how often the most frequent letter occurs."""

import numpy as np

from keras_quasiattn.lab.data.labelled_texts import LabelledTexts, LabelledTextSet, text_array

_LETTERS = np.array(list("abcdefghijkl"))
_MOST = 5  # the largest count
_LENGTHS = (6, 16)  # letters of the shortest and of the longest text
_ROWS = {"train": 4000, "validation": 1000, "test": 2000}


def counted_letters(seed: int = 0) -> LabelledTextSet[LabelledTexts]:
    """Generate texts such as "b a f b c b", whose class, "3", counts their most frequent letter.

    A sum over equal letters yields the count; an average over the text does not. The splits share
    no text.

    Args:
        seed: determines the texts.

    Returns:
        The splits "train" (4,000 texts), "validation" (1,000) and "test" (2,000); every class is
        equally frequent in each.

    >>> some = counted_letters()
    >>> some.classes, {name: len(split) for name, split in some.splits.items()}
    (('1', '2', '3', '4', '5'), {'train': 4000, 'validation': 1000, 'test': 2000})
    """
    random = np.random.default_rng(seed)
    rows: dict[bytes, int] = {}  # in the order of their classes: 0, 1, 2, 3, 4, 0, …
    while len(rows) < sum(_ROWS.values()):
        label = len(rows) % _MOST
        text = _text(random, label + 1)
        rows.setdefault(text, label)
    texts, labels = text_array(rows), np.array(list(rows.values()), np.int64)
    splits, start = {}, 0
    for name, size in _ROWS.items():
        splits[name] = LabelledTexts(texts[start : start + size], labels[start : start + size])
        start += size
    classes = tuple(str(count) for count in range(1, _MOST + 1))
    return LabelledTextSet(classes, splits, f"counted letters, seed {seed}")


def _text(random: np.random.Generator, count: int) -> bytes:
    """Draw a text whose most frequent letter occurs `count` times."""
    longest = min(_LENGTHS[1], count * len(_LETTERS))
    length = random.integers(max(_LENGTHS[0], count), longest + 1)
    first, *others = random.permutation(len(_LETTERS))
    # Every other letter occurs at most as often.
    rest = random.permutation(np.repeat(others, count))[: length - count]
    return " ".join(_LETTERS[random.permutation([*[first] * count, *rest])]).encode()
