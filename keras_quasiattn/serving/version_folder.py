"""Folders of exported models, by name and version, that appear only when they are whole."""

import contextlib
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from keras_quasiattn.errors import UserError


def new_version(target: str | Path, name: str, version: int | None) -> Path:
    """Where a new version of a model belongs: `target/name/version`, which is not there yet.

    Args:
        target: folder of all exported models.
        name: name of the model.
        version: positive number of the version; None for one more than the highest there is.

    Raises:
        UserError: the name or version does not suit, or the version is there already.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(f"the model's name is {name!r}: it must be of letters, digits, '.', '_' and '-'")
    place = Path(target) / name
    version = _next_version(place) if version is None else version
    if version < 1:
        raise UserError(f"the version is {version}: it must be at least 1")
    final = place / str(version)
    if final.exists():
        raise UserError(f"{final} is there already: name another version, or none for the next")
    return final


def _next_version(place: Path) -> int:
    if not place.is_dir():
        return 1
    versions = [int(entry.name) for entry in place.iterdir() if entry.name.isdecimal()]
    return max(versions, default=0) + 1


@contextlib.contextmanager
def appearing(final: Path) -> Iterator[Path]:
    """Gives a name for a folder to write, which becomes `final` when all went well, and goes when not.

    Args:
        final: the folder; its parents are made where they are missing.

    Raises:
        UserError: it cannot be written.
    """
    # Not a number, so that a server takes it for no version.
    temporary = final.with_name(f".{final.name}.{uuid.uuid4().hex}.tmp")
    missing = [parent for parent in final.parents if not parent.exists()]
    try:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.rename(final)
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(f"cannot write {final}: {reason}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for parent in missing:  # those that another process uses by now are not empty
            with contextlib.suppress(OSError):
                parent.rmdir()
