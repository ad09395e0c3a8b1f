"""Paired differences between two models over seeds and test items, with intervals."""

import dataclasses
import math
from typing import Final

import numpy as np

AHEAD: Final = "ahead"
BEHIND: Final = "behind"
NONE_SHOWN: Final = "no difference shown"
ONE_SEED: Final = "one seed: no verdict"


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference between two models trained with the same seeds.

    Args:
        mean: the mean difference over seeds and items.
        half: half the width of its 95% interval; None with one seed.
        seeds: number of seeds of both models.
        items: number of test items of both; 0 if only totals are known, and the interval is over
            the seeds alone.
        sign: 1 if larger values are better, −1 if smaller ones are. Defaults to 1.
    """

    mean: float
    half: float | None
    seeds: int
    items: int
    sign: int = 1

    @property
    def verdict(self) -> str:
        """`AHEAD`, `BEHIND`, `NONE_SHOWN`, or `ONE_SEED`, because one seed allows no ranking."""
        if self.half is None:
            return ONE_SEED
        if abs(self.mean) <= self.half:
            return NONE_SHOWN
        return AHEAD if self.sign * self.mean > 0 else BEHIND

    def text(self, digits: int = 3) -> str:
        """Return the difference with its interval."""
        half = "" if self.half is None else f" ± {self.half:.{digits}f}"
        return f"{self.mean:+.{digits}f}{half}".replace("-", "−")


def difference(model: np.ndarray, other: np.ndarray, sign: int = 1) -> Difference:
    r"""Return the mean difference between two models, and its 95% interval.

    Let d, of shape (S seeds, I items), be the item scores of the model minus those of the other
    model with the same seed and item. Seeds and items are crossed random effects:

    $$\mathrm{var}(\bar d) = \frac{\max(A, E) + \max(B, E) - E}{S \cdot I}$$

    A, B and E are the mean squares of the seeds, the items and the residual. The interval is ± t ·
    √var, where t has Satterthwaite's degrees of freedom. It is wide for few seeds that differ much,
    and for few test items. If d has shape (S,), only seeds are random, and it is Student's
    interval.

    Args:
        model: (S, I), or (S,) if only totals are known; at least one seed.
        other: the same shape, with the same seeds and items.
        sign: 1 if larger values are better, −1 if smaller ones are. Defaults to 1.

    Returns:
        The difference; without an interval if S is 1.

    Raises:
        ValueError: the shapes differ or have another rank, or a value is not finite.

    >>> difference(np.array([0.75, 0.75, 0.75]), np.array([0.5, 0.5, 0.5])).verdict
    'ahead'
    >>> difference(np.array([0.9]), np.array([0.1])).verdict
    'one seed: no verdict'

    Source: Searle, Casella, McCulloch 1992, "Variance Components", §4.7; Satterthwaite 1946, "An
    approximate distribution of estimates of variance components".
    """
    if np.shape(model) != np.shape(other) or np.ndim(model) not in (1, 2) or not np.size(model):
        raise ValueError(
            "`model` and `other` must have the same shape, (seeds,) or (seeds, items). "
            f"Received: {np.shape(model)} and {np.shape(other)}"
        )
    d = np.asarray(model, np.float64) - np.asarray(other, np.float64)
    if not np.isfinite(d).all():
        raise ValueError("`model` and `other` must be finite. Received: NaN or infinite scores")
    seeds, items = d.shape[0], d.shape[1] if d.ndim == 2 else 0
    mean = float(d.mean())
    if seeds == 1:
        return Difference(mean, None, seeds, items, sign)
    if items <= 1:
        half = _student(seeds - 1) * float(d.reshape(seeds, -1).mean(1).std(ddof=1)) / seeds**0.5
        return Difference(mean, half, seeds, items, sign)
    of_seeds, of_items = d.mean(axis=1), d.mean(axis=0)  # (S,), (I,)
    rest = d - of_seeds[:, None] - of_items + mean
    squares = {  # mean squares, and their degrees of freedom
        "seeds": (items * float(of_seeds.var(ddof=1)), seeds - 1),
        "items": (seeds * float(of_items.var(ddof=1)), items - 1),
        "rest": (float((rest**2).sum()) / ((seeds - 1) * (items - 1)), (seeds - 1) * (items - 1)),
    }
    least = squares["rest"][0]
    larger = [squares[name] for name in ("seeds", "items") if squares[name][0] > least]
    parts = [*larger, squares["rest"]] if len(larger) != 1 else larger
    total = sum(square for square, _ in larger) - (len(larger) - 1) * least
    if total <= 0:
        return Difference(mean, 0.0, seeds, items, sign)
    freedom = total**2 / sum(square**2 / degrees for square, degrees in parts)
    half = _student(freedom) * math.sqrt(total / (seeds * items))
    return Difference(mean, half, seeds, items, sign)


def _student(freedom: float) -> float:
    """Return the .975 quantile of Student's t distribution."""
    # Bisection on the distribution function, because the package does not depend on SciPy.
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _below(middle, freedom) < 0.975 else (low, middle)
    return high


def _below(t: float, freedom: float) -> float:
    """Return P(T ≤ t) for t ≥ 0, by Simpson's rule over the angle atan(t / √ν)."""
    angle = np.linspace(0.0, math.atan(t / math.sqrt(freedom)), 2001)
    density = np.cos(angle) ** (freedom - 1)
    weights = np.ones(angle.size)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    integral = float(density @ weights) * (angle[1] - angle[0]) / 3
    factor = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(
        math.pi
    )
    return 0.5 + factor * integral
