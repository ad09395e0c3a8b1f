"""Atomic writes: a file or folder appears complete or not at all. JSON files, and manifests."""

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from keras_quasiattn.errors import FileError, UserError

MANIFEST: Final = "manifest.json"
LOCK: Final = ".lock"
_TEMPORARY = ".tmp-"
# Process id and machine of the writer.
_WRITER = re.compile(r"\.tmp-(\d+)@(.*?)-")
_A_DAY = 86_400


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Write a file atomically: the body writes to a temporary path, which then replaces `path`.

    Whatever happens in the `with` block, even a power failure, `path` holds either the old or the
    new content. Temporary files that a killed process left for the same `path` are removed.
    """
    temporary = path.with_name(f"{_prefix()}{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for entry in path.parent.iterdir():
            if entry.name.endswith(f"-{path.name}") and is_temporary(entry) and is_stale(entry):
                entry.unlink(missing_ok=True)
        yield temporary
        _synchronise(temporary)
        os.replace(temporary, path)
        _synchronise(path.parent)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Write a folder atomically: the body fills a temporary folder, which is then renamed.

    The body of the `with` block must create the temporary folder. Whatever happens in it, even a
    power failure, `folder` is complete or absent.
    """
    temporary = folder.with_name(f"{_prefix()}{uuid.uuid4().hex}-{folder.name}")
    with no_empty_folder(folder.parent):
        try:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            for entry in filter(is_stale, folder.parent.iterdir()):
                shutil.rmtree(entry, ignore_errors=True)
            yield temporary
            for path in (*temporary.rglob("*"), temporary):
                _synchronise(path)
            temporary.rename(folder)
            _synchronise(folder.parent)
        except OSError as error:
            raise FileError(f"cannot write {folder}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def no_empty_folder(folder: Path) -> Iterator[None]:
    """If the body fails, remove the folder and parents that the body created and left empty."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def check_writable(path: Path, *, is_folder: bool = False) -> None:
    """Raise a `FileError` if a file cannot be written at the path, or into a folder there.

    The file may exist, and missing folders would be made. This spares work whose result could not
    be kept; writing it may fail all the same.
    """
    place = path if is_folder else path.parent
    try:
        if not is_folder and path.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        nearest = next(one for one in (place, *place.absolute().parents) if one.exists())
        if not nearest.is_dir():
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}") from error


def write(path: Path, content: str | bytes) -> None:
    """Write bytes or a text as UTF-8, with "?" for half a surrogate pair, atomically."""
    with atomic_file(path) as temporary:
        text = content.encode("utf-8", "replace") if isinstance(content, str) else content
        temporary.write_bytes(text)


def finite(value: Any) -> Any:
    """Return a value with None for NaN and infinity, which JSON does not have.

    >>> finite({"a": [1.5, float("nan")], "b": "nan"})
    {'a': [1.5, None], 'b': 'nan'}
    """
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, atomically."""
    write(path, json.dumps(value, indent=2) + "\n")


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON object per line, atomically."""
    write(path, "".join(json.dumps(row) + "\n" for row in rows))


def begin(folder: Path, name: str, asked: Mapping[str, Any], kind: str) -> None:
    """Write what the work in a new folder is, or check that an existing folder has the same work.

    `asked` are its arguments, and may have dictionaries of `options` and of `data`, of which only
    the `version` must be the same. An argument that an earlier version did not write may have any
    value.
    """
    if not (folder / name).exists():
        if folder.exists() and any(not one.name.startswith(".") for one in folder.iterdir()):
            raise UserError(f"{folder} holds other files but no {kind}: name a new folder")
        write_json(folder / name, asked)
    former, now = (
        {**about, **about.get("options", {}), "options": None}
        for about in (read_json(folder / name), json.loads(json.dumps(asked)))
    )
    for about in (former, now):
        if isinstance(about.get("data"), dict):
            about["data"] = about["data"].get("version")
    differing = [
        f"{one} {former[one]!r}, not {value!r}"
        for one, value in now.items()
        if former.get(one, value) != value
    ]
    if differing:
        raise UserError(
            f"{folder} holds a {kind} with {'; '.join(differing)}: "
            "give the same arguments or a new folder"
        )


def read_utf8(path: Path) -> str:
    """Read a file that somebody else wrote; a `UserError` names the line that is not UTF-8."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: it is not UTF-8") from error


