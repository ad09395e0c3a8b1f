"""Computes what every attention makes of the same scores, for the page "Which layer for what".

`python docs/tooling/weights.py` prints the table; `--write` puts it into the page.

One query of 4 features meets five keys, whose products with it, over √4, are 2, 1, 0, −1 and −2.
The layers have one head, identities for projections, and ones for all other kernels and vectors
that they learn.
"""

import re
import sys
from pathlib import Path

import keras
import numpy as np

from keras_quasiattn.attention.base import ATTENTIONS

PAGE = Path(__file__).parents[1] / "guides" / "which-layer.md"
TABLE = re.compile(r"(?<=<!-- weights -->\n).*?(?=<!-- end of weights -->)", re.DOTALL)
SCORES = (2, 1, 0, -1, -2)
QUERY = np.array([[[2.0, 0, 0, 0]]], "float32")
KEYS = np.array([[[score, 0, 0, 0] for score in SCORES]], "float32")


def weights_of(name: str) -> np.ndarray:
    """Return the weights of the five keys, (5,)."""
    layer = ATTENTIONS[name](num_heads=1, key_dim=4, use_bias=False, name="layer")
    layer.build(QUERY.shape, KEYS.shape)
    for weight in layer.weights:
        if "/kernel" in weight.path:  # of a projection
            weight.assign(np.reshape(np.eye(4), weight.shape))
        elif not weight.name.endswith("bias"):
            weight.assign(np.ones(weight.shape))
    _, scores = layer(QUERY, KEYS, return_attention_scores=True)
    return keras.ops.convert_to_numpy(scores)[0, 0, 0]


def table() -> str:
    """Return the table in Markdown, a row for each attention."""
    heading = " | ".join(f"score {score}".replace("-", "−") for score in SCORES)
    lines = [f"| attention | {heading} | sum |", f"|---{'|---' * (len(SCORES) + 1)}|"]
    for name in sorted(ATTENTIONS):
        weights = weights_of(name)
        numbers = [*weights, weights.sum()]
        cells = (f"{number + 0.0:.2f}".replace("-0.00", "0.00") for number in numbers)
        lines.append(f"| `{name}` | {' | '.join(cells).replace('-', '−')} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table or write it."""
    if "--write" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(TABLE.sub(table(), page), encoding="utf-8")
    else:
        print(table(), end="")


if __name__ == "__main__":
    main()
