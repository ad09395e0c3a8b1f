"""Run SavedModels as a server does, without the Python of Keras, tensorflow-text or this package.

One such process serves all tests of a pytest worker. It reads requests as lines of JSON from its
standard input; arrays are passed in npz files without pickle.
"""

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ABSENT = ("keras", "keras_quasiattn", "tensorflow_text", "sentencepiece")


def ask(
    folder: Path, inputs: Mapping[str, Any] | Sequence[Any], function: str = "serving_default"
) -> dict[str, np.ndarray]:
    """Return a SavedModel's answer.

    Args:
        folder: the SavedModel.
        inputs: by name for a signature, in order for a function. Strings are bytes or str.
        function: the name of a signature, or of a `tf.function` of the saved module.
    """
    named = (
        dict(inputs) if isinstance(inputs, Mapping) else {f"{i}": x for i, x in enumerate(inputs)}
    )
    with tempfile.TemporaryDirectory() as place:
        write({name: np.asarray(value) for name, value in named.items()}, f"{place}/inputs.npz")
        asked = {"folder": str(folder), "function": function, "place": place, "names": list(named)}
        process = _process()
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        said = process.stdout.readline()
        assert said.strip() == "answered", said and json.loads(said)
        return read(f"{place}/outputs.npz")


def write(arrays: Mapping[str, np.ndarray], file: str) -> None:
    """Write arrays of numbers, or of strings with any bytes."""
    flat = {}
    for name, array in arrays.items():
        if array.dtype.kind in "OSU":
            strings = [
                s.encode() if isinstance(s, str) else bytes(s) for s in array.ravel().tolist()
            ]
            flat[f"bytes:{name}"] = np.frombuffer(b"".join(strings), np.uint8)
            flat[f"sizes:{name}"] = np.array([len(s) for s in strings], np.int64).reshape(
                array.shape
            )
        else:
            flat[f"array:{name}"] = array
    np.savez(file, **flat)


def read(file: str) -> dict[str, np.ndarray]:
    """Read what `write` wrote, with strings as bytes."""
    arrays = {}
    with np.load(file, allow_pickle=False) as flat:
        for key in flat:
            kind, _, name = key.partition(":")
            if kind == "array":
                arrays[name] = flat[key]
            elif kind == "sizes":
                sizes, content = flat[key], flat[f"bytes:{name}"].tobytes()
                ends = np.cumsum(sizes.ravel())
                arrays[name] = np.empty(sizes.size, object)
                arrays[name][:] = [
                    content[e - s : e] for e, s in zip(ends, sizes.ravel(), strict=True)
                ]
                arrays[name] = arrays[name].reshape(sizes.shape)
    return arrays


@functools.cache
def _process() -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**kept, "TF_CPP_MIN_LOG_LEVEL": "2"},
        cwd="/",
        text=True,
    )
    atexit.register(process.kill)
    return process


def main() -> None:
    import glob
    import importlib.util

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer
    kernels = (
        os.path.dirname(importlib.util.find_spec("tensorflow_text").origin) + "/python/ops/_*.so"
    )
    sys.modules.update(dict.fromkeys(ABSENT))
    import tensorflow as tf

    for file in sorted(glob.glob(kernels)):
        tf.load_op_library(file)
    load = functools.lru_cache(maxsize=2)(tf.saved_model.load)
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        try:
            assert not any(sys.modules[name] for name in ABSENT)
            model, place = load(asked["folder"]), asked["place"]
            inputs = read(f"{place}/inputs.npz")
            tensors = {
                name: tf.constant(inputs[name], tf.string if inputs[name].dtype == object else None)
                for name in asked["names"]
            }
            if asked["function"] in model.signatures:
                outputs = model.signatures[asked["function"]](**tensors)
            else:
                outputs = getattr(model, asked["function"])(*tensors.values())
            outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
            write({name: value.numpy() for name, value in outputs.items()}, f"{place}/outputs.npz")
            said = "answered"
        except Exception:
            said = json.dumps(traceback.format_exc())
        print(said, file=answers, flush=True)


if __name__ == "__main__":
    main()
