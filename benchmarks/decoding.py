"""Beam search by a Transformer with CoDA and by one with softmax: tokens per second.

    python -m benchmarks.decoding --output benchmarks/results/decoding.json

No sequence ends early, so both generate the same number of tokens. The sources are random, and as
long as sentences of Multi30k. The two cases take turns, so that other load on the machine affects
both: trust the ratio.
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
from keras_quasiattn.models import TRANSFORMER_SIZES, Transformer, beam_search

GOAL = 1.3
NEVER = -1  # an end token that no sequence contains


def search(attention: str, source: tf.Tensor, arguments: argparse.Namespace) -> Callable[[], Any]:
    """Return a call that runs beam search for all sources at once, in one graph."""
    keras.utils.set_random_seed(0)
    model = Transformer(
        arguments.vocabulary, attention=attention, **TRANSFORMER_SIZES[arguments.size]
    )
    model([source, source])

    @tf.function
    def decode(source: tf.Tensor) -> Any:
        cache = model.start_cache(source, arguments.length)
        return beam_search(
            model.step, cache, arguments.length, beam_width=arguments.beam_width, end_id=NEVER
        )

    return lambda: decode(source)[0].numpy()


def main() -> None:
    """Parse the arguments, decode, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=sorted(TRANSFORMER_SIZES), default="tiny")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=32, help="sentences decoded at once")
    parser.add_argument(
        "--source-length", type=int, default=16, help="tokens of the longest source"
    )
    parser.add_argument("--length", type=int, default=16, help="tokens of every answer")
    parser.add_argument("--beam-width", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    ids = random.integers(2, arguments.vocabulary, (arguments.batch, arguments.source_length))
    lengths = random.integers(
        arguments.source_length // 2, arguments.source_length + 1, (arguments.batch, 1)
    )
    # (batch, source_length), 0 is padding: positions (source_length,) against lengths (batch, 1)
    source = tf.constant(np.where(np.arange(arguments.source_length) < lengths, ids, 0), tf.int32)
    cases = {name: search(name, source, arguments) for name in ("softmax", "coda")}
    times = interleaved_medians(cases, arguments.repeats)
    tokens = arguments.batch * arguments.length
    record = {
        "command": " ".join(["python -m benchmarks.decoding", *sys.argv[1:]]),
        "machine": machine(),
        "size": arguments.size,
        "batch": arguments.batch,
        "beam_width": arguments.beam_width,
        "tokens_per_second": {name: 1e3 * tokens / time for name, time in times.items()},
        "coda_of_softmax": {"ratio": times["coda"] / times["softmax"], "goal": GOAL},
    }
    for name, rate in record["tokens_per_second"].items():
        print(f"{name:8} {rate:8.0f} tokens/s")
    print(f"CoDA takes {record['coda_of_softmax']['ratio']:.2f} times softmax's time (goal {GOAL})")
    if arguments.output:
        write_json(record, arguments.output)


if __name__ == "__main__":
    main()
