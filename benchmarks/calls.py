"""Count the package's function calls and files in one call of a layer: how far a reader must go.

    python -m benchmarks.calls

Calls of functions count, nested ones too; calls of lambdas and comprehensions do not.
"""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import keras
import numpy as np

import keras_quasiattn
from keras_quasiattn.layers import MultiHeadCoDA

PACKAGE = str(Path(keras_quasiattn.__file__).parent)
# Name, shape of the input, and the layer's implementation.
CASES = (
    ("2 x 5, as it chooses", (2, 5, 16), "auto"),
    ("8 x 64, by tiles", (8, 64, 16), "blockwise"),
)


def count(layer: keras.layers.Layer, x: np.ndarray) -> tuple[int, int]:
    """The package's function calls in one call of a built layer, and the files they are in."""
    calls = 0
    files: set[str] = set()

    def follow(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(PACKAGE)
            and not code.co_name.startswith("<")
        ):
            calls += 1
            files.add(code.co_filename)

    sys.setprofile(follow)
    try:
        layer(x, x)
    finally:
        sys.setprofile(None)
    return calls, len(files)


def main() -> None:
    """Print one line per case."""
    for name, shape, implementation in CASES:
        x = np.random.default_rng(0).normal(size=shape).astype("float32")
        layer = MultiHeadCoDA(num_heads=2, key_dim=8, implementation=implementation)
        layer(x, x)  # builds it
        calls, files = count(layer, x)
        print(f"{name}: {calls} calls in {files} files")


if __name__ == "__main__":
    main()
