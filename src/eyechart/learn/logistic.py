"""Multinomial logistic regression by L-BFGS, in numpy: the probe that has one answer, whatever the seed.

The objective is scikit-learn's: C times the summed cross-entropy plus half the squared weights; the bias is free.
Inside, features are centred, turned to their principal axes and scaled so that the objective is about equally curved
in every direction. That changes the path and not the solution, and embeddings, which lie in a narrow cone with a
few long axes, need it: hundreds of iterations at most where there would be thousands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from eyechart.learn.linear import Linear
from eyechart.metrics.vectors import Floats, Ints, Vectors

MEMORY = 10
"""How many steps L-BFGS remembers."""
ARMIJO, CURVATURE = 1e-4, 0.9
BLOCK_VALUES = 4 * 1024 * 1024
"""Rows are converted to float64 in blocks of about this many values."""

Objective = Callable[[Floats], tuple[float, Floats]]


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted classifier and how the fit went."""

    model: Linear
    iterations: int
    converged: bool


def fit_logistic(
    features: Vectors,
    labels: Ints,
    strength: float,
    *,
    start: Linear | None = None,
    tolerance: float = 1e-7,
    max_iterations: int = 1000,
) -> Fit:
    """Fit weights for the classes 0 to max(labels); a class without a sample gets the score -inf.

    Args:
        features: Shape (n, d).
        labels: Shape (n,).
        strength: scikit-learn's C: larger fits the training data more closely.
        start: Where to begin, such as the fit for a neighbouring strength.
        tolerance: Done when no slope of the mean objective is larger.
        max_iterations: Give up then; the fit says so.
    """
    present, compact = np.unique(labels, return_inverse=True)
    ridge = 1.0 / (strength * len(labels))
    mean = features.mean(axis=0, dtype=np.float64)
    axes = _axes(features, mean, len(present), ridge)
    unit = 1 / np.sqrt(_flat_curvature(len(present)))
    point = np.zeros((len(present), features.shape[1] + 1))
    if start is not None:
        point[:, :-1] = np.linalg.solve(axes, start.weights[present].T).T
        point[:, -1] = (start.bias[present] + start.weights[present] @ mean) / unit
    objective = _objective(_turned(features, mean, axes), unit, compact, ridge * np.sum(axes**2, axis=0))
    found, iterations, converged = minimise(objective, point.ravel(), tolerance, max_iterations)
    table = found.reshape(point.shape)
    weights, bias = np.zeros((int(labels.max()) + 1, features.shape[1])), np.full(int(labels.max()) + 1, -np.inf)
    weights[present] = table[:, :-1] @ axes.T
    bias[present] = unit * table[:, -1] - weights[present] @ mean
    return Fit(Linear(weights, bias), iterations, converged)


def _axes(features: Vectors, mean: Floats, classes: int, ridge: float) -> Floats:
    """Return the principal axes as columns, each divided by the square root of the objective's curvature along it.

    With equal probabilities the cross-entropy of one class is curved by variance times (1 - 1/K) / K. The mean is
    added so that the shortest axes, where it flattens first as the fit gets better, are not stretched without end.
    """
    covariance = np.zeros((features.shape[1],) * 2)
    for rows in _blocks(*features.shape):
        centred = features[rows] - mean
        covariance += centred.T @ centred / len(features)
    variance, axes = np.linalg.eigh(covariance)
    curvature = np.maximum(variance, 0) * _flat_curvature(classes)
    return np.asarray(axes / np.sqrt(curvature + curvature.mean() + ridge), np.float64)


def _flat_curvature(classes: int) -> float:
    """Return how the cross-entropy of equal probabilities is curved along the score of one class."""
    return (1 - 1 / classes) / classes if classes > 1 else 1.0


def _turned(features: Vectors, mean: Floats, axes: Floats) -> Vectors:
    out = np.empty(features.shape, np.float32)
    for rows in _blocks(*features.shape):
        out[rows] = (features[rows] - mean) @ axes
    return out


