"""CoDA beside softmax attention: one run, one table, one JSON file.

    python -m benchmarks.coda --lengths 256 --features 64 --output benchmarks/results/run.json

Cases of one size are measured in turn, so that whatever else the machine does falls on all of them: trust the ratios.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

BYTES_LIMIT = 6 << 30  # a (heads, T, S, D) tensor and its gradient must stay below this to be tried


def core_rows(heads: int, length: int, features: int, repeats: int, names: list[str]) -> list[dict[str, Any]]:
    """Softmax, broadcasting and every implementation, each in each mode and for both kinds of pass."""
    from benchmarks import cases
    from benchmarks.measure import interleaved_medians

    functions: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
        "softmax": (cases.softmax_core, ("graph", "xla"))
    }
    if 3 * 4 * heads * length * length * features < BYTES_LIMIT:
        functions["broadcast"] = (cases.coda_by_broadcasting, ("graph", "xla"))
    modes = {"compiled": ("graph", "eager")}
    functions |= {name: (cases.coda(name), modes.get(name, ("graph", "eager", "xla"))) for name in names}
    arguments = cases.tensors(heads, length, features)
    calls = {}
    for name, (function, ways) in functions.items():
        for mode in ways:
            calls[f"{name}|{mode}|forward"] = cases.ready(function, arguments, mode)
            calls[f"{name}|{mode}|both"] = cases.ready(cases.both_passes(function), arguments, mode)
    medians = interleaved_medians(calls, repeats)
    size = {"heads": heads, "length": length, "features": features}
    return [
        {**size, **dict(zip(("case", "mode", "passes"), name.split("|"), strict=True)), "ms": milliseconds}
        for name, milliseconds in medians.items()
    ] + _cdist_rows(size, repeats)


def _cdist_rows(size: dict[str, int], repeats: int) -> list[dict[str, Any]]:
    """`torch.cdist(p=1)`, the L1 part alone, where PyTorch is installed."""
    try:
        import torch
    except ImportError:
        return []
    from benchmarks.measure import interleaved_medians

    x, y = (torch.randn(size["heads"], size["length"], size["features"]) for _ in range(2))
    medians = interleaved_medians({"cdist": lambda: torch.cdist(x, y, p=1)}, repeats)
    return [{**size, "case": "torch.cdist", "mode": "eager", "passes": "forward", "ms": medians["cdist"]}]


def layer_rows(batch: int, length: int, width: int, depth: int, repeats: int) -> list[dict[str, Any]]:
    """Training steps: one attention layer, and a small stack of Transformer layers, softmax against CoDA."""
    from benchmarks import cases
    from benchmarks.measure import interleaved_medians
    from keras_quasiattn import ops

    calls = {}
    for attention in ("softmax", "coda"):
        layer = cases.attention_layer(attention, width)
        calls[f"{attention}|layer"] = cases.layer_step(layer, batch, length, width)
        calls[f"{attention}|transformer"] = cases.transformer_step(attention, batch, length, width, depth)
    with ops.compiled_in_graphs():
        layer = cases.attention_layer("coda", width)
        calls["coda, compiled|layer"] = cases.layer_step(layer, batch, length, width)
        calls["coda, compiled|transformer"] = cases.transformer_step("coda", batch, length, width, depth)
        for name in ("coda, compiled|layer", "coda, compiled|transformer"):
            calls[name]()  # the graph is traced here, inside the block
    medians = interleaved_medians(calls, repeats)
    return [
        {
            "batch": batch,
            "length": length,
            "width": width,
            "case": name.split("|")[0],
            "step": name.split("|")[1],
            "ms": ms,
        }
        for name, ms in medians.items()
    ]


def growth_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """log2 of the time ratio where both T and 2T were measured."""
    from math import log2

    times = {
        (row["case"], row["mode"], row["passes"], row["features"], row["length"]): row["ms"] for row in rows
    }
    return [
        {
            "case": key[0],
            "mode": key[1],
            "passes": key[2],
            "features": key[3],
            "from": key[4],
            "exponent": log2(times[twice] / ms),
        }
        for key, ms in times.items()
        if (twice := (*key[:4], 2 * key[4])) in times
    ]


def limits(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The least time for the L1 part: two instructions an element at the measured rate, inputs and output once."""
    from benchmarks.measure import machine_rates

    rates = machine_rates()
    cores = os.cpu_count() or 1
    sizes = sorted({(row["heads"], row["length"], row["features"]) for row in rows})
    found = []
    for heads, length, features in sizes:
        operations = 2 * heads * length * length * features
        moved = 4 * heads * (2 * length * features + length * length)
        found.append(
            {
                "heads": heads,
                "length": length,
                "features": features,
                "instructions_ms": 1e3 * operations / (cores * rates["elementwise_per_second_and_core"]),
                "bytes_ms": 1e3 * moved / rates["bytes_per_second"],
                **rates,
            }
        )
    return found


