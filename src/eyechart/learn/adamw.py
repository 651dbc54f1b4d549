"""The linear probe of CLIP_benchmark: a torch layer trained by AdamW under a cosine schedule, on a CPU or a GPU.

Same layer, loss, optimiser, schedule and order of samples for the same seed as the original; in float32, where the
original runs under autocast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.learn.linear import Linear
from eyechart.metrics.vectors import Ints, Vectors

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast to learn."""

    epochs: int
    rate: float
    batch_size: int
    seed: int


def cosine_rate(base: float, step: int, steps: int) -> float:
    """Return the learning rate of a step: from the base down to 0 along half a cosine, without warm-up."""
    return 0.5 * (1 + math.cos(math.pi * step / steps)) * base


def fit_adamw(
    features: Vectors, labels: Ints, classes: int, weight_decay: float, schedule: Schedule, device: str = "cpu"
) -> Linear:
    """Train a linear layer on all rows; the seed decides its start and the order of the batches."""
    batches = _batches(features, labels, schedule.batch_size, device)
    layer = train_layer(batches, features.shape[1], classes, weight_decay, schedule, device)
    weight, bias = (tensor.detach().cpu().numpy().astype(np.float64) for tensor in (layer.weight, layer.bias))
    return Linear(weight, bias)


def train_layer(
    batches: Any, dim: int, classes: int, weight_decay: float, schedule: Schedule, device: str
) -> torch.nn.Linear:
    """Train a layer of torch on a loader's batches of features and labels."""
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


class _Rows:
    """Features and labels that a DataLoader fetches a batch at a time instead of row by row."""

    def __init__(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        self.features, self.labels = features, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.features[row], self.labels[row]

    def __getitems__(self, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return self.features[rows], self.labels[rows]


def _batches(features: Vectors, labels: Ints, batch_size: int, device: str) -> Any:
    """Return torch's own shuffling loader: the order of samples is then that of the original for the same seed."""
    import torch
    from torch.utils.data import DataLoader

    rows = _Rows(torch.from_numpy(np.ascontiguousarray(features)).to(device), torch.from_numpy(labels).to(device))
    return DataLoader(rows, batch_size=batch_size, shuffle=True, collate_fn=lambda batch: batch)
