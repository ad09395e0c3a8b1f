"""Files that a user puts into the manual folder of a TFDS builder."""

from pathlib import Path

import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError


def manual_file(
    dl_manager: tfds.download.DownloadManager, name: str, builder: tfds.core.DatasetBuilder
) -> Path:
    """The file of this name in the manual folder, plain or compressed.

    Args:
        dl_manager: knows the manual folder; by default `downloads/manual` in the folder of the data.
        name: path of the plain file in the folder; `.xz` or `.gz` may follow it.
        builder: says what to put there where it is missing.

    Raises:
        UserError: there is no such file; the message has the builder's instructions.
    """
    try:
        folder = Path(dl_manager.manual_dir)
    except AssertionError:  # the folder is missing or empty
        folder = Path("downloads/manual in the data folder")
    for suffix in ("", ".xz", ".gz"):
        file = folder / f"{name}{suffix}"
        if file.is_file():
            return file
    raise UserError(f"{name} is not in {folder}: {builder.MANUAL_DOWNLOAD_INSTRUCTIONS}")
