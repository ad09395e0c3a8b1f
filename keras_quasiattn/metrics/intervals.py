"""Confidence intervals of metrics that are measured on a sample of examples."""

import math

import numpy as np

_NORMAL = 1.959963984540054  # the .975 quantile of the normal distribution
_DRAWS = 2000


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share p of `count` examples.

    (p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n)

    >>> [round(bound, 3) for bound in wilson(0.9, 10)]
    [0.596, 0.982]
    >>> [round(bound, 3) for bound in wilson(1.0, 10)]
    [0.722, 1.0]

    Source: Wilson 1927; Brown, Cai and DasGupta 2001, "Interval Estimation for a Binomial
    Proportion".
    """
    square = _NORMAL**2 / count
    half = _NORMAL * math.sqrt(share * (1 - share) / count + square / (4 * count))
    low, high = ((share + square / 2 + side * half) / (1 + square) for side in (-1, 1))
    # Otherwise rounding errors would move the ends 0 and 1.
    return (low if share > 0 else 0.0), (high if share < 1 else 1.0)


def bootstrap(items: np.ndarray) -> tuple[float, float]:
    """Return the 95% percentile interval of a mean, from 2,000 resamples of the items.

    The same items always give the same interval.

    >>> low, high = bootstrap(np.array([0.0, 0.5, 0.5, 1.0] * 25))
    >>> round(low, 2), round(high, 2)
    (0.43, 0.57)

    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", §13.3.
    """
    generator, size = np.random.default_rng(0), len(items)
    means = [items[generator.integers(size, size=size)].mean() for _ in range(_DRAWS)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
