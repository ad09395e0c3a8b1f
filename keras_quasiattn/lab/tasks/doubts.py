"""Warnings about a model: baselines that are as good, and gates that stay open."""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.lab.tasks.measured import Measured

# GA-Net's own densities are at most 0.61 (its Table 3).
_OPEN = 0.75


def behind_simple_methods(
    figures: Mapping[str, Any], baselines: Mapping[str, Measured], figure: str, measured_on: str
) -> list[str]:
    """Return a warning for every baseline that the model does not beat.

    `measured_on` names the examples; a larger `figure` is better.

    >>> behind_simple_methods(
    ...     {"accuracy": 0.5}, {"bag_of_words": Measured({"accuracy": 0.75})}, "accuracy", "test"
    ... )
    ['warning: the accuracy on test is 0.500, and a bag of words has 0.750: word vectors, more \
    rows or a longer training may help, or the bag of words is the better model']
    """
    lines = []
    for name, measured in baselines.items():
        if figure not in measured.figures or figure not in figures:
            continue
        ours, theirs = figures[figure], measured.figures[figure]
        said = f"warning: the {figure} on {measured_on} is {ours:.3f}, and"
        if name == "majority" and ours <= theirs:
            lines.append(
                f"{said} always answering the most frequent class has {theirs:.3f}: the model has "
                "learned nothing that the texts say"
            )
        elif name != "majority" and ours < theirs:
            lines.append(
                f"{said} a {name.replace('_', ' ')} has {theirs:.3f}: word vectors, more rows or a "
                f"longer training may help, or the {name.replace('_', ' ')} is the better model"
            )
    return lines


def open_gates(figures: Mapping[str, Any], cost: str) -> list[str]:
    """Return a warning if more than three quarters of the gates are open; the option `cost` helps.

    >>> open_gates({"accuracy": 0.9, "density": 0.5}, "model.gate_cost")
    []
    """
    densities = {name: one for name, one in figures.items() if name.endswith("density")}
    return [
        f"warning: the gates stayed open ({name.replace('_', ' ')} {density:.2f}): this is soft "
        f"attention; a higher {cost} closes them"
        for name, density in densities.items()
        if density > _OPEN
    ]
