"""Folders of exported models, by name and version."""

import re
from pathlib import Path

from keras_quasiattn.errors import UserError

_HIGHEST = 2**63 - 1  # the largest version number that a server reads


def new_version(target: str | Path, name: str, version: int | None) -> Path:
    """The path of a new version of a model: `target/name/version`, which must not exist yet.

    Args:
        target: folder of all exported models.
        name: name of the model.
        version: positive version number; None means one more than the highest existing one.

    Raises:
        UserError: the name or version is invalid, or the version already exists.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(
            f"the model's name is {name!r}: it must start with a letter or digit and contain only "
            "letters, digits, '.', '_' and '-'"
        )
    place = Path(target) / name
    version = _next_version(place) if version is None else version
    if not 1 <= version <= _HIGHEST:
        raise UserError(f"the version is {version}: it must be from 1 to {_HIGHEST}")
    final = place / str(version)
    if final.exists():
        raise UserError(f"{final} already exists: name another version, or none for the next one")
    return final


def _next_version(place: Path) -> int:
    if not place.is_dir():
        return 1
    versions = [int(entry.name) for entry in place.iterdir() if entry.name.isdecimal()]
    return max(versions, default=0) + 1
