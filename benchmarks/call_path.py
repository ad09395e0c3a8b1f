"""Count the files and functions of the package that a call passes.

python -m benchmarks.call_path prints them for a built, eager self-attention of every multi-head
layer; with --files, the files too. What a newcomer has to open to follow a call.
"""

import argparse
import collections
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import keras_quasiattn
from keras_quasiattn.attention.base import ATTENTIONS

PACKAGE = pathlib.Path(keras_quasiattn.__file__).parent


def files_of(call: Callable[[], Any]) -> collections.Counter[str]:
    """Return how many functions of each file of the package `call` enters."""
    entered: collections.Counter[str] = collections.Counter()

    def note(frame: Any, event: str, _: Any) -> None:
        path = pathlib.Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            entered[str(path.relative_to(PACKAGE))] += 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


def main() -> None:
    """Print a line for each multi-head layer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the files of each call")
    arguments = parser.parse_args()
    x = np.ones((2, 5, 16), "float32")
    mask = np.ones((2, 5, 5), "bool")
    for kind in ATTENTIONS.values():
        layer = kind(4, 16)
        layer(x, x, attention_mask=mask)
        entered = files_of(lambda layer=layer: layer(x, x, attention_mask=mask))  # type: ignore[misc]
        print(f"{type(layer).__name__:24} {len(entered):3} files {entered.total():4} functions")
        if arguments.files:
            for path, count in entered.most_common():
                print(f"    {count:4} {path}")


if __name__ == "__main__":
    main()
