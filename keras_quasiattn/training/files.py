"""Files that are either wholly written or not there."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_quasiattn.errors import UserError

_TEMPORARY = ".tmp-"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file whole: the body writes to the name it is given, which then takes the place of `path`.

    Whatever happens in the body, a power failure included, `path` holds its old content or its new one.

    Args:
        path: the file to write; its folder is made where it is missing.

    Raises:
        UserError: the folder cannot be written or the disk is full; `path` is as it was.

    ```python
    with replacing(folder / "metrics.json") as temporary:
        temporary.write_text("{}")
    ```
    """
    temporary = path.with_name(f"{_TEMPORARY}{os.getpid()}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _synchronise(temporary)
        os.replace(temporary, path)
        _synchronise(path.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def is_temporary(path: Path) -> bool:
    """Whether the file is the rest of a write that was cut off."""
    return path.name.startswith(_TEMPORARY)


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
