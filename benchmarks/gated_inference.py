"""What binary gates save: attention over open positions compared with soft attention.

    python -m benchmarks.gated_inference --output benchmarks/results/gated_inference.json

The cases of one density take turns, so that other load on the machine affects all of them: trust
the ratios. In "unit" the gates are given; "whole" also runs the auxiliary BiLSTM, which costs far
more than the attention.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.measure import interleaved_medians, machine, write_json
from keras_quasiattn import layers, ops


def graph(function: Callable[..., Any], *arrays: np.ndarray) -> Callable[[], Any]:
    """Compile the call for unknown batch and length, as in an exported model."""
    tensors = [tf.constant(array) for array in arrays]
    specs = [
        tf.TensorSpec((None, None, *x.shape[2:]) if x.ndim > 1 else x.shape, x.dtype)
        for x in tensors
    ]
    compiled = tf.function(function, input_signature=specs)
    return lambda: keras.ops.convert_to_numpy(compiled(*tensors))


def rows(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """One row per density."""
    random = np.random.default_rng(0)
    states = random.normal(size=(arguments.batch, arguments.length, arguments.width)).astype(
        "float32"
    )
    kernel = random.normal(size=arguments.width).astype("float32")
    found = []
    for density in arguments.densities:
        gates = random.random(states.shape[:2]) < density  # (batch, length)
        soft = graph(lambda h, w: ops.soft_attention(h, w), states, kernel)
        unit = graph(
            lambda h, w, g: ops.open_positions_attention(h, w, g, implementation="gathered"),
            *(states, kernel, gates),
        )
        times = interleaved_medians({"soft": soft, "gathered": unit}, arguments.repeats)
        found.append(
            {
                "density": float(gates.mean()),
                **{f"{name}_ms": milliseconds for name, milliseconds in times.items()},
                "ratio": times["gathered"] / times["soft"],
            }
        )
    return found


def whole(arguments: argparse.Namespace) -> dict[str, Any]:
    """Whole layers: soft attention, and gated attention with its auxiliary BiLSTM."""
    random = np.random.default_rng(0)
    states = random.normal(size=(arguments.batch, arguments.length, arguments.width)).astype(
        "float32"
    )
    words = random.normal(size=(arguments.batch, arguments.length, 100)).astype("float32")
    soft, gated = layers.SoftAttention(), layers.GatedAttention("bilstm", arguments.units, seed=0)
    # states (batch, length, width), words (batch, length, 100)
    soft.build(states.shape)
    gated.build(states.shape, words.shape)
    gates = gated(states, words, return_attention_scores=True)[1]
    cases = {
        "soft": graph(lambda h: soft(h), states),
        "gated": graph(lambda h, x: gated(h, x), states, words),
        "auxiliary": graph(lambda x: gated.gate_network(x), words),
    }
    times = interleaved_medians(cases, max(3, arguments.repeats // 10))
    return {
        "units": arguments.units,
        "density": float(keras.ops.mean(gates)),
        **{f"{name}_ms": milliseconds for name, milliseconds in times.items()},
    }


def main() -> None:
    """Parse the arguments, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=400)
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument(
        "--units", type=int, default=100, help="of the auxiliary BiLSTM, each direction"
    )
    parser.add_argument("--densities", type=float, nargs="+", default=[1.0, 0.6, 0.4, 0.2, 0.1])
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    record = {
        "command": " ".join(["python -m benchmarks.gated_inference", *sys.argv[1:]]),
        "machine": machine(),
        "unit": rows(arguments),
        "whole": whole(arguments),
    }
    print("density  soft ms  gathered ms  ratio")
    for row in record["unit"]:
        print(
            f"{row['density']:7.3f}  {row['soft_ms']:7.2f}  "
            f"{row['gathered_ms']:11.2f}  {row['ratio']:5.2f}"
        )
    one = record["whole"]
    print(
        f"whole layer, density {one['density']:.2f}: "
        f"soft {one['soft_ms']:.1f} ms, gated {one['gated_ms']:.1f} ms, "
        f"of which the auxiliary BiLSTM {one['auxiliary_ms']:.1f} ms"
    )
    if arguments.output:
        write_json(record, arguments.output)


if __name__ == "__main__":
    main()
