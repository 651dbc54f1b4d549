"""Linear classifiers on frozen features.

Logistic regression by L-BFGS, a torch layer trained by AdamW, and the search for a regularisation strength.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.metrics.vectors import Floats, Ints, Vectors

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Linear:
    """One row of weights and one bias per class."""

    weights: Floats
    bias: Floats

    def scores(self, features: Vectors) -> Vectors:
        """Return the logits, shape (n, classes)."""
        return np.asarray(features @ self.weights.T.astype(np.float32) + self.bias.astype(np.float32), np.float32)


def accuracy(scores: Vectors, labels: Ints) -> float:
    """Return the share of rows whose label has the strictly largest score; ties and unknown labels are wrong."""
    inside = labels < scores.shape[1]
    own = np.take_along_axis(scores, np.where(inside, labels, 0)[:, None], axis=1)
    return float(np.mean(inside & ((scores >= own).sum(axis=1) == 1)))


def log_likelihood(scores: Vectors, labels: Ints) -> float:
    """Return the mean log-probability (softmax) of the labels, over the rows whose label has a finite score."""
    inside = labels < scores.shape[1]
    own = np.take_along_axis(scores, np.where(inside, labels, 0)[:, None], axis=1)[:, 0].astype(np.float64)
    known = inside & np.isfinite(own)
    if not known.any():
        return -np.inf
    top = scores.max(axis=1).astype(np.float64)
    total = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top
    return float(np.mean((own - total)[known]))


POINTS = 97
COARSE = 16
"""The first pass evaluates every 16th point."""
SPANS = (8, 4, 2, 1)
"""Later passes evaluate the two neighbours of the best point at these distances."""


def log_grid(low: float, high: float) -> Floats:
    """Return the 97 candidates from 10**low to 10**high, evenly spaced in the exponent."""
    return np.logspace(low, high, POINTS)


def find_peak(score: Callable[[int], float]) -> int:
    """Return the best grid point of a unimodal score, after at most 15 evaluations.

    Ties go to the point evaluated first, so a smaller value before a larger one. CLIP_benchmark finds the same point
    but re-evaluates known ones (19 fits).
    """
    known: dict[int, float] = {}

    def best(points: list[int]) -> int:
        place, top = 0, -np.inf
        for point in points:
            if point not in known:
                known[point] = score(point)
            if known[point] > top:
                place, top = point, known[point]
        return place

    peak = best(list(range(0, POINTS, COARSE)))
    for span in SPANS:
        peak = best([max(peak - span, 0), peak, min(peak + span, POINTS - 1)])
    return peak


# Multinomial logistic regression by L-BFGS, in numpy: a convex probe, independent of the seed.
#
# The objective is scikit-learn's: C times the summed cross-entropy plus half the squared weights, with an unpenalised
# bias. Internally, features are centred, rotated to their principal axes and scaled so that the objective has about
# the same curvature in every direction. This changes the path but not the solution; embeddings, which lie in a narrow
# cone with a few long axes, need it: hundreds of iterations at most instead of thousands.


MEMORY = 10
"""Number of steps kept by L-BFGS."""
ARMIJO, CURVATURE = 1e-4, 0.9
BLOCK_VALUES = 4 * 1024 * 1024
"""Rows are converted to float64 in blocks of about this many values."""

Objective = Callable[[Floats], tuple[float, Floats]]


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted classifier and its convergence."""

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
    """Fit weights for the classes 0 to max(labels); a class without samples gets the score -inf.

    ``strength`` is scikit-learn's C: larger fits the training data more closely. ``start`` is an initial point, such as
    the fit for a neighbouring strength, ``tolerance`` the bound on the gradient of the mean objective at convergence.
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
    turned = np.empty(features.shape, np.float32)
    for rows in _blocks(*features.shape):
        turned[rows] = (features[rows] - mean) @ axes
    objective = _objective(turned, unit, compact, ridge * np.sum(axes**2, axis=0))
    found, iterations, converged = minimise(objective, point.ravel(), tolerance, max_iterations)
    table = found.reshape(point.shape)
    weights, bias = np.zeros((int(labels.max()) + 1, features.shape[1])), np.full(int(labels.max()) + 1, -np.inf)
    weights[present] = table[:, :-1] @ axes.T
    bias[present] = unit * table[:, -1] - weights[present] @ mean
    return Fit(Linear(weights, bias), iterations, converged)


def _axes(features: Vectors, mean: Floats, classes: int, ridge: float) -> Floats:
    """Return the principal axes as columns, each divided by the square root of the objective's curvature along it.

    At equal probabilities the cross-entropy of one class has the curvature variance times (1 - 1/K) / K. The mean is
    added so that the shortest axes, along which it flattens first as the fit improves, are not stretched without limit.
    """
    covariance = np.zeros((features.shape[1],) * 2)
    for rows in _blocks(*features.shape):
        centred = features[rows] - mean
        covariance += centred.T @ centred / len(features)
    variance, axes = np.linalg.eigh(covariance)
    curvature = np.maximum(variance, 0) * _flat_curvature(classes)
    return np.asarray(axes / np.sqrt(curvature + curvature.mean() + ridge), np.float64)


def _flat_curvature(classes: int) -> float:
    """Return the curvature of the cross-entropy along the score of one class, at equal probabilities."""
    return (1 - 1 / classes) / classes if classes > 1 else 1.0


def _blocks(n: int, width: int) -> Iterator[slice]:
    """Split rows into blocks whose float64 copies are small."""
    step = max(1, BLOCK_VALUES // width)
    return (slice(begin, begin + step) for begin in range(0, n, step))


def _objective(features: Vectors, unit: float, labels: Ints, ridge: Floats) -> Objective:
    """Mean cross-entropy plus a penalty per column, as a function of the flat parameters, with its gradient.

    The last column of the parameters is the bias, scaled so that the curvature along it matches that of the others.
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
            # No step improves the value any more: the limit of floating-point precision.
            return point, iteration, bool(np.abs(slope).max() <= 100 * tolerance)
        length, value, new_slope = found
        step = length * direction
        if float(step @ (new_slope - slope)) > 0:
            memory.append((step, new_slope - slope))
        point, slope = point + step, new_slope
    return point, max_iterations, bool(np.abs(slope).max() <= tolerance)


