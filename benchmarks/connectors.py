"""Peak memory of nine connectors in a training step; prints JSON.

    python -m benchmarks.connectors --passage 1000 --question 40 --intra

`tensor_mib` is one float32 tensor of every pair of positions, passage against
question, with `--intra` passage against passage.
"""

import argparse
import json

from benchmarks.measure import resident_peak


def main() -> None:
    """Measure a step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("batch", 4), ("passage", 1000), ("question", 40), ("width", 128), ("layers", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--intra", action="store_true", help="align each text to itself, too")
    print(json.dumps(measured(parser.parse_args())))


def measured(arguments: argparse.Namespace) -> dict[str, float]:
    """Peak of a step, above that of the process before it."""
    import tensorflow as tf

    from keras_quasiattn.layers import BidirectionalAttentionConnector

    pairs = [(i, j) for i in range(arguments.layers) for j in range(arguments.layers)]
    connectors = [BidirectionalAttentionConnector(use_intra=arguments.intra) for _ in pairs]
    passages, questions = (
        [tf.random.normal((arguments.batch, length, arguments.width)) for _ in range(arguments.layers)]
        for length in (arguments.passage, arguments.question)
    )
    for connector in connectors:
        connector.build([tuple(texts[0].shape) for texts in (passages, questions)])

    @tf.function
    def step(passages: list[tf.Tensor], questions: list[tf.Tensor]) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([passages, questions])
            total = 0.0
            for (i, j), connector in zip(pairs, connectors, strict=True):
                found = connector([passages[i], questions[j]], training=True)
                total += sum(tf.reduce_sum(one) for one in found)
        weights = [weight.value for connector in connectors for weight in connector.weights]
        return tape.gradient(total, [*passages, *questions, *weights])

    step.get_concrete_function(passages, questions)
    base = resident_peak()
    for _ in range(2):
        step(passages, questions)
    other = arguments.passage if arguments.intra else arguments.question
    tensor = 4 * arguments.batch * arguments.passage * other / 2**20
    return {"above_base_mib": round(resident_peak() - base, 1), "tensor_mib": round(tensor, 1)}


if __name__ == "__main__":
    main()
