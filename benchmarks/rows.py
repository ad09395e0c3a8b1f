"""The measurements, as rows of a table."""

import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import cases
from benchmarks.measure import interleaved_medians, machine_rates, peak_memory

Row = dict[str, Any]

# Broadcasting is measured only if three float32 (heads, T, S, D) tensors need less than this.
_BROADCAST_BYTES = 6 << 30
_PAIRS = 1 << 28  # of all heads together: softmax attention's matrix takes 1 GiB
_SLOW_PAIRS = 1 << 24  # with more pairs, "blockwise" is not measured in eager mode
COMPILED = importlib.util.find_spec("numba") is not None


def heads_that_fit(heads: int, length: int) -> int:
    """`heads`, or fewer if their matrices would be too large."""
    return max(1, min(heads, _PAIRS // length**2))


def core(size: Row, repeats: int, seconds: float) -> list[Row]:
    """Time softmax, broadcasting and all implementations, in each mode, forward and both passes."""
    pairs = size["heads"] * size["length"] ** 2
    functions: dict[str, tuple[cases.Function, tuple[str, ...]]] = {
        "softmax": (cases.softmax_core, ("graph", "xla"))
    }
    if 3 * 4 * pairs * size["features"] < _BROADCAST_BYTES:
        functions["broadcast"] = (cases.coda_by_broadcasting, ("graph", "xla"))
    modes = ("graph", "xla") if pairs > _SLOW_PAIRS else ("graph", "xla", "eager")
    functions["blockwise"] = (cases.coda("blockwise"), modes)
    if COMPILED:
        functions["compiled"] = (cases.coda("compiled"), ("graph", "eager"))
    arguments = cases.tensors(size["heads"], size["length"], size["features"])
    calls = {}
    for name, (function, ways) in functions.items():
        for mode in ways:
            calls[name, mode, "forward"] = cases.ready(function, arguments, mode)
            calls[name, mode, "both"] = cases.ready(cases.both_passes(function), arguments, mode)
    calls |= _cdist(size)
    medians = interleaved_medians(calls, repeats, seconds)
    return [
        {**size, **dict(zip(("case", "mode", "passes"), key, strict=True)), "ms": milliseconds}
        for key, milliseconds in medians.items()
    ]


def _cdist(size: Row) -> dict[tuple[str, str, str], Any]:
    """`torch.cdist(p=1)`, only the L1 part, if PyTorch is installed."""
    if not importlib.util.find_spec("torch"):
        return {}
    import torch

    x, y = (torch.randn(size["heads"], size["length"], size["features"]) for _ in range(2))
    return {("torch.cdist", "eager", "forward"): lambda: torch.cdist(x, y, p=1)}


def goals(core_rows: list[Row]) -> list[Row]:
    """Return how much faster than broadcasting and slower than the faster softmax mode it is."""
    found = []
    for row in core_rows:
        size = ("heads", "length", "features", "passes")
        same = [other for other in core_rows if all(other[name] == row[name] for name in size)]
        if row["case"] not in ("blockwise", "compiled"):
            continue
        softmax = min(other["ms"] for other in same if other["case"] == "softmax")
        broadcast = [o["ms"] for o in same if (o["case"], o["mode"]) == ("broadcast", "graph")]
        found.append(
            {
                **{name: row[name] for name in ("length", "features", "case", "mode", "passes")},
                "faster_than_broadcast": broadcast[0] / row["ms"] if broadcast else None,
                "slower_than_softmax": row["ms"] / softmax,
            }
        )
    return found


def growth(core_rows: list[Row]) -> list[Row]:
    """log2 of the ratio of times per head at 2T and at T, where both were measured."""
    names = ("case", "mode", "passes", "features")
    times = {
        (*(row[n] for n in names), row["length"]): row["ms"] / row["heads"] for row in core_rows
    }
    return [
        {
            **dict(zip(names, key, strict=False)),
            "from": key[-1],
            "exponent": math.log2(times[twice] / time),
        }
        for key, time in times.items()
        if (twice := (*key[:-1], 2 * key[-1])) in times
    ]


def limits(core_rows: list[Row]) -> list[Row]:
    """Return lower limits for the time of the L1 part.

    Either two operations per element at the measured rate, or one transfer of the inputs and the
    output.
    """
    rates = machine_rates()
    found = []
    for heads, length, features in sorted(
        {(r["heads"], r["length"], r["features"]) for r in core_rows}
    ):
        operations = 2 * heads * length * length * features
        # Query and key, (heads, T, D) each, and the distances (heads, T, T), in float32.
        moved = 4 * heads * (2 * length * features + length * length)
        found.append(
            {
                **{"heads": heads, "length": length, "features": features},
                "operations_ms": 1e3 * operations / rates["operations_per_second"],
                "bytes_ms": 1e3 * moved / rates["bytes_per_second"],
                **rates,
            }
        )
    return found


def whole_layers(repeats: int, seconds: float) -> list[Row]:
    """Time updates of one attention layer and of a small Transformer.

    With Keras' attention, and with CoDA in several ways.
    """
    import keras

    from keras_quasiattn import layers

    size = cases.Size()
    heads = (size.heads, size.width // size.heads)
    ways = {"auto": False, "blockwise": False, "blockwise, xla": True}
    calls = {
        ("attention layer", "keras", "graph"): cases.layer_step(
            keras.layers.MultiHeadAttention(*heads), size
        ),
        ("transformer", "softmax", "graph"): cases.transformer_step("softmax", size),
        ("transformer", "coda", "auto"): cases.transformer_step("coda", size),
    }
    for way, jit_compile in ways.items():
        layer = layers.MultiHeadCoDA(*heads, implementation=way.split(",")[0])
        calls["attention layer", "coda", way] = cases.layer_step(layer, size, jit_compile)
    medians = interleaved_medians(calls, repeats, seconds)
    plain = {"attention layer": "keras", "transformer": "softmax"}
    return [
        {
            **{"step": step, "attention": attention, "way": way, "ms": ms},
            "ratio": ms / medians[step, plain[step], "graph"],
            **size._asdict(),
        }
        for (step, attention, way), ms in medians.items()
    ]


def memory(length: int) -> list[Row]:
    """Peak memory of both passes with 8 heads of size 64, each case in a new process."""
    ways = [("blockwise", "xla"), ("blockwise", "graph")] + [("compiled", "graph")] * COMPILED
    found = []
    for name, mode in ways:
        arguments = [
            "--implementation",
            name,
            "--mode",
            mode,
            "--heads",
            "8",
            "--length",
            str(length),
        ]
        figures = peak_memory([*arguments, "--features", "64", "--passes", "both"])
        found.append({"case": name, "mode": mode, "length": length, **figures})
    return found


def has_benchmark(reference: str) -> bool:
    """Return whether `reference` names a commit of this repository that has this benchmark."""
    command = ["git", "cat-file", "-e", f"{reference}:benchmarks/coda.py"]
    return subprocess.run(command, capture_output=True).returncode == 0


def of_another_ref(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the same core cases with another git ref's package, in a temporary work tree."""
    with tempfile.TemporaryDirectory() as folder:
        tree, output = Path(folder) / "tree", Path(folder) / "result.json"
        add = ["git", "worktree", "add", "--detach", str(tree), options.compare_ref]
        subprocess.run(add, check=True, capture_output=True)
        try:
            command = [sys.executable, "-m", "benchmarks.coda", "--no-layers", "--memory-lengths"]
            for name in ("heads", "lengths", "features", "repeats", "seconds"):
                given = getattr(options, name)
                given = given if isinstance(given, list) else [given]
                command += [f"--{name}", *map(str, given)]
            environment = {**os.environ, "PYTHONPATH": str(tree)}
            subprocess.run(
                [*command, "--output", str(output)],
                env=environment,
                cwd=tree,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            return {"ref": options.compare_ref, **json.loads(output.read_text())}
        finally:
            remove = ["git", "worktree", "remove", "--force", str(tree)]
            subprocess.run(remove, check=True, capture_output=True)
