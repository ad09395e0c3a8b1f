"""Training loss of several runs, a curve a model, with the spread of its seeds (Conflict's figures 4 and 5).

    python examples/loss_curves.py runs/tables/quora_part-siamese_* --output results/quora_loss.png

Beside the picture, a file of the same name that ends in .json holds the numbers. Needs matplotlib
(`pip install 'keras-quasiattn[benchmarks]'`).
"""

import argparse
import collections
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Curve = list[dict[str, Any]]


def curves(runs: Sequence[Path]) -> dict[str, Curve]:
    """For each model the mean, smallest and largest loss of its runs, at every step that all of them reached."""
    losses: dict[str, list[dict[int, float]]] = collections.defaultdict(list)
    for run in runs:
        model = json.loads((run / "config.json").read_text(encoding="utf-8"))["task_config"]["model"]
        rows = map(json.loads, (run / "history.jsonl").read_text(encoding="utf-8").splitlines())
        losses[model].append({row["step"]: row["loss"] for row in rows})
    found = {}
    for model, by_step in sorted(losses.items()):
        steps = sorted(set.intersection(*(set(one) for one in by_step)))
        found[model] = [
            {
                "step": step,
                "mean": statistics.mean(one[step] for one in by_step),
                "least": min(one[step] for one in by_step),
                "largest": max(one[step] for one in by_step),
                "runs": len(by_step),
            }
            for step in steps
        ]
    return found


def draw(found: dict[str, Curve], file: Path) -> None:
    """A line a model, its spread shaded."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for model, curve in found.items():
        steps = [row["step"] for row in curve]
        (line,) = axes.plot(
            steps, [row["mean"] for row in curve], label=f"{model} ({curve[0]['runs']} seeds)"
        )
        low, high = ([row[name] for row in curve] for name in ("least", "largest"))
        axes.fill_between(steps, low, high, color=line.get_color(), alpha=0.2)
    axes.set(xlabel="updates", ylabel="training loss, mean since the last point")
    axes.legend()
    figure.savefig(file, dpi=120)


def main() -> None:
    """Read the arguments, write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="run folders")
    parser.add_argument("--output", type=Path, required=True, help="the picture")
    arguments = parser.parse_args()
    for run in arguments.runs:
        if not (run / "history.jsonl").is_file():
            parser.error(f"{run} is no run that has begun to train: it has no history.jsonl")
    found = curves(arguments.runs)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    draw(found, arguments.output)
    arguments.output.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
