"""The eight compositions of the paper's ablation, and how to scale and centre them.

    python examples/compositions.py

M = similarity(E) ⊙ gate(N) with similarity ∈ {tanh, sigmoid} and gate ∈ {sigmoid, tanh, arctan,
algebraic}: CoDA's table 9. All are constructor arguments of a layer. They are names, not functions,
so that a layer can be restored from a file; `custom_composition.py` writes a layer with another
composition. For each, this prints the values of M on random inputs before training.
"""

import argparse
import itertools

import keras
import numpy as np

from keras_quasiattn.layers import MultiHeadCoDA

SIMILARITIES, GATES = ("tanh", "sigmoid"), ("sigmoid", "tanh", "arctan", "algebraic")


def main() -> None:
    """Print one line for each composition, and for each option that scales or centres it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--head-size", type=int, default=32)
    arguments = parser.parse_args()
    x = np.random.default_rng(0).normal(size=(4, arguments.length, 64)).astype("float32")
    choices = [{"similarity": s, "gate": g} for s, g in itertools.product(SIMILARITIES, GATES)]
    choices += [{"gate_range": gate_range} for gate_range in ("scaled", "centered", "raw")]
    choices += [{"scaling": scaling} for scaling in ("mean", "paper", "none")]
    choices += [{"center_similarity": True}, {"alpha": 2.0, "beta": 0.5}, {"alpha": "learned"}]
    for options in choices:
        keras.utils.set_random_seed(0)
        layer = MultiHeadCoDA(num_heads=2, key_dim=arguments.head_size, **options)
        M = keras.ops.convert_to_numpy(layer(x, x, return_attention_scores=True)[1])
        shares = [np.mean(M < -0.1), np.mean(np.abs(M) <= 0.1), np.mean(M > 0.1)]
        named = ", ".join(f"{name}={value}" for name, value in options.items())
        print(
            f"{named:36} from {M.min():6.2f} to {M.max():5.2f}; below, near, above 0:",
            *np.round(shares, 2),
        )


if __name__ == "__main__":
    main()
