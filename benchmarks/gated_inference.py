"""What binary gates save: attention over open positions compared with soft attention.

    python -m benchmarks.gated_inference --output benchmarks/results/gated_inference.json

The cases of one density take turns, so that other load on the machine affects all of them: trust
the ratios. In "unit" the gates are given; "classifiers" are whole models, from ids to logits, with
the network that decides about the gates. Biases of the gates are set so that each density opens.
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
from keras_quasiattn import models, ops

WORDS = 20_000
# Encoder, kernel size of a convolution, network of the gates, and its units.
CLASSIFIERS = (
    ("convolution", 1, "feed_forward", 20),
    ("convolution", 3, "feed_forward", 20),
    ("convolution", 5, "feed_forward", 20),
    ("lstm", 1, "feed_forward", 20),
    ("lstm", 1, "bilstm", 100),
)


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


def classifiers(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Whole classifiers, from ids to logits, with soft attention and with gates at each density."""
    found = []
    for encoder, kernel_size, network, units in CLASSIFIERS:
        for length in arguments.lengths:
            if encoder == "lstm" and length > 400:
                continue  # seconds for each batch
            ids = np.random.default_rng(0).integers(1, WORDS, (arguments.batch, length))
            soft = classifier(encoder, kernel_size, "soft")
            options = {"network": network, "units": units, "seed": 0}
            cases = {"soft": graph(soft, ids.astype("int32"))}
            densities = {}
            for density in arguments.densities:
                gated = classifier(encoder, kernel_size, "gated", options)
                open_share(gated, ids, density)
                densities[f"gated {density}"] = float(np.mean(gated.explain(ids)["gates"]))
                cases[f"gated {density}"] = graph(gated, ids.astype("int32"))
            repeats = max(3, arguments.repeats // (20 if encoder == "lstm" else 3))
            times = interleaved_medians(cases, repeats)
            for name, density in densities.items():
                found.append(
                    {
                        "encoder": encoder,
                        "kernel_size": kernel_size,
                        "network": f"{network} {units}",
                        "length": length,
                        "density": density,
                        "soft_ms": times["soft"],
                        "gated_ms": times[name],
                        "ratio": times[name] / times["soft"],
                    }
                )
    return found


def classifier(
    encoder: str, kernel_size: int, attention: str, options: dict[str, Any] | None = None
) -> models.TextClassifier:
    """Return a classifier of the sizes of the presets."""
    layers = 2 if encoder == "lstm" else 1
    return models.TextClassifier(
        *(WORDS, 2, attention, options),
        encoder=encoder,
        num_layers=layers,
        kernel_size=kernel_size,
    )


def open_share(model: models.TextClassifier, ids: np.ndarray, density: float) -> None:
    """Set the bias of the gates so that this share of the words opens."""
    attention = model.get_layer("attention")
    logits = np.asarray(attention.gate_network(model.embedding(ids)))
    bias = attention.gate_network.logit.bias
    bias.assign(bias - np.quantile(logits, 1 - density) + 1e-6)


def main() -> None:
    """Parse the arguments, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=400)
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[100, 400, 1000], help="of the classifiers' texts"
    )
    parser.add_argument("--densities", type=float, nargs="+", default=[1.0, 0.6, 0.4, 0.2, 0.1])
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    record = {
        "command": " ".join(["python -m benchmarks.gated_inference", *sys.argv[1:]]),
        "machine": machine(),
        "unit": rows(arguments),
        "classifiers": classifiers(arguments),
    }
    print("density  soft ms  gathered ms  ratio")
    for row in record["unit"]:
        print(
            f"{row['density']:7.3f}  {row['soft_ms']:7.2f}  "
            f"{row['gathered_ms']:11.2f}  {row['ratio']:5.2f}"
        )
    print(
        "\nwhole classifiers\nencoder  kernel  network  length  density  soft ms  gated ms  ratio"
    )
    for row in record["classifiers"]:
        print(
            f"{row['encoder']} {row['kernel_size']} {row['network']} {row['length']} "
            f"{row['density']:.2f} {row['soft_ms']:.1f} {row['gated_ms']:.1f} {row['ratio']:.2f}"
        )
    if arguments.output:
        write_json(record, arguments.output)


if __name__ == "__main__":
    main()
