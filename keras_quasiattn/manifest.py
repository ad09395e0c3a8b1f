"""Manifests: hashes of files that belong together, computed when the files were written."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from keras_quasiattn.errors import UserError

MANIFEST: Final = "manifest.json"


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
        if not _is_file_of(folder, file):
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


def _is_file_of(folder: Path, file: Path) -> bool:
    """Return whether the path is a regular file in the folder; a damaged name may be invalid.

    An untrusted manifest might list a device that never ends.
    """
    try:
        return file.resolve().is_relative_to(folder.resolve()) and file.is_file()
    except (OSError, ValueError):
        return False
