"""Paired tests of two models on the same samples, and corrections for many of them."""

import math

import numpy as np
from numpy.typing import ArrayLike

from eyechart.stats.quantiles import normal_quantile


def holm(p_values: ArrayLike) -> list[float]:
    """Holm's step-down adjustment, in the order given (statsmodels' `multipletests(method="holm")`)."""
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("p-values are a list of numbers between 0 and 1")
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(values.size, 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def smallest_detectable_difference(
    n: float, disagreement: float, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """The smallest difference of accuracies that McNemar's test finds with this power on n paired samples.

    `disagreement` is the fraction of samples that exactly one model gets right. Solves the sample-size
    formula of Connor (1987) for the difference. None when even a wholly one-sided disagreement would go
    unseen: there are then too few samples to tell such models apart.
    """
    if n <= 0 or not 0 <= disagreement <= 1:
        raise ValueError(f"need n > 0 and a disagreement in [0, 1], not {n} and {disagreement}")
    if not 0 < alpha < 1 or not alpha < power < 1:
        raise ValueError(f"need 0 < alpha < power < 1, not alpha {alpha} and power {power}")
    z_alpha, z_power = normal_quantile(1 - alpha / 2), normal_quantile(power)
    under_root = n + z_power**2 - z_alpha**2
    if disagreement == 0 or under_root < 0:
        return None
    difference = math.sqrt(disagreement) * (z_alpha * math.sqrt(n) + z_power * math.sqrt(under_root)) / (n + z_power**2)
    return difference if difference <= disagreement else None


def discordant(first: ArrayLike, second: ArrayLike) -> tuple[int, int]:
    """Count the samples that only the first, and only the second, model got right."""
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.shape != b.shape:
        raise ValueError(f"paired samples need equal lengths, not {a.size} and {b.size}")
    return int((a & ~b).sum()), int((b & ~a).sum())
