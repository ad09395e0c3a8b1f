"""What if a part of CoDA were different? Your own attention layers in a run of a task.

    python examples/coda_parts.py
    python examples/coda_parts.py --seeds 3

Each part is a short subclass of `MultiHeadCoDA`, and the task of `small_arithmetic.py` builds its
Transformer from it. The script prints the share of right answers to the validation questions, each
character predicted from the true ones before it. `as_is` is CoDA itself, `softmax_to_the_past` has
softmax in the decoder's self-attention, `projections_of_n` has separate projections for N, so that
vectors may point apart and be near, and `gains` learns a factor for the output of each head.
"""

import argparse
import statistics
import tempfile
from typing import Any

import keras
import small_arithmetic

from keras_quasiattn.lab.tasks.attention_options import attention_of
from keras_quasiattn.lab.tasks.mlu import Mlu
from keras_quasiattn.lab.text import ByteTokenizer
from keras_quasiattn.lab.training import train
from keras_quasiattn.layers import MultiHeadCoDA
from keras_quasiattn.models import Transformer
from keras_quasiattn.ops import pairwise_l1, softmax_attention

Tensor = Any


@keras.saving.register_keras_serializable("my_project")
class SoftmaxToThePast(MultiHeadCoDA):
    """CoDA, but softmax where the call is causal."""

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> Any:
        """Softmax or CoDA in each head."""
        if not options["is_causal"]:
            return super().attend(query, key, value, mask, **options)
        scale = self.key_dim**-0.5
        return softmax_attention(query, key, value, mask, scale=scale, **options)


@keras.saving.register_keras_serializable("my_project")
class ProjectionsOfN(MultiHeadCoDA):
    """CoDA with α = β = 1 whose N compares other projections than E does; without dropout."""

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        """Make the usual projections and two more."""
        super().build(query_shape, value_shape, key_shape)
        heads = (self.num_heads, self.key_dim)
        self.query_of_n = self.make_projection("query_of_n", query_shape, heads)
        self.key_of_n = self.make_projection("key_of_n", value_shape, heads)

    def project_query(self, query: Tensor, start: Any = 0) -> Tensor:
        """Return the queries of E and of N, joined: (B, T, N, 2H)."""
        of_e = super().project_query(query, start)
        return keras.ops.concatenate([of_e, self.query_of_n(query)], axis=-1)

    def project(
        self, value: Tensor, key: Tensor | None = None, start: Any = 0
    ) -> tuple[Tensor, Tensor]:
        """Return the keys of E and of N, joined: (B, S, N, 2H); and the values."""
        of_e, values = super().project(value, key, start)
        of_n = self.key_of_n(value if key is None else key)
        return keras.ops.concatenate([of_e, of_n], axis=-1), values

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> Any:
        """M = tanh(E) ⊙ 2·sigmoid(N) in each head; 0 where the mask hides a pair."""
        (q, q_of_n), (k, k_of_n) = (keras.ops.split(x, 2, axis=-1) for x in (query, key))
        E = keras.ops.matmul(q, keras.ops.swapaxes(k, -1, -2)) / self.key_dim  # (B, N, T, S)
        N = -pairwise_l1(q_of_n, k_of_n) / self.key_dim
        M = keras.ops.tanh(E) * 2 * keras.ops.sigmoid(N)
        if mask is not None:
            M = keras.ops.where(mask, M, 0.0)
        if options["is_causal"]:
            M = keras.ops.tril(M)
        output = keras.ops.matmul(M, value)
        return (output, M) if options["return_scores"] else output


@keras.saving.register_keras_serializable("my_project")
class Gains(MultiHeadCoDA):
    """CoDA with a learned factor for the output of each head, from 1 on."""

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        """Make the projections and the factors."""
        super().build(query_shape, value_shape, key_shape)
        self.gain = self.add_weight(shape=(self.num_heads, 1, 1), initializer="ones", name="gain")

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> Any:
        """Scaling the values scales the output."""
        return super().attend(query, key, value * self.gain, mask, **options)


PARTS = {
    "as_is": MultiHeadCoDA,
    "softmax_to_the_past": SoftmaxToThePast,
    "projections_of_n": ProjectionsOfN,
    "gains": Gains,
}


class MluWithPart(Mlu):
    """The task with your own layer."""

    part = "as_is"

    def build_model(self) -> keras.Model:
        """Return the task's Transformer, of the same size."""
        sizes, _ = attention_of(self.options.model)
        heads = sizes.pop("num_heads")
        # Without biases, like a layer that a block makes from a name.
        layer = PARTS[self.part](heads, key_dim=sizes["hidden_dim"] // heads, use_bias=False)
        return Transformer(ByteTokenizer.vocabulary_size, attention=layer, **sizes)


def right_answers(part: str, seed: int, steps: int) -> float:
    """Train one model; return the share of the validation questions that it answers."""
    # What validation data chose for CoDA (the table `6-best` of examples/papers/coda.toml).
    task = small_arithmetic.make("coda", seed, MluWithPart, clip_norm=1.0, steps=steps)
    task.part = part
    with tempfile.TemporaryDirectory() as folder:
        return train(task, folder).metrics()["validation"]["sequence_accuracy"]


def main() -> None:
    """Read the arguments, train and print a line for each part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0 to this, without it")
    parser.add_argument("--steps", type=int, default=4000, help="updates")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    if arguments.seeds < 1:
        parser.error(f"--seeds is {arguments.seeds}: it must be at least 1")
    for part in arguments.parts:
        right = [right_answers(part, seed, arguments.steps) for seed in range(arguments.seeds)]
        spread = f" ± {statistics.stdev(right):.3f}" if len(right) > 1 else ""
        print(f"{part}: {statistics.mean(right):.3f}{spread} of the questions right", flush=True)


if __name__ == "__main__":
    main()
