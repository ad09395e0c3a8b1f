r"""Compare CoDA with softmax attention: one run, one table, one JSON file, one plot.

    python -m benchmarks.coda                          # 32 x 256 x 256 x 64, layers and memory
    python -m benchmarks.coda --lengths 64 256 1024 4096 --features 32 64 128 \
        --output run.json --plot run.png

The cases of one size take turns, so that other load on the machine affects all of them: trust the
ratios.
"""

import argparse
import importlib.util
from pathlib import Path
from typing import Any

from benchmarks import report, rows
from benchmarks.measure import machine, write_json


def main(given: list[str] | None = None) -> None:
    """Run the measurements that the options ask for."""
    options = _checked(_parser(), given)
    result: dict[str, Any] = {"machine": machine(), "core": []}
    for features in options.features:
        for length in options.lengths:
            heads = rows.heads_that_fit(options.heads, length)
            size = {"heads": heads, "length": length, "features": features}
            result["core"] += rows.core(size, options.repeats, options.seconds)
    result["goals"] = rows.goals(result["core"])
    result["limit"], result["growth"] = rows.limits(result["core"]), rows.growth(result["core"])
    if options.layers:
        result["layers"] = rows.whole_layers(options.repeats, options.seconds)
    result["memory"] = [row for length in options.memory_lengths for row in rows.memory(length)]
    if options.compare_ref:
        result["compared_with"] = rows.of_another_ref(options)
    for name, part in [*result.items(), *result.get("compared_with", {}).items()]:
        if isinstance(part, list) and part:
            print(f"\n{name}\n{report.table(part)}")
    if options.plot:
        report.plot(result["core"], options.plot)
    if options.output:
        write_json(result, options.output)


def _checked(parser: argparse.ArgumentParser, given: list[str] | None) -> argparse.Namespace:
    """Parse the options, and reject at once what would fail only after minutes of measuring."""
    options = parser.parse_args(given)
    numbers = (
        options.heads,
        options.repeats,
        *options.lengths,
        *options.features,
        *options.memory_lengths,
    )
    if min(numbers) < 1:
        parser.error(
            f"heads, lengths, features and repeats must be at least 1. Received: {min(numbers)}"
        )
    if options.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: pip install 'keras-quasiattn[benchmarks]'")
    if options.compare_ref and not rows.has_benchmark(options.compare_ref):
        parser.error(
            f"--compare-ref {options.compare_ref!r}: no commit of that name has this benchmark"
        )
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--heads", type=int, default=32, help="batch times heads; fewer where long (default 32)"
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[256], help="T = S")
    parser.add_argument("--features", type=int, nargs="+", default=[64], help="size of a head")
    parser.add_argument("--repeats", type=int, default=15, help="of which the median is taken")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="a size's limit, three repeats at least"
    )
    parser.add_argument(
        "--layers", action=argparse.BooleanOptionalAction, default=True, help="updates"
    )
    parser.add_argument(
        "--memory-lengths",
        type=int,
        nargs="*",
        default=[8192],
        help="peak memory of 8 heads of 64 at these T = S",
    )
    parser.add_argument(
        "--compare-ref", help="a git ref whose package is measured too, on the same cases"
    )
    parser.add_argument("--plot", type=Path, help="a .png (needs the extra `benchmarks`)")
    parser.add_argument("--output", type=Path, help="a .json")
    return parser


if __name__ == "__main__":
    main()
