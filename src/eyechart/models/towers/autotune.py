"""How a CPU works through a batch of images: in slices that fit its caches, several side by side.

Which way is fastest depends on the model and the machine, so it is tried, once: after the first batches, the next are
computed in turn in every way of `candidates`, and the fastest is kept and remembered. A way that does not give the very
same bits for a batch is never taken: the choice changes how long a run takes, but no number. Texts are left alone:
their batches have many shapes, and what is exact for one need not be for the next.
"""

from __future__ import annotations

import copy
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eyechart.io.files import cache_root, write_cached
from eyechart.models.towers.device_options import channels_last
from eyechart.types import digest_json

if TYPE_CHECKING:
    import torch

SLICE = 16
"""Rows of a slice: enough for the matrix product to be efficient, few enough for the caches."""
AFTER = 16
"""Full batches before anything is tried: a small run is over sooner than the trial would pay."""
ROUNDS = 3
"""How many batches each way gets before the fastest is chosen, by its best time."""
FEWEST = 2 * SLICE
"""A smaller batch is not cut."""
GAIN = 0.97
"""Another way must take at most this share of the plain way's time."""

Inputs = Mapping[str, Any]
Vectors = NDArray[np.float32]
Forward = Callable[["torch.nn.Module", Inputs], Vectors]


@dataclass(frozen=True)
class CpuPlan:
    """One way to work through a batch."""

    streams: int = 1
    """Slices that are computed at the same time, each with its share of the threads."""
    rows: int | None = None
    """Rows of a slice; None is the whole batch."""
    channels_last: bool = False
    """Whether images are laid out pixel by pixel instead of plane by plane."""


PLAIN = CpuPlan()


def candidates(model: torch.nn.Module, threads: int) -> list[CpuPlan]:
    """List the ways that are worth trying; the layout of pixels matters to a network of many convolutions."""
    import torch

    found = [
        CpuPlan(rows=SLICE),
        *(CpuPlan(streams, SLICE) for streams in sorted({threads // 2, threads}) if streams > 1),
    ]
    convolutions = sum(isinstance(module, torch.nn.Conv2d) for module in model.modules())
    return [*found, CpuPlan(channels_last=True)] if convolutions > 1 else found


class CpuAutotuner:
    """Runs the image tower's batches on the CPU, in the way that proved fastest."""

    def __init__(self, model: torch.nn.Module, forward: Forward, key: object) -> None:
        import torch

        self.model = model
        self.forward = forward
        self.threads = torch.get_num_threads()
        self.path = calibration_path([key, self.threads])
        known = _remembered(self.path)
        self.plan = known if known in (PLAIN, *candidates(model, self.threads)) else None
        self.batches = 0
        self.times: dict[CpuPlan, list[float]] = {}
        self._streams: dict[int, _Streams] = {}

    def run(self, inputs: Inputs) -> Vectors:
        """Compute a batch; the first ones of a model that is new on this machine decide how the others are."""
        if count_rows(inputs) < FEWEST or self.threads < 2:
            return self._run(PLAIN, inputs)
        if self.plan is not None:
            return self._run(self.plan, inputs)
        self.batches += 1
        if self.batches <= AFTER:
            return self._run(PLAIN, inputs)
        return self._try_next(inputs) if self.times else self._begin(inputs)

    def _begin(self, inputs: Inputs) -> Vectors:
        """Compute a batch plainly, and find the ways that give the same bits."""
        vectors = self._run(PLAIN, inputs)
        self.times[PLAIN] = []
        for plan in candidates(self.model, self.threads):
            if np.array_equal(self._run(plan, inputs), vectors):
                self.times[plan] = []
        return vectors

    def _try_next(self, inputs: Inputs) -> Vectors:
        """Compute a batch in the way that was tried least, and choose when all had their turns."""
        plan = min(self.times, key=lambda plan: len(self.times[plan]))
        vectors, seconds = self._timed(plan, inputs)
        self.times[plan].append(seconds / len(vectors))
        if min(map(len, self.times.values())) == ROUNDS:
            fastest = min(self.times, key=lambda plan: min(self.times[plan]))
            gains = min(self.times[fastest]) < GAIN * min(self.times[PLAIN])
            self.plan = fastest if gains else PLAIN
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
    """Threads that each have their own twin of a model and a share of the cores."""

    def __init__(self, model: torch.nn.Module, streams: int, threads: int) -> None:
        import torch

        self.models = [model, *(twin(model) for _ in range(streams - 1))]
        self.pool = ThreadPoolExecutor(streams, thread_name_prefix="stream")
        # The number of threads belongs to the thread that sets it, but a thread takes over the number that was set last
        # anywhere when it first asks: each asks before it sets its own, and all have done so before this thread's is
        # put back.
        here, together = torch.get_num_threads(), threading.Barrier(streams)

        def settle(_: int) -> None:
            torch.get_num_threads()
            together.wait()
            torch.set_num_threads(threads)

        list(self.pool.map(settle, range(streams)))
        torch.set_num_threads(here)

    def run(self, forward: Forward, parts: list[Inputs]) -> Vectors:
        """Compute the parts, stream by stream, and return the rows in order."""

        def work(stream: int) -> list[Vectors]:
            return [forward(self.models[stream], part) for part in parts[stream :: len(self.models)]]

        found = list(self.pool.map(work, range(len(self.models))))
        return np.concatenate([found[i % len(found)][i // len(found)] for i in range(len(parts))])


def twin(model: torch.nn.Module) -> torch.nn.Module:
    """Copy the modules but not the weights: passes that change a module while they run need one each."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared)


def calibration_path(key: object) -> Path:
    """Name the file that remembers a choice: for this model on this machine."""
    import torch

    machine = [platform.machine(), platform.processor(), os.cpu_count(), torch.__version__]
    return cache_root() / "calibration" / f"{digest_json([key, machine])}.json"


def _remembered(path: Path) -> CpuPlan | None:
    if not path.is_file():
        return None
    try:
        found = CpuPlan(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        # Not written by this version: tried again, it costs a few batches.
        return None
    return found


def count_rows(value: Any) -> int:
    """Count the rows of tensors by name, however deep."""
    return min(count_rows(inner) for inner in value.values()) if isinstance(value, Mapping) else len(value)


def take(value: Any, start: int, stop: int) -> Any:
    """Cut out rows of tensors by name, however deep."""
    if isinstance(value, Mapping):
        return {name: take(inner, start, stop) for name, inner in value.items()}
    return value[start:stop]
