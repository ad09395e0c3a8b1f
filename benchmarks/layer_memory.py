"""Peak memory of an update of every multi-head layer, each in a separate process.

    python -m benchmarks.layer_memory --output benchmarks/results/layer_memory.json
    python -m benchmarks.layer_memory --size 1 8192 512 8

An update on a short sequence comes first, so that code and libraries are not counted: the figures
are what the update on the long one needs above that, activations and gradients.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np

from benchmarks.cases import Size
from benchmarks.layers import KERAS, self_attention
from benchmarks.measure import machine, resident_peak, write_json
from keras_quasiattn.attention.base import ATTENTIONS


def above_base(name: str, size: Size) -> float:
    """Return the MiB that an update takes in this process, above those of a short one."""
    classes = {KERAS: keras.layers.MultiHeadAttention, **ATTENTIONS}
    model = self_attention(classes[name](size.heads, size.width // size.heads), size.width)
    for length in (64, size.length):
        base = resident_peak()
        x = np.ones((size.batch, length, size.width), "float32")
        x[:, ::2] = -1.0
        model.train_on_batch(x, x)
    return resident_peak() - base


def main() -> None:
    """Print the table; `--output` keeps the rows as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [KERAS, *sorted(ATTENTIONS)]
    parser.add_argument("--layers", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument(
        "--size",
        type=int,
        nargs=4,
        default=(4, 2048, 256, 4),
        metavar=("BATCH", "LENGTH", "WIDTH", "HEADS"),
    )
    parser.add_argument("--of-this-process", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    size = Size(*given.size)
    if given.of_this_process:
        print(json.dumps(above_base(given.layers[0], size)))
        return
    rows = []
    for name in given.layers:
        command = [sys.executable, "-m", "benchmarks.layer_memory", "--of-this-process"]
        command += ["--layers", name, "--size", *map(str, size)]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        rows.append({**size._asdict(), "layer": name, "mib": json.loads(said.splitlines()[-1])})
        print(f"{name}: {rows[-1]['mib']:.0f} MiB", flush=True)
    if given.output:
        write_json({"machine": machine(), "rows": rows}, given.output)


if __name__ == "__main__":
    main()
