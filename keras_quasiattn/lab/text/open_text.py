"""Open text files that may be compressed."""

import codecs
import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import IO, Any

from keras_quasiattn.errors import FileError, UserError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
# UTF-32 comes first: its little-endian mark begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def format_of(file: Path, known: Container[str]) -> str | None:
    """Return the extension of the file's name, before .gz or .xz, if it is in `known`, or None.

    The extension is in lower case. Another extension at the end, such as .zip, is None: what the
    file contains is not what an extension before it says.
    """
    form, *others = [suffix.lower() for suffix in reversed(file.suffixes)] or [""]
    if form in _OPENERS:
        form = others[0] if others else ""
    return form if form in known else None


@contextlib.contextmanager
def open_text(
    file: Path, *, errors: str = "strict", newline: str | None = "\n"
) -> Iterator[IO[str]]:
    r"""Open a UTF-8 text file for reading, and decompress it if its suffix is .gz or .xz.

    A byte-order mark is skipped; one of UTF-16, which some spreadsheets write, or of UTF-32 selects
    that. `errors` and `newline` are as for `open`. By default lines end only at "\n", because texts
    may contain other characters that Python treats as line ends.

    Raises:
        UserError: the file cannot be read, is a pipe, is damaged or is not UTF-8.
    """
    opener = _OPENERS.get(file.suffix.lower(), open)
    encoding = "utf-8-sig"
    try:
        if file.is_fifo():
            raise UserError(f"{file} is a pipe, and a file is read more than once: name a file")
        with opener(file, "rb") as raw:
            begin = raw.read(4)
            marked = (name for mark, name in _MARKS.items() if begin.startswith(mark))
            encoding = next(marked, encoding)
            raw.seek(0)
            with io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline=newline) as stream:
                try:
                    yield stream
                except UnicodeDecodeError as error:
                    # Its position is in the part that was read last.
                    if (line := _undecodable_line(raw, encoding)) is None:
                        raise
                    name = encoding.removesuffix("-sig").upper()
                    raise UserError(
                        f"{file} is not {name}: {error.reason} in line {line}: save it as UTF-8"
                    ) from None
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{file} is damaged: {error}") from None
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror or error}") from error


def _undecodable_line(raw: IO[bytes], encoding: str) -> int | None:
    """Return the number of the first line that cannot be decoded; None if all can."""
    raw.seek(0)
    try:
        raw.read().decode(encoding)
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode(encoding)
        return (before.count("\n") or before.count("\r")) + 1
    return None
