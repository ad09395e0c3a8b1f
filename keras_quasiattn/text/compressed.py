"""Text files that may be compressed."""

import contextlib
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from keras_quasiattn.errors import FileError, UserError

_OPENERS: dict[str, Callable[..., IO[str]]] = {".gz": gzip.open, ".xz": lzma.open}


@contextlib.contextmanager
def open_text(file: Path) -> Iterator[IO[str]]:
    r"""Opens a UTF-8 text file for reading; it is decompressed if its suffix is .gz or .xz.

    A byte-order mark is skipped. Lines end only at "\n": texts may contain other characters that
    Python takes for the end of a line.

    Raises:
        UserError: if the file cannot be read, is damaged or is not UTF-8.
    """
    opener = _OPENERS.get(file.suffix, open)
    try:
        with opener(file, "rt", encoding="utf-8-sig", newline="\n") as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from None
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{file} is damaged: {error}") from None
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror or error}") from error
