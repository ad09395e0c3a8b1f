"""How far copies of `swap_attention` that start unchanged are from their originals.

python -m benchmarks.swap prints, for every attention and model, the largest difference of the
outputs, and of the gradients of the weights that both have; with --models, which of KerasHub's
models are swapped, and why the others are not. --json PATH writes the rows. KerasHub's models, tiny
and with random weights, are left out where it is not installed.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from benchmarks import tiny_hub
from benchmarks.measure import write_json
from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.attention.start import Heads, Start
from keras_quasiattn.layers import TransformerDecoder, TransformerEncoder
from keras_quasiattn.models import swap_attention

try:
    import keras_hub
except ImportError:
    keras_hub = None

OF_HUB = ("BERT", "RoBERTa", "DistilBERT", "GPT-2", "Llama")
# The cost of open gates is part of the loss from the first batch on.
OPTIONS: dict[str, dict[str, Any]] = {"gated": {"open_gate_cost": 0.0}}


def _functional() -> keras.Model:
    x = keras.Input((12, 16))
    y = keras.layers.MultiHeadAttention(4, 4)(x, x)
    return keras.Model(x, keras.layers.MultiHeadAttention(2, 8)(y, x, use_causal_mask=True))


def _blocks() -> keras.Model:
    x = keras.Input((12, 16))
    y = TransformerEncoder(32, 4, attention="sigmoid")(x)
    return keras.Model(x, TransformerDecoder(32, 4, attention="coda")(y, y))


def models() -> dict[str, Callable[[], keras.Model]]:
    """Return what makes each model, by name."""
    found: dict[str, Callable[[], keras.Model]] = {"functional": _functional, "blocks": _blocks}
    if keras_hub is not None:
        made = tiny_hub.SWAPPED
        found |= {name: lambda name=name: made[name](keras_hub) for name in OF_HUB}  # type: ignore[misc]
    return found


def filled(model: keras.Model) -> keras.Model:
    """Return the model with random weights, biases too."""
    random = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(0.3 * random.normal(size=weight.shape))
    return model


def outputs_and_gradients(model: keras.Model) -> tuple[list[Any], list[Any]]:
    """Return the outputs, and the gradients of weights that are not an attention's own."""
    x, random = tiny_hub.inputs(model), np.random.default_rng(1)
    kinds = (MultiHeadQuasiAttention, Start, Heads)
    layers = [one for one in model._flatten_layers() if isinstance(one, kinds)]
    own = {id(weight) for one in layers for weight in one._trainable_variables}
    shared = [weight for weight in model.trainable_weights if id(weight) not in own]
    outputs = [ops.convert_to_numpy(one) for one in keras.tree.flatten(model(x))]
    factors = [random.normal(size=one.shape).astype("float32") for one in outputs]

    def total() -> Any:
        found = keras.tree.flatten(model(x, training=False))
        return sum(ops.sum(one * factor) for one, factor in zip(found, factors, strict=True))

    if keras.backend.backend() != "tensorflow":
        raise SystemExit("the gradients are taken with TensorFlow: set KERAS_BACKEND=tensorflow")
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = total()
    gradients = tape.gradient(loss, [weight.value for weight in shared])
    return outputs, [np.asarray(ops.convert_to_numpy(one)) for one in gradients if one is not None]


def largest(ones: list[Any], others: list[Any]) -> float:
    """Return the largest difference of two lists of arrays."""
    return max(float(np.abs(a - b).max()) for a, b in zip(ones, others, strict=True))


def differences() -> list[dict[str, Any]]:
    """Return a row for each attention and model."""
    rows = []
    for name, make in models().items():
        model = filled(make())
        known = outputs_and_gradients(model)
        for attention in sorted(ATTENTIONS):
            options = OPTIONS.get(attention, {})
            copy = swap_attention(model, attention, start="unchanged", **options)
            found = outputs_and_gradients(copy)
            outputs, gradients = map(largest, known, found)
            of_size = max(float(np.abs(one).max()) for one in known[1])
            row = {"model": name, "attention": attention, "outputs": outputs}
            rows.append({**row, "gradients": gradients, "largest_gradient": of_size})
            print(f"{name:12} {attention:16} {outputs:9.1e} {gradients:9.1e} of {of_size:.1e}")
    return rows


def swaps() -> list[dict[str, Any]]:
    """Return for each model of KerasHub whether it is swapped, or the reason why not."""
    rows = []
    for name, make in {**tiny_hub.SWAPPED, **tiny_hub.REFUSED}.items():
        try:
            swap_attention(make(keras_hub), "coda", start="unchanged")
            result = "swapped"
        except ValueError as error:
            result = str(error).partition("Unchanged: ")[2]
        rows.append({"model": name, "result": result})
        print(f"{name:18} {result}")
    return rows


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", action="store_true", help="which of KerasHub's are swapped")
    parser.add_argument("--json", type=Path, help="a file for the rows")
    arguments = parser.parse_args()
    if arguments.models and keras_hub is None:
        parser.error("--models needs keras_hub: pip install 'keras-quasiattn[pretrained]'")
    rows = swaps() if arguments.models else differences()
    if arguments.json:
        write_json(rows, arguments.json)


if __name__ == "__main__":
    main()
