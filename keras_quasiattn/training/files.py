"""Files that are either wholly written or not there."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from keras_quasiattn.errors import UserError

_TEMPORARY = ".tmp-"
# The process and the machine that write it.
_WRITER = re.compile(r"\.tmp-(\d+)@(.*?)-")
_A_DAY = 86_400


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file whole: the body writes to the name it is given, which then takes the place of `path`.

    Whatever happens in the body, a power failure included, `path` holds its old content or its new one. What a process
    left of the same file when it was killed goes.

    Args:
        path: the file to write; its folder is made where it is missing.

    Raises:
        UserError: the folder cannot be written or the disk is full; `path` is as it was.

    ```python
    with replacing(folder / "metrics.json") as temporary:
        temporary.write_text("{}")
    ```
    """
    temporary = path.with_name(f"{_prefix()}{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for entry in path.parent.iterdir():
            if entry.name.endswith(f"-{path.name}") and is_temporary(entry) and is_left_over(entry):
                entry.unlink(missing_ok=True)
        yield temporary
        _synchronise(temporary)
        os.replace(temporary, path)
        _synchronise(path.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Write a folder whole: the body makes the one whose name it is given, which then becomes `folder`.

    Whatever happens in the body, a power failure included, `folder` is not there or is complete.

    Args:
        folder: its parents are made where they are missing.

    Raises:
        UserError: it cannot be written.
    """
    temporary = folder.with_name(f"{_prefix()}{uuid.uuid4().hex}-{folder.name}")
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        for entry in filter(is_left_over, folder.parent.iterdir()):
            shutil.rmtree(entry, ignore_errors=True)
        yield temporary
        for path in (*temporary.rglob("*"), temporary):
            _synchronise(path)
        temporary.rename(folder)
        _synchronise(folder.parent)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for parent in missing:  # those that another process uses by now are not empty
            with contextlib.suppress(OSError):
                parent.rmdir()


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    """Give a file the text that `change` makes of the one it has, "" where there is none; one process after the other.

    Raises:
        UserError: the file cannot be written; it is as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path), replacing(path) as temporary:
            temporary.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Keep other processes from locking this file, which is made where it is missing, and goes if it stays empty.

    The lock ends with the process that holds it, however that ends. The file may be replaced meanwhile.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is False.
        OSError: the file cannot be made.
    """
    while True:
        with open(path, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if not _is_at(path, file.fileno()):
                continue  # it was replaced or removed while this process waited
            try:
                yield
            finally:
                if _is_at(path, file.fileno()) and not path.stat().st_size:
                    path.unlink()
            return


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def is_temporary(path: Path) -> bool:
    """Whether the file or folder is one that `replacing` or `appearing` has begun."""
    return path.name.startswith(_TEMPORARY)


def is_left_over(path: Path) -> bool:
    """Whether it is the rest of a write that was cut off: nobody else is still at it.

    That is known of this machine's processes; what another machine left counts after a day.
    """
    writer = _WRITER.match(path.name)
    if writer and writer[2] == _machine():
        return writer[1] == str(os.getpid()) or not Path(f"/proc/{writer[1]}").exists()
    return is_temporary(path) and time.time() - path.stat().st_mtime > _A_DAY


def _prefix() -> str:
    return f"{_TEMPORARY}{os.getpid()}@{_machine()}-"


def _machine() -> str:
    return socket.gethostname().replace("-", "_")


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