def _inverse_hessian(memory: deque[tuple[Floats, Floats]], slope: Floats) -> Floats:
    """Multiply the gradient by L-BFGS's approximation of the inverse Hessian (the two-loop recursion)."""
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
    """Find a step with sufficient decrease (Armijo) and sufficient length (curvature) by bisection and doubling."""
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


# CLIP_benchmark's linear probe: a torch layer trained by AdamW under a cosine schedule, on a CPU or a GPU.
#
# Layer, loss, optimiser, schedule and sample order for a given seed are those of the original; in float32, where the
# original runs under autocast.


@dataclass(frozen=True, slots=True)
class Schedule:
    """Training length, learning rate, batch size and seed."""

    epochs: int
    rate: float
    batch_size: int
    seed: int


def cosine_rate(base: float, step: int, steps: int) -> float:
    """Return the learning rate of a step: half a cosine from the base down to 0, without warm-up."""
    return 0.5 * (1 + math.cos(math.pi * step / steps)) * base


def fit_adamw(
    features: Vectors, labels: Ints, classes: int, weight_decay: float, schedule: Schedule, device: str = "cpu"
) -> Linear:
    """Train a linear layer on all rows; the seed determines its initialisation and the order of the batches."""
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

    rows = TensorDataset(
        torch.from_numpy(np.ascontiguousarray(features)).to(device), torch.from_numpy(labels).to(device)
    )
    # For a given seed the order is that of DataLoader(shuffle=True), but a whole batch is fetched at once.
    indices = BatchSampler(RandomSampler(rows), schedule.batch_size, drop_last=False)
    batches = DataLoader(rows, batch_size=None, sampler=indices)
    layer = train_layer(batches, features.shape[1], classes, weight_decay, schedule, device)
    weight, bias = (tensor.detach().cpu().numpy().astype(np.float64) for tensor in (layer.weight, layer.bias))
    return Linear(weight, bias)


def train_layer(
    batches: Any, dim: int, classes: int, weight_decay: float, schedule: Schedule, device: str
) -> torch.nn.Linear:
    """Train a torch layer on a loader's batches of features and labels."""
    import torch

    torch.manual_seed(schedule.seed)
    layer = torch.nn.Linear(dim, classes).to(device)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=schedule.rate, weight_decay=weight_decay)
    loss_of = torch.nn.CrossEntropyLoss()
    steps = schedule.epochs * len(batches)
    step = 0
    for _ in range(schedule.epochs):
        for x, y in batches:
            for group in optimiser.param_groups:
                group["lr"] = cosine_rate(schedule.rate, step, steps)
            optimiser.zero_grad()
            loss_of(layer(x.to(device)), y.to(device)).backward()
            optimiser.step()
            step += 1
    return layer
