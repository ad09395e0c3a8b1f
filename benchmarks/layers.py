"""Whole attention layers beside `keras.layers.MultiHeadAttention`: training, predicting, exported.

"compiled" is an export whose call XLA compiles, as in `quasiattn export --compile`.

    python -m benchmarks.layers --output benchmarks/results/layers.json

In each size, the layers take turns in one process; their exported SavedModels do so in another
process, without this package. A ratio is a layer's median over that of Keras, which is exported as
it is and not compiled. Where PyTorch and JAX are installed, CoDA and Keras' layer on each are also
measured beside the attention of that framework, and these ratios are over its time
(`benchmarks.backends`).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import backends
from benchmarks.backends import self_attention, ways_of
from benchmarks.cases import Size
from benchmarks.measure import interleaved_medians, machine, write_json
from keras_quasiattn.attention.base import ATTENTIONS

SIZES = (Size(16, 128, 256, 4), Size(32, 64, 256, 4), Size(4, 512, 512, 8), Size(64, 24, 128, 4))
COMPILED = "-compiled"  # ends the folder's name of such an export
KERAS = "keras"  # the name of Keras' own layer among the others
# Times the SavedModels of a folder by turns: folder, batch, length, width, repeats, seconds.
EXPORTED = """
import json, pathlib, sys, time
import numpy as np, tensorflow as tf
from benchmarks.measure import interleaved_medians
folder, (*shape, repeats) = pathlib.Path(sys.argv[1]), map(int, sys.argv[2:6])
x = tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)
models = {path.name: tf.saved_model.load(path) for path in sorted(folder.iterdir())}
calls = {name: lambda model=model: model.serve(x).numpy() for name, model in models.items()}
assert "keras_quasiattn" not in sys.modules
clock = getattr(time, sys.argv[7])
print(json.dumps(interleaved_medians(calls, repeats, float(sys.argv[6]), clock)))
"""


def export(model: keras.Model, folder: Path, name: str, width: int) -> None:
    """Export a model as it is, and with its call compiled by XLA."""
    model.export(folder / name, verbose=False)
    archive = keras.export.ExportArchive()
    archive.track(model)
    call = tf.function(lambda x: model(x, training=False), jit_compile=True)
    spec = tf.TensorSpec((None, None, width), tf.float32)
    archive.add_endpoint("serve", call, input_signature=[spec])
    archive.write_out(folder / f"{name}{COMPILED}", verbose=False)


def measured(
    size: Size, names: list[str], repeats: int, seconds: float, clock: str
) -> list[dict[str, Any]]:
    """One row for each layer and way of calling it; `clock` is a function of `time`."""
    classes = {KERAS: keras.layers.MultiHeadAttention, **ATTENTIONS}
    models = {
        name: self_attention(classes[name](size.heads, size.width // size.heads), size.width)
        for name in (KERAS, *names)
    }
    shape = (size.batch, size.length, size.width)
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    calls = {name: ways_of(model, x) for name, model in models.items()}
    medians = {
        way: interleaved_medians(
            {name: of_model[way] for name, of_model in calls.items()},
            repeats,
            seconds,
            getattr(time, clock),
        )
        for way in calls[KERAS]
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            export(model, Path(folder), name, size.width)
        numbers = map(str, (*shape, repeats, seconds))
        command = [sys.executable, "-c", EXPORTED, folder, *numbers, clock]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    exported: dict[str, float] = json.loads(said.splitlines()[-1])
    medians["exported"] = {name: exported[name] for name in models}
    medians["compiled"] = {name: exported[f"{name}{COMPILED}"] for name in models}
    of_keras = {way: of_all[KERAS] for way, of_all in medians.items()}
    of_keras["compiled"] = of_keras["exported"]
    return [
        {**size._asdict(), "way": way, "layer": name, "ms": ms, "ratio": ms / of_keras[way]}
        for way, of_all in medians.items()
        for name, ms in of_all.items()
    ]


def main() -> None:
    """Print the table; `--output` keeps the rows as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names, sizes = sorted(ATTENTIONS), range(len(SIZES))
    parser.add_argument("--layers", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument(
        "--sizes", type=int, nargs="+", choices=sizes, default=list(sizes), help="rows of SIZES"
    )
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--seconds", type=float, default=20.0, help="at most, for each way")
    parser.add_argument(
        "--cpu", action="store_true", help="time of all cores, for a machine that others use too"
    )
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    clock = "process_time" if given.cpu else "perf_counter"
    result: dict[str, Any] = {"machine": machine(), "clock": clock, "rows": [], "backends": []}
    print("batch, length, width, heads | layer | train | predict | exported | compiled, over Keras")
    for size in (SIZES[number] for number in given.sizes):
        rows = measured(size, given.layers, given.repeats, given.seconds, clock)
        result["rows"] += rows
        for name in given.layers:
            ratios = (f"{row['ratio']:.2f}" for row in rows if row["layer"] == name)
            print(*map(str, size), "|", name, "|", " | ".join(ratios), flush=True)
        if "coda" in given.layers:
            beside = backends.rows(size, given.repeats, given.seconds, clock)
            result["backends"] += beside
            for row in beside:
                if row["layer"] != "own":
                    about = (row["backend"], row["layer"], row["way"])
                    print(*map(str, size), "|", *about, f"{row['ratio']:.2f}")
    if given.output:
        write_json(result, given.output)


if __name__ == "__main__":
    main()
