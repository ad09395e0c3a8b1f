r"""The time per batch of a task's input pipeline, and the time of an update.

    python -m benchmarks.pipeline translate --preset multi30k --model transformer_coda \
        --output pipeline.json

The pipeline works while the model does, so training waits for data only where the share is near 1.
The file keeps one row for each task, preset and model.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, write_json
from keras_quasiattn.lab import tasks


def main() -> None:
    """Parse the arguments, measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=sorted(tasks.available()))
    parser.add_argument("--preset", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument(
        "--steps", type=int, default=20, help="different batches that the model is timed on"
    )
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    task = tasks.get(arguments.task)(
        preset=arguments.preset, model=arguments.model, seed=0, data_dir=arguments.data_dir
    )
    row = {
        "task": arguments.task,
        "preset": arguments.preset,
        "model": arguments.model,
        **measured(task, arguments.steps),
        "machine": machine(),
    }
    print(json.dumps(row, indent=1))
    if arguments.output:
        names = ("task", "preset", "model")
        kept = json.loads(arguments.output.read_text())["rows"] if arguments.output.exists() else []
        others = [one for one in kept if any(one[name] != row[name] for name in names)]
        write_json({"rows": [*others, row]}, arguments.output)


def measured(task: tasks.Task, steps: int, batches: int = 200) -> dict[str, float]:
    """Return milliseconds per batch and per update, and their ratio."""
    task.prepare()
    model = task.build_model()
    model.compile("adam", loss=task.loss(), metrics=task.metrics())
    model.optimizer.build(model.trainable_variables)
    model.make_train_function()
    data = iter(task.training_data(0).take(steps).cache().repeat())
    step = _milliseconds(lambda: float(model.train_function(data)["loss"]), steps, steps)
    pipeline = iter(task.training_data(0))
    # The first batches are not counted: some are prefetched, and filling the shuffle buffer
    # happens once per training run.
    batch = _milliseconds(lambda: next(pipeline), batches // 2, batches)
    return {"batch_ms": round(batch, 2), "step_ms": round(step, 1), "share": round(batch / step, 4)}


def _milliseconds(call: Callable[[], Any], uncounted: int, counted: int) -> float:
    """Return the mean time of a call, not the median: a pipeline returns batches in bursts."""
    for _ in range(uncounted):
        call()
    start = time.perf_counter()
    for _ in range(counted):
        call()
    return 1e3 * (time.perf_counter() - start) / counted


if __name__ == "__main__":
    main()