def compare(reference: str, arguments: list[str]) -> dict[str, Any]:
    """The same run with the package of another git ref, in a work tree of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tree, output = Path(folder) / "tree", Path(folder) / "result.json"
        subprocess.run(
            ["git", "worktree", "add", "--detach", str(tree), reference], check=True, capture_output=True
        )
        try:
            subprocess.run(
                [sys.executable, "-m", "benchmarks.coda", *arguments, "--output", str(output)],
                env={**os.environ, "PYTHONPATH": str(tree)},
                cwd=tree,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            return json.loads(output.read_text())
        finally:
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(tree)], check=True, capture_output=True
            )


def table(rows: list[dict[str, Any]]) -> str:
    """Rows of one kind as aligned columns."""
    columns = list(rows[0])
    cells = [[f"{row[c]:.4g}" if isinstance(row[c], float) else str(row[c]) for c in columns] for row in rows]
    widths = [max(len(line[i]) for line in [columns, *cells]) for i in range(len(columns))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in [columns, *cells]
    ]
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Time of both passes against length, one line a case and mode."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for case, mode in sorted({(row["case"], row["mode"]) for row in rows if row["passes"] == "both"}):
        chosen = [r for r in rows if (r["case"], r["mode"], r["passes"]) == (case, mode, "both")]
        chosen.sort(key=lambda row: row["length"])
        axes.loglog([r["length"] for r in chosen], [r["ms"] for r in chosen], "o-", label=f"{case}, {mode}")
    axes.set(xlabel="T = S", ylabel="forward and backward, ms")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def main(given: list[str] | None = None) -> None:
    """Runs what the options ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--heads", type=int, default=32, help="batch times heads (default 32)")
    parser.add_argument("--lengths", type=int, nargs="+", default=[256], help="T = S")
    parser.add_argument("--features", type=int, nargs="+", default=[64], help="size of a head")
    parser.add_argument("--implementations", nargs="+", default=["blockwise", "compiled"])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--layers", action="store_true", help="whole layers and a small Transformer")
    parser.add_argument(
        "--memory-length", type=int, nargs="*", default=[], help="peak memory of 8 heads at these T = S"
    )
    parser.add_argument("--compare-ref", help="a git ref to run the same benchmark at")
    parser.add_argument("--plot", type=Path, help="a .png (needs the extra `benchmarks`)")
    parser.add_argument("--output", type=Path, help="a .json")
    options = parser.parse_args(given)

    from benchmarks.measure import machine, peak_memory

    result: dict[str, Any] = {"machine": machine(), "core": []}
    for features in options.features:
        for length in options.lengths:
            result["core"] += core_rows(
                options.heads, length, features, options.repeats, options.implementations
            )
    result["limit"], result["growth"] = limits(result["core"]), growth_rows(result["core"])
    if options.layers:
        result["layers"] = layer_rows(16, 128, 256, 2, options.repeats)
    result["memory"] = []
    for length in options.memory_length:
        for name in options.implementations:
            mode = "graph" if name == "compiled" else "xla"
            arguments = ["--implementation", name, "--mode", mode, "--heads", "8", "--length", str(length)]
            figures = peak_memory([*arguments, "--features", "64", "--passes", "both"])
            result["memory"].append({"case": name, "mode": mode, "length": length, **figures})
    if options.compare_ref:
        arguments = [str(x) for x in ("--heads", options.heads, "--lengths", *options.lengths)]
        arguments += [str(x) for x in ("--features", *options.features, "--repeats", options.repeats)]
        arguments += ["--implementations", *options.implementations]
        result["compared_with"] = {"ref": options.compare_ref, **compare(options.compare_ref, arguments)}
    for name, rows in [*result.items(), *(result.get("compared_with") or {}).items()]:
        if isinstance(rows, list) and rows:
            print(f"\n{name}\n{table(rows)}")
    if options.plot:
        plot(result["core"], options.plot)
    if options.output:
        temporary = options.output.with_name(f".{options.output.name}.{os.getpid()}")
        temporary.write_text(json.dumps(result, indent=1) + "\n")
        os.replace(temporary, options.output)


if __name__ == "__main__":
    main()
