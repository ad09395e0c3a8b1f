"""Tokens with their gates and weights, for the terminal, and untrusted text made safe to show."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

_BAR, _LONGEST = 30, 200
_LONGEST_LABEL = 20
# Control characters, lone surrogates, line and paragraph separators.
_SPOILING = ("Cc", "Cs", "Zl", "Zp")


def readable(text: str, longest: int = _LONGEST_LABEL) -> str:
    r"""Cut the text to `longest` characters; replace control characters and line breaks.

    >>> readable("a\x1b[2Jb"), readable("x" * 50, 5)
    ('a\ufffd[2Jb', 'xxxx…')
    """
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join("\ufffd" if unicodedata.category(one) in _SPOILING else one for one in text)


def shares_of_largest(weights: Sequence[float]) -> list[float]:
    """Return the size of each weight as a share of the largest; 0 for NaN and infinity.

    >>> shares_of_largest([0.5, -2.0, math.nan])
    [0.25, 1.0, 0.0]
    """
    sizes = [abs(weight) if math.isfinite(weight) else 0.0 for weight in weights]
    largest = max(sizes, default=0.0) or 1.0
    return [size / largest for size in sizes]


def token_table(answer: Mapping[str, Any]) -> str:
    """Return an answer as lines: the label and its probability, then tokens, gates and weights.

    A closed gate is shown as `-`, an open one as `+`. The length of a bar is the weight relative to
    the largest.

    Args:
        answer: a task's answer with `label`, `classes`, `probabilities` and `tokens`, and
            optionally `gates`, `weights` and `weights_of`, the name of the weights.

    Example:
    >>> answer = {
    ...     "label": "HUM", "classes": ["HUM", "LOC"], "probabilities": [0.9, 0.1],
    ...     "tokens": ["who", "?"],
    ... }
    >>> print(token_table({**answer, "gates": [True, False], "weights": [1.0, 0.0]}))
    HUM 0.900
      + 1.000 who  ##############################
      - 0.000 ?
    """
    probability = answer["probabilities"][answer["classes"].index(answer["label"])]
    lines = [f"{readable(answer['label'], _LONGEST)} {probability:.3f}"]
    if "weights_of" in answer:
        lines[0] += f"  ({readable(answer['weights_of'], _LONGEST)})"
    tokens = [readable(token, _LONGEST) for token in answer["tokens"]]
    width = max(map(len, tokens), default=0)
    shares = shares_of_largest(answer.get("weights", []))
    for number, token in enumerate(tokens):
        line = "  "
        if "gates" in answer:
            line += "+ " if answer["gates"][number] else "- "
        if "weights" in answer:
            weight = answer["weights"][number]
            line += f"{weight:.3f} {token:{width}}  {'#' * round(_BAR * shares[number])}"
        else:
            line += token
        lines.append(line.rstrip())
    return "\n".join(lines)
