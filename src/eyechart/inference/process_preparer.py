"""Images prepared by processes: Python's lock limits the threads of one process to about 2,300 images a second.

A thread of this process hands an image over by name (a file, or a part of one) and waits; the pixels are written where
the batch is put together. Nothing that a process holds is lost with it: its image is prepared again.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError
from eyechart.inference import shared_rows
from eyechart.inference.decode_process import DecodeProcess, packed
from eyechart.inference.device_feed import FeedDevice
from eyechart.inference.image_work import ImageWork, Outcome, Preparer, ThreadPreparer, Wanted
from eyechart.inference.rows import BatchRows
from eyechart.inference.shared_rows import SharedRows
from eyechart.io.stopwatch import Stopwatch
from eyechart.types import Sample

CORES = 8
"""Fewer cores than this are busy with threads alone."""
MOST = 16
"""Processes that are started unasked: each holds its own copy of the libraries of the transform."""
THREADS = 4
"""Whoever asks for fewer threads than the default wants less of the machine, not more."""
AFTER = 1000
"""Images before processes are started unasked: that takes seconds, and fewer images are soon done."""
TRIES = 2
"""Processes that an image may take with it."""
ENDED = (EOFError, OSError)
"""What the pipe to a process raises that has ended."""
OWN_PROGRAMS = ("", "eyechart", "clip_benchmark", "clip_benchmark_export_wds")
"""Whose main module may be imported again by a process; somebody's script may do its work when it is imported."""


def preparer_for(
    work: ImageWork, device: FeedDevice, watch: Stopwatch, *, threads: int, processes: int | None, owner: object
) -> Preparer:
    """Return who prepares images: threads, or processes if they are asked for or the device is faster than threads."""
    here = ThreadPreparer(work, threads, device.memory, watch)
    count = _unasked(device, threads) if processes is None else processes
    sent = packed(work, owner, device) if count and shared_rows.AVAILABLE else None
    if sent is None:
        return here
    return ProcessPreparer(here, sent, count, device, after=AFTER if processes is None else 0)


def _unasked(device: FeedDevice, threads: int) -> int:
    """Return how many processes are worth it where nobody said."""
    beside = os.environ.get("LOCAL_WORLD_SIZE", "1")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores //= max(1, int(beside)) if beside.isdigit() else 1
    fast = device.ahead > 0  # it computes while the next batch is prepared
    return min(cores - 1, MOST) if fast and cores >= CORES and threads >= THREADS and _own_program() else 0


def _own_program() -> bool:
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return (spec.name.partition(".")[0] if spec else Path(file or "").stem) in OWN_PROGRAMS


class ProcessPreparer:
    """Processes, each asked by one thread at a time. Until they have started, threads do the work."""

    piece = 8
    """A message for each image would keep this process busy at 4,000 images a second."""

    def __init__(self, here: ThreadPreparer, work: bytes, count: int, device: FeedDevice, *, after: int = 0) -> None:
        """Start nothing yet.

        Args:
            here: Does the work as long as no process can.
            work: The same, packed.
            count: Processes.
            device: Where batches go.
            after: Images that are prepared here first; with 0, processes are waited for as soon as the shape is known.
        """
        self.here, self.threads = here, count
        self._work, self._device, self._after = work, device, after
        self._shared: SharedRows | None = None
        self._idle: SimpleQueue[DecodeProcess | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._seen = 0
        self._started = False
        self._locked = ExitStack()

    def memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return memory that the processes write to and the device copies from."""
        shared = SharedRows(shape, dtype)
        self._locked.enter_context(self._device.locked(shared.array))
        self._shared = shared
        return shared.array

    def prepare(self, piece: Sequence[Wanted], rows: BatchRows) -> list[Outcome]:
        """Let a process prepare the images."""
        if not self._begun(len(piece)):
            return self.here.prepare(piece, rows)
        return self._asked(piece, rows, TRIES, patient=not self._after)

    def _asked(self, piece: Sequence[Wanted], rows: BatchRows, tries: int, *, patient: bool) -> list[Outcome]:
        """Ask the next process. If it dies, another gets its images one by one: only one of them may be to blame."""
        process = self._settled(self._idle.get(), patient)
        if process is None or not process.ready:
            self._idle.put(process)
            return self.here.prepare(piece, rows)
        place: DecodeProcess | None = process
        try:
            seconds, found = process.ask([(key, _elsewhere(sample), row) for key, sample, row in piece])
        except ENDED:
            process.close()
            place = self._start()
        else:
            for phase, taken in seconds.items():
                self.here.watch.add(phase, taken)
            return [rows.row(row) if image is None else image for image, (*_, row) in zip(found, piece, strict=True)]
        finally:
            self._idle.put(place)
        if len(piece) > 1:
            return [outcome for wanted in piece for outcome in self._asked([wanted], rows, tries, patient=True)]
        # Patient, so that it is not tried in this process what ended another one.
        return self._asked(piece, rows, tries - 1, patient=True) if tries > 1 else [_died(piece[0][1])]

    def _begun(self, count: int) -> bool:
        """Start the processes, when there is enough to do and the first image has shown how large the rows are."""
        with self._starting:
            if not self._started and self._shared is not None and self._seen >= self._after:
                for _ in range(self.threads):
                    self._idle.put(self._start())
                self._started = True
            self._seen += count
            return self._started

    def _start(self) -> DecodeProcess | None:
        """Start a process; without one, the thread that would have asked it does the work."""
        try:
            return DecodeProcess(self._work, self._shared) if self._shared else None
        except OSError:
            return None

    @staticmethod
    def _settled(process: DecodeProcess | None, patient: bool) -> DecodeProcess | None:
        """Look whether a process has begun; one that never will (it cannot read the transform) is given up."""
        if process is not None:
            try:
                process.settle(wait=patient)
            except ENDED:
                process.close()
                return None
        return process

    def close(self) -> None:
        """End the processes and give the memory back."""
        while not self._idle.empty():
            process = self._idle.get()
            if process is not None:
                process.close()
        self._locked.close()


def _elsewhere(sample: Sample) -> Sample:
    """Return a sample whose image another process reads itself, if it can."""
    image = sample.image
    return Sample(sample.id, (image.elsewhere() or image) if image else None)


def _died(sample: Sample) -> DataError:
    return DataError(
        f"{sample.need_image().source}: the process that decoded the image died, and so did the next one.",
        advice="Was it killed for lack of memory? Try --decode-processes 0.",
    )
