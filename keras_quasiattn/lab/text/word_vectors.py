"""Read pretrained word vectors, and initialize embeddings with them."""

import collections
import itertools
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_quasiattn.errors import DataWarning, FileError, UserError
from keras_quasiattn.lab.text.open_text import open_text

_NAMED = 10  # number of words without a vector that `covered` lists
_HEAD = 100  # number of lines that determine the width of a file's vectors
_Row = tuple[int, str, np.ndarray]  # line, word, vector
_Skipped = collections.defaultdict[str, list[int]]  # line numbers by reason


def read_word_vectors(
    file: str | Path, width: int, wanted: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """Read the vectors of the wanted words from a file.

    Args:
        file: a file in GloVe's text format, plain or compressed (.gz, .xz): each line holds a word
            and its numbers, separated by spaces or tabs; blank lines are skipped, and so is a first
            line with two counts, as word2vec writes it. Or an `.npz` with `words` (texts, or uint8,
            the UTF-8 bytes of one word per line) and `vectors` (one row per word).
        width: required length of a vector.
        wanted: the words to keep; None keeps all words of the file.

    Returns:
        float32 vectors (width,) by word. If a word occurs several times, its first vector counts.

    Raises:
        UserError: the file cannot be read, its vectors have another width or are not finite, or it
            has none of the words.

    Warns:
        DataWarning: lines were skipped, because their word is not UTF-8, is missing or occurred
            before, or because they have too many numbers; the warning counts them.
    """
    file, chosen = Path(file), None if wanted is None else set(wanted)
    skipped: _Skipped = collections.defaultdict(list)
    vectors: dict[str, np.ndarray] = {}
    try:
        if file.suffix.lower() == ".npz":
            rows = _from_arrays(file, width, skipped)
        else:
            rows = _from_text(file, width, chosen, skipped)
        for number, word, vector in rows:
            if word in vectors:
                skipped["with a word that came before"].append(number)
            elif chosen is None or word in chosen:
                vectors[word] = vector.astype(np.float32)
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
    if skipped:
        reasons = (f"{len(at)} {why} (first line {at[0]})" for why, at in skipped.items())
        warnings.warn(f"{file}: skipped lines: {', '.join(reasons)}", DataWarning, stacklevel=2)
    return vectors


def embedding_matrix(
    vocabulary: Collection[str],
    vectors: dict[str, np.ndarray],
    width: int,
    seed: int,
    *,
    ids: int | None = None,
) -> np.ndarray:
    """Return an embedding, float32 (ids, width): known vectors, and random ones for other words.

    The row of padding is zero. Random values are uniform in [−a, a], where a gives them the
    standard deviation of the known vectors' numbers (Kim 2014).

    Args:
        vocabulary: the words by id; id 0 is padding.
        vectors: the known vectors by word, at least one.
        width: length of a vector.
        seed: seed of the random values.
        ids: number of ids, if unknown words have ids beyond the vocabulary; None for the size of
            the vocabulary.
    """
    bound = float(np.sqrt(3.0) * np.std(np.stack(list(vectors.values())), dtype=np.float64))
    shape = (ids or len(vocabulary), width)
    matrix = np.random.default_rng(seed).uniform(-bound, bound, shape).astype(np.float32)
    for number, word in enumerate(vocabulary):
        if word in vectors:
            matrix[number] = vectors[word]
    matrix[0] = 0.0
    return matrix


def covered(counts: Mapping[str, int], vectors: Mapping[str, np.ndarray]) -> str:
    """Describe how many of some counted words have a vector, and which frequent ones do not.

    >>> covered({"the": 6, "xyz": 2, "'s": 2}, {"the": np.zeros(3)})
    "60.0% of the 10 training words have a vector; the most frequent without: 's xyz"
    """
    total = sum(counts.values())
    lacking = {word: count for word, count in counts.items() if word not in vectors}
    share = 1 - sum(lacking.values()) / total
    line = f"{share:.1%} of the {total:,} training words have a vector"
    most = sorted(lacking, key=lambda word: (-lacking[word], word))[:_NAMED]
    return f"{line}; the most frequent without: {' '.join(most)}" if most else line


def _from_arrays(file: Path, width: int, skipped: _Skipped) -> Iterator[_Row]:
    try:
        with open(file, "rb") as stream, np.load(stream) as arrays:
            names, vectors = arrays["words"], arrays["vectors"]
    except (ValueError, TypeError, KeyError, EOFError, zlib.error, zipfile.BadZipFile):
        raise UserError(f"{file} is not an .npz with the arrays 'words' and 'vectors'") from None
    if names.dtype.kind in "US":
        words = [word.encode() if isinstance(word, str) else word for word in names.tolist()]
    else:
        words = names.tobytes().removesuffix(b"\n").split(b"\n")
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or len(vectors) != len(words):
        raise UserError(
            f"{file} has {len(words)} words and vectors of shape {vectors.shape} and type "
            f"{vectors.dtype}: expected one row of numbers per word"
        )
    if vectors.shape[1] != width:
        raise _other_width(file, vectors.shape[1], width)
    for number, (name, vector) in enumerate(zip(words, vectors, strict=True), 1):
        if (word := _decoded(name.rstrip(b"\r"), number, skipped)) is not None:
            yield number, word, vector


def _from_text(
    file: Path, width: int, wanted: set[str] | None, skipped: _Skipped
) -> Iterator[_Row]:
    with open_text(file, errors="surrogateescape", newline=None) as lines:
        rows = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        head = list(itertools.islice(rows, _HEAD))
        first = _fields(head[0][1]) if head else []
        counts = len(first) == 2 and all(field.isdigit() for field in first)
        if counts and (width != 1 or int(first[1]) == 1):  # word2vec's, not a word and its number
            del head[0]
        _check_width(file, head, width)
        for number, line in itertools.chain(head, rows):
            fields = _fields(line)
            if len(fields) <= width:
                if len(fields) == width and line[0].isspace():
                    skipped["without a word"].append(number)
                    continue
                raise UserError(
                    f"{file}, line {number}: the vector has {len(fields) - 1} numbers, expected "
                    f"{width}: repair or remove the line, or get the whole file again"
                )
            # Some words in GloVe's largest files contain spaces, so count the numbers from the end.
            if len(fields) > width + 1 and _is_number(fields[-width - 1]):
                skipped[f"with more than {width} numbers"].append(number)
                continue
            word = _decoded(b" ".join(fields[:-width]), number, skipped)
            if word is not None and (wanted is None or word in wanted):
                try:
                    yield number, word, np.array(fields[-width:], np.float32)
                except ValueError:
                    raise UserError(
                        f"{file}, line {number}: expected only numbers after {word!r}"
                    ) from None


def _fields(line: str) -> list[bytes]:
    """Split bytes at spaces and tabs only, because a no-break or ideographic space is a word."""
    return line.encode("utf-8", "surrogateescape").split()


def _check_width(file: Path, head: Sequence[tuple[int, str]], width: int) -> None:
    """Raise an error if most of the file's first lines have vectors of another width."""
    sizes = collections.Counter(len(_fields(line)) - 1 for _, line in head)
    if not sizes:
        return
    got = max(sizes, key=lambda size: (sizes[size], size == width))
    if got != width:
        number, line = next(row for row in head if len(_fields(row[1])) - 1 == got)
        if got < 1 or not all(map(_is_number, _fields(line)[1:])):
            raise UserError(
                f"{file}, line {number}: expected a word and its numbers, separated by spaces or "
                f"tabs, in text form; got {line.strip()[:40]!r}"
            )
        raise _other_width(file, got, width)


def _other_width(file: Path, got: int, width: int) -> UserError:
    return UserError(
        f"{file}: the vectors have {got} numbers, and the model's embedding {width}: "
        f"add --set model.embedding_dim={got}"
    )


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _decoded(word: bytes, number: int, skipped: _Skipped) -> str | None:
    try:
        return word.decode()
    except UnicodeDecodeError:
        skipped["whose word is not UTF-8"].append(number)
        return None