def read_object(path: Path, expected: str = "a JSON object") -> dict[str, Any]:
    """Read a JSON object that somebody else wrote; a `UserError` names the line of a mistake."""
    try:
        values = json.loads(read_utf8(path))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UserError(f"{path}, {place}: {error.msg}") from error
    except RecursionError:
        values = None
    if not isinstance(values, dict):
        raise UserError(f"{path}, line 1: it must be {expected}")
    return values


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; return {} if the file is missing or empty."""
    # A file is empty while another process is about to write it for the first time.
    text = _text(path)
    return _object(text, path, "it") if text else {}


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read a JSON object per line; return [] if the file is missing or empty."""
    lines = _text(path).removesuffix("\n").split("\n")
    named = enumerate(lines if lines != [""] else [], 1)
    return [_object(line, path, f"line {number}") for number, line in named]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error


def _object(text: str, path: Path, part: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UserError(f"{path} is damaged: {part} is not a JSON object")
    return value


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    """Replace a file's text, "" if it is missing, by `change(text)`, one process at a time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            write(path, change(path.read_text(encoding="utf-8")))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 at byte {error.start}: repair or move it") from None
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock a file against other processes; it is created if missing, and removed if it stays empty.

    The lock is released at the end of the `with` block, or when the process ends, even if killed.
    The block may replace the file.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is False.
        OSError: the file cannot be created.
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


@contextlib.contextmanager
def only_process(folder: Path, work: str) -> Iterator[None]:
    """Lock a folder for work of one process at a time; a `UserError` if another process is at it.

    The lock ends with the `with` block, or with the process, even if it is killed.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / LOCK, wait=False))
        except BlockingIOError:
            raise UserError(
                f"another process is {work} in {folder}: wait for it or stop it"
            ) from None
        except OSError as error:
            raise FileError(f"cannot write {folder}: {error.strerror}") from error
        yield


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether the open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def is_temporary(path: Path) -> bool:
    """Return whether the path is a temporary file or folder of `atomic_file` or `atomic_folder`."""
    return path.name.startswith(_TEMPORARY)


def is_stale(path: Path) -> bool:
    """Return whether an interrupted write left this temporary file or folder behind.

    It is stale if this process wrote it, or a process of this machine that has ended, or another
    machine more than a day ago.
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


def hashes(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of each file, by its name in the manifest."""
    found = {}
    for name, file in files.items():
        with open(file, "rb") as stream:
            digest = hashlib.sha256()
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
        found[name] = digest.hexdigest()
    return found


def check_hashes(manifest: Path, folder: Path, without: Iterable[str] = ()) -> None:
    """Check the files of a folder against its manifest; without a manifest, do nothing."""
    try:
        listed = json.loads(manifest.read_text(encoding="utf-8"))
        files = {name: folder / name for name in listed.keys() - set(without)}
    except FileNotFoundError:
        return
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        raise UserError(
            f"{manifest} is damaged: it is not a list of files and their hashes"
        ) from None
    for name, file in sorted(files.items()):
        try:  # an untrusted manifest might list an invalid name, or a device that never ends
            is_inside = file.resolve().is_relative_to(folder.resolve()) and file.is_file()
        except (OSError, ValueError):
            is_inside = False
        if not is_inside:
            raise UserError(f"{manifest} lists {name[:80]!r}, which is not a file of {folder}")
        try:
            same = hashes({name: file})[name] == listed[name]
        except OSError as error:
            raise UserError(f"cannot read {file}: {error.strerror}") from error
        if not same:
            raise UserError(
                f"{file} is not the file that {manifest} lists: "
                f"it is damaged or belongs to another model; "
                f"restore the file that was written together with the others"
            )
