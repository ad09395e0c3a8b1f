"""Peak memory and time of an update of DecaProp's connectors, all at once or one at a time.

    python -m benchmarks.connectors --output benchmarks/results/connectors.json

Each case runs in its own process. `tensor_mib` is the size of one float32 tensor of all pairs of
positions: passage by question, or passage by passage with `intra`.
"""

import argparse
import itertools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.measure import interleaved_medians, machine, resident_peak, write_json

SIZES = {"batch": 4, "passage": 1000, "question": 40, "width": 128}


def main() -> None:
    """Measure every case in a new process and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 3], help="n, of n² connectors")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    sizes = {name: getattr(arguments, name) for name in SIZES}
    rows = []
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh, max_tasks_per_child=1) as processes:
        for case in itertools.product((False, True), arguments.layers, ("together", "in turn")):
            rows.append(processes.submit(measured, sizes, *case).result())
            print(rows[-1], flush=True)
    if arguments.output:
        write_json({"machine": machine(), "sizes": sizes, "rows": rows}, arguments.output)


def measured(sizes: dict[str, int], intra: bool, layers: int, order: str) -> dict[str, Any]:
    """Return a step's peak memory above that of the process before it, and its median time."""
    import tensorflow as tf

    from keras_quasiattn.core.tiling import rematerialize_in_turn
    from keras_quasiattn.layers import BidirectionalAttentionConnector

    connectors = [BidirectionalAttentionConnector(use_intra=intra) for _ in range(layers**2)]
    # Of each side `layers` tensors, (batch, length, width).
    passages, questions = (
        [tf.random.normal((sizes["batch"], sizes[side], sizes["width"])) for _ in range(layers)]
        for side in ("passage", "question")
    )
    for connector in connectors:
        connector.build([tuple(texts[0].shape) for texts in (passages, questions)])
    calls = [
        lambda *pair, connector=connector: tuple(connector(list(pair), training=True))
        for connector in connectors
    ]

    @tf.function
    def step(passages: list[tf.Tensor], questions: list[tf.Tensor]) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([passages, questions])
            pairs = list(itertools.product(passages, questions))
            if order == "together":
                found = [call(*pair) for call, pair in zip(calls, pairs, strict=True)]
            else:
                found = rematerialize_in_turn(calls, pairs)
            total = tf.add_n([tf.reduce_sum(one**2) for both in found for one in both])
        weights = [weight.value for connector in connectors for weight in connector.weights]
        return tape.gradient(total, [*passages, *questions, *weights])

    # Tracing needs memory too, so it comes before the base is read.
    step.get_concrete_function(passages, questions)
    base = resident_peak()
    step(passages, questions)
    step(passages, questions)
    peak = resident_peak() - base
    other = sizes["passage" if intra else "question"]
    return {
        "intra": intra,
        "connectors": len(connectors),
        "order": order,
        "above_base_mib": round(peak, 1),
        "tensor_mib": round(4 * sizes["batch"] * sizes["passage"] * other / 2**20, 1),
        "step_ms": round(
            interleaved_medians({"step": lambda: step(passages, questions)}, 15)["step"], 1
        ),
    }


if __name__ == "__main__":
    main()
