"""Independent float64 vectors, if they are present next to the project."""

import json
import os
from pathlib import Path

import numpy as np

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "conformance" / "vectors.npz"
PATH = Path(os.environ.get("QUASIATTN_CONFORMANCE", _DEFAULT))


def cases(prefix):
    """Return (name, config, inputs, outputs, gradients) of the cases that start with `prefix`."""
    if not PATH.exists():
        return []
    arrays = np.load(PATH)
    rows = []
    for entry in json.loads(bytes(arrays["index"]).decode()):
        name = entry["case"]
        if name.startswith(prefix + "/"):
            groups = [
                {key: arrays[f"{name}/{folder}/{key}"] for key in entry[field]}
                for field, folder in (("inputs", "in"), ("outputs", "out"), ("grads", "grad"))
            ]
            rows.append((name, entry["config"], *groups))
    return rows
