"""Reads pretrained word vectors."""

import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np

from keras_quasiattn.errors import FileError, UserError
from keras_quasiattn.text.compressed import open_text

_NAMED = 10  # words without a vector that a sentence names


def read_word_vectors(
    file: str | Path, width: int, wanted: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """Reads the vectors of the wanted words from a file.

    Args:
        file: GloVe's text format, also compressed as .gz or .xz: each line holds a word and its
            numbers, separated by spaces; a first line with two counts, as word2vec writes it, is
            skipped. Or an `.npz` with `words` (uint8, the UTF-8 bytes of one word per line) and
            `vectors` (one row per word).
        width: required length of a vector.
        wanted: the words to keep; default all words of the file.

    Returns:
        float32 vectors (width,) by word.

    Raises:
        UserError: if the file cannot be read, its vectors have another width or are not finite, or
            it has none of the words.
    """
    file, chosen = Path(file), None if wanted is None else set(wanted)
    try:
        rows = (
            _from_arrays(file, width) if file.suffix == ".npz" else _from_text(file, width, chosen)
        )
        vectors = {
            word: vector.astype(np.float32)
            for word, vector in rows
            if chosen is None or word in chosen
        }
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror or error}") from error
    for word, vector in vectors.items():
        if not np.isfinite(vector).all():
            raise UserError(
                f"{file}: the vector of {word!r} contains NaN or infinity; "
                "all values must be finite"
            )
    if not vectors:
        missing = "" if chosen is None else f" for any of the {len(chosen)} requested words"
        raise UserError(f"{file} has no vector{missing}")
    return vectors


def embedding_matrix(
    vocabulary: Collection[str],
    vectors: dict[str, np.ndarray],
    width: int,
    seed: int,
    *,
    ids: int | None = None,
) -> np.ndarray:
    """Returns initial values of an embedding: known vectors, and small random ones for other words.

    Random values are uniform in [−a, a], where a gives them the standard deviation of the known
    vectors' numbers (Kim 2014).

    Args:
        vocabulary: the words by id; id 0 is padding.
        vectors: the known vectors by word, at least one.
        width: length of a vector.
        seed: seed of the random values.
        ids: number of ids, if there are some beyond the vocabulary, for unknown words.

    Returns:
        float32 (ids, width), by default (words, width); the row of padding is zero.
    """
    bound = float(np.sqrt(3.0) * np.std(np.stack(list(vectors.values())), dtype=np.float64))
    matrix = (
        np.random.default_rng(seed)
        .uniform(-bound, bound, (ids or len(vocabulary), width))
        .astype(np.float32)
    )
    for number, word in enumerate(vocabulary):
        if word in vectors:
            matrix[number] = vectors[word]
    matrix[0] = 0.0
    return matrix


def covered(counts: Mapping[str, int], vectors: Mapping[str, np.ndarray]) -> str:
    """Returns a sentence on how many of some words have a vector, and which frequent ones do not.

    Args:
        counts: how often each word occurs; at least one word.
        vectors: the known vectors by word.

    >>> covered({"the": 6, "xyz": 2, "'s": 2}, {"the": np.zeros(3)})
    "60.0% of the 10 training words have a vector; the most frequent without: 's xyz"
    """
    total = sum(counts.values())
    lacking = {word: count for word, count in counts.items() if word not in vectors}
    share = 1 - sum(lacking.values()) / total
    line = f"{share:.1%} of the {total:,} training words have a vector"
    most = sorted(lacking, key=lambda word: (-lacking[word], word))[:_NAMED]
    return f"{line}; the most frequent without: {' '.join(most)}" if most else line


def _from_arrays(file: Path, width: int) -> Iterator[tuple[str, np.ndarray]]:
    try:
        with open(file, "rb") as stream, np.load(stream) as arrays:
            words = arrays["words"].tobytes().decode("utf-8").removesuffix("\n").split("\n")
            vectors = arrays["vectors"]
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise UserError(f"{file} is not an .npz with the arrays 'words' and 'vectors'") from None
    if vectors.ndim != 2 or len(vectors) != len(words):
        raise UserError(
            f"{file} has {len(words)} words and vectors of shape {vectors.shape}: "
            "expected one row per word"
        )
    _check_width(file, vectors.shape[1], width)
    return zip(words, vectors, strict=True)


def _from_text(file: Path, width: int, wanted: set[str] | None) -> Iterator[tuple[str, np.ndarray]]:
    with open_text(file) as lines:
        first = 1  # the line of the first vector
        for number, line in enumerate(lines, 1):
            fields = line.rstrip("\n").rstrip(" ").split(" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                first = 2
                continue
            if number == first:
                _check_width(file, len(fields) - 1, width)
            # Some words of GloVe's largest files contain spaces: count the numbers from the end.
            if len(fields) <= width:
                raise UserError(
                    f"{file}, line {number}: the vector has {len(fields) - 1} numbers, and those "
                    f"above have {width}"
                )
            word = " ".join(fields[:-width])
            if wanted is None or word in wanted:
                try:
                    yield word, np.array(fields[-width:], np.float32)
                except ValueError:
                    raise UserError(
                        f"{file}, line {number}: expected only numbers after {word!r}"
                    ) from None


def _check_width(file: Path, got: int, width: int) -> None:
    if got != width:
        raise UserError(
            f"{file}: the vectors have {got} numbers, and the model's embedding {width}: "
            f"add --set model.embedding_dim={got}"
        )
