"""How far a reader has to go: `python -m benchmarks.calls` counts the package's calls and files in one call of a layer.

Calls of functions are counted, not of lambdas and comprehensions; a call within a call counts too.
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
    """Calls of functions of the package, and the files they are in, while the built layer is called."""
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
    """Prints a line a case."""
    for name, shape, implementation in CASES:
        x = np.random.default_rng(0).normal(size=shape).astype("float32")
        layer = MultiHeadCoDA(num_heads=2, key_dim=8, implementation=implementation)
        layer(x, x)  # built
        calls, files = count(layer, x)
        print(f"{name}: {calls} calls in {files} files")


if __name__ == "__main__":
    main()
