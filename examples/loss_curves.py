r"""Plots one figure of several runs over training: a curve per model, with the spread of its seeds.

    python examples/loss_curves.py runs/tables/quora_part-siamese_* --output results/quora_loss.png
    python examples/loss_curves.py runs/mlu_* --figure val_sequence_accuracy \
        --output results/mlu_curves.png

A figure is a name in a run's `history.jsonl`. The training loss on Quora's pairs is Conflict's
figure 4.

The numbers are written to a .json file of the same name as the picture. Needs Matplotlib
(`pip install 'keras-quasiattn[report]'`); `quasiattn report` draws the same on a page.
"""

import argparse
import json
from pathlib import Path

from keras_quasiattn.report.figures import learning_curves
from keras_quasiattn.report.learning_curves import curves_of


def main() -> None:
    """Read the arguments and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="run folders")
    parser.add_argument("--figure", default="loss", help="default the training loss")
    parser.add_argument("--output", type=Path, required=True, help="the picture")
    arguments = parser.parse_args()
    histories = []
    for run in arguments.runs:
        if not (run / "history.jsonl").is_file():
            parser.error(f"{run} is no run that has begun to train: it has no history.jsonl")
        model = json.loads((run / "config.json").read_text(encoding="utf-8"))["task_config"][
            "model"
        ]
        rows = (run / "history.jsonl").read_text(encoding="utf-8").splitlines()
        histories.append((model, [json.loads(row) for row in rows]))
    found = curves_of(histories, arguments.figure)
    if not found:
        parser.error(f"no run has a {arguments.figure!r} in its history.jsonl")
    name = "training loss" if arguments.figure == "loss" else arguments.figure.replace("_", " ")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_bytes(learning_curves(arguments.figure, name, found).png)
    arguments.output.with_suffix(".json").write_text(
        json.dumps(found, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
