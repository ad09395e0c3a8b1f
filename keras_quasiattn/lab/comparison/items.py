"""Files of scores of single test items, for paired differences."""

import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import atomic_file


def write_items(file: Path, scores: np.ndarray) -> None:
    """Write the scores (items,) of a run, as float32 in NumPy's format."""
    content = io.BytesIO()
    np.save(content, np.asarray(scores, np.float32))
    with atomic_file(file) as temporary:
        temporary.write_bytes(content.getvalue())


def read_items(files: Iterable[tuple[int, Path]]) -> dict[int, np.ndarray]:
    """Return the scores of runs by seed, from those files that exist.

    Raises:
        UserError: a file is damaged.
    """
    found = {}
    for seed, file in files:
        if file.exists():
            try:
                found[seed] = np.load(file, allow_pickle=False).astype(np.float64)
            except (OSError, ValueError, EOFError):
                raise UserError(f"{file} is damaged: it has no scores of test items") from None
    return found
