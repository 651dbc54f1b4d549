"""Autotuning of image batches on a CPU: slices that fit its caches, several at once.

The fastest plan depends on model and machine, so it is measured once: after the first batches, the following ones are
computed in turn with every plan of `candidates`, and the fastest is used and cached. A plan that does not give
identical bits for a batch is dropped, so the choice changes the run time but no number. Texts are excluded: their
batches have many shapes, and a plan that is exact for one may not be for another.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eyechart.io.files import write_cached
from eyechart.models import speedups
from eyechart.models.towers.precision import calibration_path, channels_last, read_calibration

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

Inputs = Any
"""A tensor, or nested tensors by name."""
Vectors = NDArray[np.float32]
Forward = Callable[["torch.nn.Module", Inputs], Vectors]


@dataclass(frozen=True)
class CpuPlan:
    """A way to compute a batch."""

    streams: int = 1
    """Slices computed in parallel, each with its share of the threads."""
    rows: int | None = None
    """Rows per slice; None for the whole batch."""
    channels_last: bool = False
    """Whether images are in channels-last layout."""


PLAIN = CpuPlan()


def candidates(model: torch.nn.Module, threads: int) -> list[CpuPlan]:
    """List the plans to try; channels-last only matters to networks with many convolutions."""
    import torch

    found = [
        CpuPlan(rows=SLICE),
        *(CpuPlan(streams, SLICE) for streams in sorted({threads // 2, threads}) if streams > 1),
    ]
    convolutions = sum(isinstance(module, torch.nn.Conv2d) for module in model.modules())
    return [*found, CpuPlan(channels_last=True)] if convolutions > 1 else found


class CpuAutotuner:
    """Runs image batches on the CPU with the fastest plan."""

    def __init__(self, model: torch.nn.Module, forward: Forward, key: object) -> None:
        import torch

        self.model = model
        self.forward = forward
        self.threads = torch.get_num_threads()
        self.enabled = speedups.enabled()
        self.path = calibration_path(key, self.threads, torch.__version__)
        known = read_calibration(self.path, CpuPlan)
        self.plan = known if known in (PLAIN, *candidates(model, self.threads)) else None
        self.batches = 0
        self.times: dict[CpuPlan, list[float]] = {}
        self._streams: dict[int, _Streams] = {}

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
            plans = candidates(self.model, self.threads)
            same = [plan for plan in plans if np.array_equal(self._run(plan, inputs), vectors)]
            self.times = {plan: [] for plan in (PLAIN, *same)}
            return vectors
        # Compute the batch with the least tried plan; choose once all are measured.
        plan = min(self.times, key=lambda plan: len(self.times[plan]))
        vectors, seconds = self._timed(plan, inputs)
        self.times[plan].append(seconds / len(vectors))
        if min(map(len, self.times.values())) == ROUNDS:
            best = {plan: min(times) for plan, times in self.times.items()}
            fastest = min(best, key=lambda plan: best[plan])
            self.plan = fastest if best[fastest] < GAIN * best[PLAIN] else PLAIN
            write_cached(self.path, json.dumps(asdict(self.plan)).encode())
        return vectors

    def _timed(self, plan: CpuPlan, inputs: Inputs) -> tuple[Vectors, float]:
        start = time.perf_counter()
        vectors = self._run(plan, inputs)
        return vectors, time.perf_counter() - start

    def _run(self, plan: CpuPlan, inputs: Inputs) -> Vectors:
        if plan.channels_last:
            inputs = channels_last(inputs)
        if plan.rows is None:
            return self.forward(self.model, inputs)
        parts = [take(inputs, start, start + plan.rows) for start in range(0, count_rows(inputs), plan.rows)]
        if plan.streams == 1:
            return np.concatenate([self.forward(self.model, part) for part in parts])
        if plan.streams not in self._streams:
            self._streams[plan.streams] = _Streams(self.model, plan.streams, max(1, self.threads // plan.streams))
        return self._streams[plan.streams].run(self.forward, parts)


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