def _blocks(n: int, width: int) -> Iterator[slice]:
    """Cut rows into blocks whose float64 copies are small."""
    step = max(1, BLOCK_VALUES // width)
    return (slice(begin, begin + step) for begin in range(0, n, step))


def _objective(features: Vectors, unit: float, labels: Ints, ridge: Floats) -> Objective:
    """Mean cross-entropy plus a penalty per column, as a function of the flat parameters, with its gradient.

    The last column of the parameters is the bias, in units that make the objective as curved along it as elsewhere.
    """
    n, dim = features.shape
    classes = int(labels.max()) + 1
    rows_of = features.astype(np.float64) if features.size <= BLOCK_VALUES else features  # converted once if small

    def evaluate(point: Floats) -> tuple[float, Floats]:
        table = point.reshape(classes, dim + 1)
        weights, bias = table[:, :-1], unit * table[:, -1]
        loss, slope = 0.5 * float(np.sum(ridge * weights**2)), np.zeros_like(table)
        slope[:, :-1] = ridge * weights
        for rows in _blocks(n, dim + classes):
            x, own = rows_of[rows].astype(np.float64, copy=False), labels[rows]
            here = np.arange(len(own))
            logits = x @ weights.T + bias
            logits -= logits.max(axis=1, keepdims=True)
            true = logits[here, own]
            np.exp(logits, out=logits)
            total = logits.sum(axis=1)
            loss += float(np.sum(np.log(total) - true)) / n
            logits /= total[:, None]
            logits[here, own] -= 1
            slope[:, :-1] += logits.T @ x / n
            slope[:, -1] += logits.sum(axis=0) * (unit / n)
        return loss, slope.ravel()

    return evaluate


def minimise(objective: Objective, point: Floats, tolerance: float, max_iterations: int) -> tuple[Floats, int, bool]:
    """Minimise a smooth convex function by L-BFGS (Nocedal and Wright, algorithm 7.5) with a weak Wolfe search."""
    value, slope = objective(point)
    memory: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)
    for iteration in range(max_iterations):
        if np.abs(slope).max() <= tolerance:
            return point, iteration, True
        direction = -_inverse_hessian(memory, slope)
        first = 1.0 if memory else min(1.0, 1.0 / float(np.linalg.norm(slope)))
        found = _line_search(objective, point, value, slope, direction, first)
        if found is None:
            # No step improves the value any more: this is as exact as floating point allows.
            return point, iteration, bool(np.abs(slope).max() <= 100 * tolerance)
        length, value, new_slope = found
        step = length * direction
        if float(step @ (new_slope - slope)) > 0:
            memory.append((step, new_slope - slope))
        point, slope = point + step, new_slope
    return point, max_iterations, bool(np.abs(slope).max() <= tolerance)


def _inverse_hessian(memory: deque[tuple[Floats, Floats]], slope: Floats) -> Floats:
    """Multiply the slope by the remembered approximation of the inverse Hessian (the two-loop recursion)."""
    out = slope.copy()
    weights = []
    for step, change in reversed(memory):
        weight = float(step @ out) / float(step @ change)
        out -= weight * change
        weights.append(weight)
    if memory:
        step, change = memory[-1]
        out *= float(step @ change) / float(change @ change)
    for (step, change), weight in zip(memory, reversed(weights), strict=True):
        out += (weight - float(change @ out) / float(step @ change)) * step
    return out


def _line_search(
    objective: Objective, point: Floats, value: float, slope: Floats, direction: Floats, length: float
) -> tuple[float, float, Floats] | None:
    """Find a step that goes down enough (Armijo) and far enough (curvature) by bisection and doubling."""
    low, high = 0.0, np.inf
    fall = float(slope @ direction)
    for _ in range(40):
        new_value, new_slope = objective(point + length * direction)
        if new_value > value + ARMIJO * length * fall:
            high = length
        elif float(new_slope @ direction) < CURVATURE * fall:
            low = length
        else:
            return length, new_value, new_slope
        length = (low + high) / 2 if np.isfinite(high) else 2 * low
    return None
