"""Files that a user puts into the manual folder of a TFDS builder."""

import os
from pathlib import Path

import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError


def manual_file(folder: str | os.PathLike[str], name: str, builder: tfds.core.DatasetBuilder) -> Path:
    """The file of this name in the manual folder, plain or compressed.

    Args:
        folder: the manual folder.
        name: path of the plain file in the folder; `.xz` or `.gz` may follow it.
        builder: says what to put there where it is missing.

    Raises:
        UserError: there is no such file; the message has the builder's instructions.
    """
    for suffix in ("", ".xz", ".gz"):
        file = Path(folder) / f"{name}{suffix}"
        if file.is_file():
            return file
    raise UserError(f"{Path(folder) / name} is not there: {builder.MANUAL_DOWNLOAD_INSTRUCTIONS}")
