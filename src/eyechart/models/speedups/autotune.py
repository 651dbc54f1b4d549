"""Autotuning of image batches on a CPU: slices that fit its caches, several at once.

The fastest plan depends on model and machine, so it is measured once: after the first batches, the following ones are
computed in turn with every plan, and the fastest is used and cached. A plan that does not give identical bits for a
batch is dropped, so the choice changes the run time but no number. Texts are excluded: their batches have many shapes,
and a plan that is exact for one may not be for another.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eyechart.io.files import write_cached
from eyechart.models import speedups
from eyechart.models.towers.precision import calibration_path, read_calibration

if TYPE_CHECKING:
    import torch

SLICE = 16
"""Rows per slice: enough for efficient matrix products, few enough for the caches."""
AFTER = 16
"""Full batches before tuning starts: short runs would not recoup it."""
ROUNDS = 3
"""Timed batches per plan; the best time counts."""
FEWEST = 2 * SLICE
"""Smallest batch that is split."""
GAIN = 0.97
"""Largest fraction of the plain plan's time at which another plan is chosen."""
PLAIN = 0
"""The plan that computes a batch at once; any other is the number of its slices that are computed in parallel."""

Inputs = Any
"""A tensor, or nested tensors by name."""
Vectors = NDArray[np.float32]
Forward = Callable[["torch.nn.Module", Inputs], Vectors]


class CpuAutotuner:
    """Runs image batches on the CPU with the fastest plan."""

    def __init__(self, model: torch.nn.Module, forward: Forward, key: object) -> None:
        import torch

        self.model = model
        self.forward = forward
        self.threads = torch.get_num_threads()
        self.plans = sorted({PLAIN, 1, max(1, self.threads // 2), self.threads})
        self.enabled = speedups.enabled()
        self.path = calibration_path("slices", key, self.threads, torch.__version__)
        known = (read_calibration(self.path, dict) or {}).get("parallel")
        self.plan = known if known in self.plans else None
        self.batches = 0
        self.times: dict[int, list[float]] = {}
        self._streams = cache(lambda plan: _Streams(model, plan, max(1, self.threads // plan)))

    def run(self, inputs: Inputs) -> Vectors:
        """Compute a batch; the first ones of a model that is new on this machine choose the plan."""
        if count_rows(inputs) < FEWEST or self.threads < 2 or not self.enabled:
            return self._run(PLAIN, inputs)
        if self.plan is not None:
            return self._run(self.plan, inputs)
        self.batches += 1
        if self.batches <= AFTER:
            return self._run(PLAIN, inputs)
        if not self.times:  # find the plans that give identical bits
            vectors = self._run(PLAIN, inputs)
            same = (plan for plan in self.plans[1:] if np.array_equal(self._run(plan, inputs), vectors))
            self.times = {plan: [] for plan in (PLAIN, *same)}  # itself not compared: vectors may hold NaN
            return vectors
        # Compute the batch with the least tried plan; choose once all are measured.
        plan = min(self.times, key=lambda plan: len(self.times[plan]))
        vectors, seconds = self._timed(plan, inputs)
        self.times[plan].append(seconds / len(vectors))
        if min(map(len, self.times.values())) == ROUNDS:
            best = {plan: min(times) for plan, times in self.times.items()}
            fastest = min(best, key=lambda plan: best[plan])
            self.plan = fastest if best[fastest] < GAIN * best[PLAIN] else PLAIN
            write_cached(self.path, json.dumps({"parallel": self.plan}).encode())
        return vectors

    def _timed(self, plan: int, inputs: Inputs) -> tuple[Vectors, float]:
        start = time.perf_counter()
        vectors = self._run(plan, inputs)
        return vectors, time.perf_counter() - start

    def _run(self, plan: int, inputs: Inputs) -> Vectors:
        if plan == PLAIN:
            return self.forward(self.model, inputs)
        parts = [take(inputs, start, start + SLICE) for start in range(0, count_rows(inputs), SLICE)]
        return self._streams(plan).run(self.forward, parts)


class _Streams:
    """Threads, each with a shallow copy of the model and a share of the cores."""

    def __init__(self, model: torch.nn.Module, streams: int, threads: int) -> None:
        import torch

        self.models = [model, *(twin(model) for _ in range(streams - 1))]
        self.pool = ThreadPoolExecutor(streams, thread_name_prefix="stream")
        # torch's thread count is per thread, but a thread inherits the count last set anywhere on its first query. So
        # each thread queries before it sets its count, and all have done so before this thread's count is restored.
        here, together = torch.get_num_threads(), threading.Barrier(streams)

        def settle(_: int) -> None:
            torch.get_num_threads()
            together.wait()
            torch.set_num_threads(threads)

        list(self.pool.map(settle, range(streams)))
        torch.set_num_threads(here)

    def run(self, forward: Forward, parts: list[Inputs]) -> Vectors:
        """Compute the parts in parallel and return the rows in order."""

        def work(stream: int) -> list[Vectors]:
            return [forward(self.models[stream], part) for part in parts[stream :: len(self.models)]]

        found = list(self.pool.map(work, range(len(self.models))))
        return np.concatenate([found[i % len(found)][i // len(found)] for i in range(len(parts))])


def twin(model: torch.nn.Module) -> torch.nn.Module:
    """Copy the modules but share the weights: a pass that changes a module while running needs its own copy."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared)


def count_rows(value: Any) -> int:
    """Count the rows of nested tensors by name."""
    return min(count_rows(inner) for inner in value.values()) if isinstance(value, Mapping) else len(value)


def take(value: Any, start: int, stop: int) -> Any:
    """Slice the rows of nested tensors by name."""
    if isinstance(value, Mapping):
        return {name: take(inner, start, stop) for name, inner in value.items()}
    return value[start:stop]
