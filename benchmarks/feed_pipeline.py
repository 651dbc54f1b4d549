"""The pipeline of a run with a free model: the cost of decoding in the main process and in all processes."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from feed_data import exact_transform, photographs

from eyechart.inference.pipeline import Pipeline
from eyechart.io.images import ImageRef
from eyechart.io.stopwatch import Stopwatch
from eyechart.types import EncodeOptions, Sample

PIPELINES = {"two threads": 0, "two loader workers": 2}
BATCH = 64
WARM = 256
"""Warm-up images: processes import torch, and two batches are always in flight."""

LEAST = 512
"""Images between two measurements: many more than are in flight."""


class Cost(NamedTuple):
    """CPU seconds per image."""

    main: float
    all: float


class Blind:
    """A no-op encoder that keeps its input bytes, on a device that is not the CPU."""

    on_gpu = True
    card = SimpleNamespace(image_size=224)

    def __init__(self, prepare: Any) -> None:
        self.prepare_image = self.image_transform = prepare
        self.seen: list[int] = []

    def encode_images(self, batch: np.ndarray) -> np.ndarray:
        self.seen.append(int(np.asarray(batch)[0, :, ::9].sum()))
        return np.zeros((len(batch), 4), np.float32)


def pipelines(rounds: int, passes: int) -> dict[str, Cost]:
    """Measure both kinds in turn; return the medians."""
    prepare = exact_transform().prepare_bytes
    found: dict[str, list[Cost]] = {name: [] for name in PIPELINES}
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{i}.jpg" for i in range(len(photographs()))]
        for path, data in zip(files, photographs(), strict=True):
            path.write_bytes(data)
        for _ in range(rounds):
            seen = {}
            for name, processes in PIPELINES.items():
                encoder = Blind(prepare)
                found[name].append(_run(encoder, processes, [ImageRef.from_path(path) for path in files], passes))
                seen[name] = encoder.seen
            if len(set(map(tuple, seen.values()))) != 1:
                raise SystemExit("threads and workers do not prepare the same pixels")
    return {name: Cost(*map(statistics.median, zip(*costs, strict=True))) for name, costs in found.items()}


def _run(encoder: Blind, processes: int, refs: list[ImageRef], passes: int) -> Cost:
    keys = [ref.digest() for ref in refs]
    count = WARM + max(LEAST, passes * len(refs))
    marks: list[tuple[float, float]] = []

    def samples() -> Iterator[tuple[bytes, Sample]]:
        for i in range(count):
            if i == WARM:
                marks.append(_clocks())
            yield keys[i % len(refs)], Sample(str(i), refs[i % len(refs)])
        marks.append(_clocks())

    model = SimpleNamespace(load=lambda: encoder, spec=SimpleNamespace(options={}, label="blind"))
    table, bar = SimpleNamespace(add=lambda *_: None), SimpleNamespace(advance=lambda *_: None)
    Pipeline(model, EncodeOptions(BATCH, 2, processes), "fail", Stopwatch()).embed_images(samples(), table, bar)  # type: ignore[arg-type]
    (main, all_), (main_after, all_after) = marks
    return Cost((main_after - main) / (count - WARM), (all_after - all_) / (count - WARM))


def _clocks() -> tuple[float, float]:
    """Return the CPU seconds of this process, without and with its children."""
    own = time.process_time()
    return own, own + sum(_cpu(child.pid) for child in multiprocessing.active_children())


def _cpu(pid: int | None) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
