"""Finds the files that a user puts into the manual folder of a TFDS builder."""

from pathlib import Path

import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError


def manual_file(
    dl_manager: tfds.download.DownloadManager, name: str, builder: tfds.core.DatasetBuilder
) -> Path:
    """Finds a file in the manual folder, plain or compressed.

    Args:
        dl_manager: knows the manual folder; by default `downloads/manual` in the data folder.
        name: path of the plain file in the folder; the file's own name may add `.xz` or `.gz`.
        builder: its instructions say what to put there if the file is missing.

    Raises:
        UserError: there is no such file; the message contains the builder's instructions.
    """
    folder = _manual_dir(dl_manager)
    for suffix in ("", ".xz", ".gz"):
        file = folder / f"{name}{suffix}"
        if file.is_file():
            return file
    raise UserError(f"{name} is not in {folder}: {builder.MANUAL_DOWNLOAD_INSTRUCTIONS}")


def manual_folder(
    dl_manager: tfds.download.DownloadManager, name: str, builder: tfds.core.DatasetBuilder
) -> Path:
    """Finds a folder in the manual folder; arguments and errors as for `manual_file`."""
    folder = _manual_dir(dl_manager)
    if not (folder / name).is_dir():
        raise UserError(f"{name} is not in {folder}: {builder.MANUAL_DOWNLOAD_INSTRUCTIONS}")
    return folder / name


def _manual_dir(dl_manager: tfds.download.DownloadManager) -> Path:
    try:
        return Path(dl_manager.manual_dir)
    except AssertionError:  # the folder is missing or empty
        return Path("downloads/manual in the data folder")
