"""Where each key of a table is: sorted runs in memory, few of them, however many parts there are.

A new run is joined with those before it that are no longer than itself, so each is at least twice as long as the next:
a key takes part in as many joins as there are doublings, and adding n of them one part after the other costs
n log n, not n for each part.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Digests = NDArray[np.uint8]
Found = tuple[NDArray[np.int32], NDArray[np.int64]]
"""The part of each key, -1 where there is none, and its row there."""


@dataclass(frozen=True)
class _Run:
    """Keys by their sorted heads (first 8 bytes), with their tails and where their vectors are."""

    head: NDArray[np.uint64]
    tail: NDArray[np.uint64]
    part: NDArray[np.int32]
    row: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.head)

    def take(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> _Run:
        return _Run(self.head[chosen], self.tail[chosen], self.part[chosen], self.row[chosen])


class KeyIndex:
    """Parts and rows by key; of several that hold a key, the first one that was added counts."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    @property
    def rows(self) -> int:
        """Count all rows."""
        return sum(map(len, self._runs))

    def add(self, parts: Sequence[Digests], first: int) -> None:
        """Add whole parts, which are numbered from ``first`` on."""
        halves = [np.ascontiguousarray(keys).view(np.uint64) for keys in parts if len(keys)]
        numbers = [first + i for i, keys in enumerate(parts) if len(keys)]
        if not halves:
            return
        runs = [
            _Run(half[:, 0], half[:, 1], np.full(len(half), number, np.int32), np.arange(len(half)))
            for half, number in zip(halves, numbers, strict=True)
        ]
        length = sum(map(len, runs))
        while self._runs and len(self._runs[-1]) < 2 * length:
            runs.insert(0, self._runs.pop())
            length += len(runs[0])
        self._runs.append(_join(runs))

    def find(self, digests: Digests) -> Found:
        """Look keys up.

        Two keys that share their first eight bytes but not the rest count as missing: one of them would be computed
        again, which costs time once in 2**64 and is never wrong.
        """
        halves = np.ascontiguousarray(digests).view(np.uint64)
        parts, rows = np.full(len(digests), -1, np.int32), np.zeros(len(digests), np.int64)
        left = np.arange(len(digests))
        for run in self._runs:
            if not len(left):
                break
            head, tail = halves[left, 0], halves[left, 1]
            at = np.minimum(np.searchsorted(run.head, head), len(run) - 1)
            hit = (run.head[at] == head) & (run.tail[at] == tail)
            parts[left[hit]], rows[left[hit]] = run.part[at[hit]], run.row[at[hit]]
            left = left[~hit]
        return parts, rows

    def forget(self, parts: Collection[int]) -> None:
        """Take out what some parts held."""
        kept = (run.take(~np.isin(run.part, list(parts))) for run in self._runs)
        self._runs = [run for run in kept if len(run)]


def _join(runs: Sequence[_Run]) -> _Run:
    whole = _Run(*(np.concatenate([getattr(run, name) for run in runs]) for name in ("head", "tail", "part", "row")))
    return whole.take(np.argsort(whole.head, kind="stable"))
