"""Search options from Python: random trials, each a run folder; the validation data decide.

    python examples/tune.py --to searches/made-up

The same on the command line:
`quasiattn tune classify --data my.tsv --to searches/mine --try model.units=8,16 --trials 4`.
"""

import argparse
import json
from pathlib import Path

from made_up_texts import SMALL, write_table

from keras_quasiattn.lab import tasks
from keras_quasiattn.tuning import search, search_space


def main() -> None:
    """Search and print the best trial."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--steps", type=int, default=90, help="updates of a trial; a multiple of 3")
    arguments = parser.parse_args()
    if arguments.steps < 3:
        parser.error(f"--steps is {arguments.steps}: it must be at least 3")
    arguments.to.mkdir(parents=True, exist_ok=True)
    table = write_table(arguments.to / "my.tsv", 240)
    settings = {
        **SMALL,
        "data.train": str(table),
        "training.steps": str(arguments.steps),
        "training.checkpoint_every": str(arguments.steps // 3),
    }
    task = tasks.get("classify")(
        preset="own",
        model="bilstm_gated",
        seed=0,
        data_dir=arguments.to / "data",
        overrides=settings,
    )
    wanted = {
        "model.units": "4,8,16",
        "model.gate_temperature": "0.5,1.0",
        "training.learning_rate": "3e-3,1e-2",
    }
    best = search(
        task, search_space(task, wanted), arguments.to / "search", trials=arguments.trials
    )
    assert best is not None  # only a tuner that has a chief gets None
    chosen = best.config["task_config"]["options"]
    print(
        json.dumps({name: chosen[name] for name in wanted}),
        best.metrics()["validation"]["accuracy"],
    )


if __name__ == "__main__":
    main()
