"""Batches of prepared images for a GPU, from the worker processes of torch's DataLoader.

The parent process reads the dataset, looks up the store and removes duplicates; the loader's batch sampler then yields
batches of references, which the workers read, check against their digests, decode and transform. A broken image is
returned as an error value. Tested with real workers on a CPU, not yet on a GPU.
"""

import os
import re
import shutil
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from multiprocessing import active_children, get_context
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eyechart.errors import DataError, EyechartError, ModelError
from eyechart.inference.image_batches import ImageBatch, ImageWork, KeyedSample, ThreadBatches, stack
from eyechart.io.images import ImageRef, Trait
from eyechart.io.stopwatch import Stopwatch
from eyechart.messages import UserMessage
from eyechart.models.towers.torch_tools import local_size
from eyechart.types import EncodeOptions, Sample

PREFETCH = 2
"""Batches prepared ahead by each worker: the default of DataLoader."""
MAX_WORKERS = 16
MIN_CORES = 8
"""Decoding threads alone saturate fewer cores than this."""
MIN_THREADS = 4
"""Automatic workers are off if --num-workers is below this, its default: the user wants less load."""
MAX_DEATHS = 3
"""Worker deaths after which the run ends: the machine, not an image, is the likely cause."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only its size is read
PATIENCE = 5.0
"""Seconds to wait until a worker that broke its connection is reported dead."""
_DIED = re.compile(r"DataLoader worker \(pid")
_CAUGHT = re.compile(r"Caught \w+ in DataLoader worker")
_GUARD = re.compile(r"^if\s+__name__\s*==\s*[\"']__main__[\"']", re.MULTILINE)


class _Item(NamedTuple):
    """An image as sent to a worker."""

    number: int
    key: bytes
    name: str
    image: ImageRef


class _LoadedBatch(NamedTuple):
    """An `ImageBatch` as returned by a worker: a tuple, whose tensor can be pinned."""

    keys: list[bytes]
    pixels: Any
    failures: list[tuple[str, EyechartError]]
    seconds: dict[str, float]
    traits: dict[bytes, Trait]


@dataclass
class _WorkerImages:
    """The loader's dataset; an index is a batch of items."""

    work: ImageWork
    current: Any
    """Shared with the parent: for each worker its process id and the number of its current item, or -1."""
    pillow: tuple[Any, ...]

    def __getitem__(self, items: list[_Item]) -> _LoadedBatch:
        from torch.utils.data import get_worker_info

        place, watch = 2 * get_worker_info().id, Stopwatch()
        keys, images, failures, traits = [], [], [], {}
        for item in items:
            self.current[place : place + 2] = [os.getpid(), item.number]
            try:
                image, seen = self.work.run(item.key, item.image, watch)
                images.append(np.ascontiguousarray(image))
                keys.append(item.key)
                if seen:
                    traits[item.key] = seen
            except EyechartError as error:
                failures.append((item.name, error))
            self.current[place + 1] = -1
        return _LoadedBatch(keys, stack(images), failures, watch.taken(), traits)


def _to_tensor(batch: _LoadedBatch) -> _LoadedBatch:
    import torch

    return batch._replace(pixels=torch.from_numpy(batch.pixels)) if isinstance(batch.pixels, np.ndarray) else batch


def _start_worker(_: int) -> None:
    """Copy the parent's Pillow limits and warning filters to a worker: they affect how images are decoded."""
    from PIL import Image, ImageFile
    from torch.utils.data import get_worker_info

    ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS, filters = get_worker_info().dataset.pillow
    warnings.resetwarnings()

    def pattern(known: Any) -> str:
        return str(getattr(known, "pattern", known) or "")

    for action, message, category, module, line in reversed(filters):
        warnings.filterwarnings(action, pattern(message), category, pattern(module), line)


@dataclass
class LoaderBatches:
    """Prepares images in the worker processes of a DataLoader; in threads if no worker can start."""

    threads: ThreadBatches
    workers: int
    pin_memory: bool
    """Deliver batches in page-locked memory, which is copied to CUDA without blocking."""
    pending: deque[list[_Item]] = field(default_factory=deque, init=False)
    """Batches sent to workers and not returned yet."""

    def batches(self, samples: Iterable[KeyedSample]) -> Generator[ImageBatch]:
        """Yield batches in the order of the samples; an image whose worker died is a failure, others are retried."""
        read = enumerate(self.threads.watch.each("read", samples))
        # An image that a worker can read from its file is sent without its bytes.
        items = (
            _Item(number, key, sample.id, (image := sample.need_image()).elsewhere() or image)
            for number, (key, sample) in read
        )
        for death in range(MAX_DEATHS + 1):
            current = get_context("spawn").RawArray("q", 2 * self.workers)
            died = yield from self._until_death(items, current)
            if not died:
                return
            numbers = _numbers_of_dead(current)
            if not numbers:
                # No worker died while processing an image: they cannot import or unpickle the transform.
                left = chain(chain.from_iterable(self.pending), items)
                yield from self.threads.batches((item.key, Sample(item.name, item.image)) for item in left)
                return
            lost = [item for batch in self.pending for item in batch if item.number in numbers]
            self.pending = deque([item for item in batch if item.number not in numbers] for batch in self.pending)
            batch = ImageBatch()
            for item in lost:
                error = DataError(
                    "{source}: the process decoding the image died.",
                    advice="It may have run out of memory. Try {--decode_processes=0}.",
                    source=item.image.source,
                )
                batch.failures.append((item.name, error))
            yield batch
            if death == MAX_DEATHS:
                where = UserMessage(", the last one at {source}", source=lost[0].image.source) if lost else ""
                raise ModelError(
                    "{max_deaths} loader workers died{where}.",
                    advice="The machine may have run out of memory. Try {--decode_processes=0}.",
                    max_deaths=MAX_DEATHS + 1,
                    where=where,
                )

    def _until_death(self, items: Iterator[_Item], current: Any) -> Generator[ImageBatch, None, bool]:
        """Yield batches until all are done or a worker dies; return whether one died."""
        from PIL import Image, ImageFile
        from torch.utils.data import DataLoader

        pillow = ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS, list(warnings.filters)
        loader = DataLoader(
            _WorkerImages(self.threads.work, current, pillow),
            sampler=self._item_batches(items),
            batch_size=None,  # the sampler yields whole batches
            num_workers=self.workers,
            collate_fn=_to_tensor,
            pin_memory=self.pin_memory,
            prefetch_factor=PREFETCH,
            worker_init_fn=_start_worker,
            multiprocessing_context="spawn",  # a fork would inherit the state of CUDA and of threads
        )
        with _without_torch_signal_handler():
            loaded = iter(loader)
        while True:
            try:
                batch = self._next(loaded)
            except RuntimeError as error:
                if not _DIED.match(str(error)):
                    raise
                return True
            except (OSError, EOFError) as error:
                # Either a worker died after announcing a batch, or this is an error raised by an image.
                if _CAUGHT.match(str(error)) or not _numbers_of_dead(current, patience=PATIENCE):
                    raise
                return True
            if batch is None:
                return False
            yield batch

    def _next(self, loaded: Iterator[_LoadedBatch]) -> ImageBatch | None:
        """Wait for the next batch; time spent reading the dataset in the sampler counts as "read"."""
        watch = self.threads.watch
        start, read = time.perf_counter(), watch.taken().get("read", 0.0)
        batch = next(loaded, None)
        watch.add("wait", time.perf_counter() - start - (watch.taken().get("read", 0.0) - read))
        if batch is None:
            return None
        self.pending.popleft()
        for phase, seconds in batch.seconds.items():
            watch.add(phase, seconds)
        failures = []
        for name, error in batch.failures:
            if not isinstance(error, DataError):
                raise error
            failures.append((name, error))
        return ImageBatch(batch.keys, batch.pixels, failures, batch.traits)

    def _item_batches(self, items: Iterator[_Item]) -> Iterator[list[_Item]]:
        """Yield batches not delivered by an earlier loader, then new ones."""
        again, self.pending = self.pending, deque()
        fresh = iter(lambda: list(islice(items, self.threads.batch_size)), [])
        for batch in chain(again, fresh):
            if batch:
                self.pending.append(batch)
                yield batch


def _numbers_of_dead(current: Any, patience: float = 0.0) -> set[int]:
    """Return the items that dead workers were processing (-1 if idle); empty if all started workers are alive."""
    until = time.monotonic() + patience
    while True:
        alive = {child.pid for child in active_children()}
        at = {current[place]: current[place + 1] for place in range(0, len(current), 2) if current[place]}
        dead = {number for process, number in at.items() if process not in alive}
        if dead or time.monotonic() >= until:
            return dead
        time.sleep(0.05)


@contextmanager
def _without_torch_signal_handler() -> Iterator[None]:
    """Keep torch's SIGCHLD handler out, also one that an earlier DataLoader of this process has left.

    It raises in whatever line runs when a worker dies. Without it the loader notices within five seconds, when the next
    batch is requested.
    """
    here = hasattr(signal, "SIGCHLD") and threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGCHLD) if here else None
    try:
        yield
    finally:
        if here:
            from_torch = getattr(before, "__module__", "").startswith("torch.")
            signal.signal(signal.SIGCHLD, signal.SIG_DFL if from_torch else before)


def loader_workers(encoder: Any, work: ImageWork, options: EncodeOptions) -> tuple[int, str]:
    """Return the number of loader workers to start, and the reason if requested ones cannot be used.

    By default they are used on a GPU if its process has enough cores.
    """
    wanted = options.decode_processes
    if wanted == 0:
        return 0, ""
    obstacle = _obstacle(encoder, work, options, wanted or MAX_WORKERS)
    if wanted is not None:
        return (0, obstacle) if obstacle else (wanted, "")
    if obstacle or options.workers < MIN_THREADS or (cores := usable_cores()) < MIN_CORES:
        return 0, ""
    return min(cores - 1, MAX_WORKERS), ""


def _obstacle(encoder: Any, work: ImageWork, options: EncodeOptions, workers: int) -> str:
    """Return why worker processes cannot prepare images for this encoder; empty if they can."""
    if not getattr(encoder, "on_gpu", False):
        return UserMessage("processes are only used with GPUs")
    if any(getattr(part, "__self__", part) is encoder for part in (work.decode, work.prepare)) or not _picklable(work):
        return UserMessage("the image transform of the model cannot be pickled")
    if not main_is_import_safe():
        return UserMessage(
            "the main module lacks an `if __name__ == '__main__'` guard, so each process would run it again"
        )
    side = encoder.card.image_size or 224
    need = workers * PREFETCH * options.batch_size * 3 * 4 * side * side
    if SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free < need:
        return UserMessage("{path} has less than {need} MiB free", path=SHARED_MEMORY, need=need // 2**20)
    return ""


def _picklable(work: ImageWork) -> bool:
    try:
        ForkingPickler.dumps(work)
    except Exception:  # noqa: BLE001 - pickling a user's transform may raise anything
        return False
    return True


def main_is_import_safe() -> bool:
    """Whether a spawned process can import the main module without running the program again.

    A notebook or an interactive session has no importable module, so its definitions cannot be unpickled elsewhere.
    """
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None and spec.name.endswith("__main__"):
        return True  # ``python -m package``: multiprocessing does not import it again
    if file is None:
        return False
    path = Path(file)
    return path.is_file() and _GUARD.search(path.read_text(encoding="utf-8", errors="replace")) is not None


def usable_cores() -> int:
    """Number of CPU cores for this process: those that Slurm bound it to, or its share of those that all ranks use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    there = os.environ.get("SLURM_CPUS_ON_NODE", "")
    return cores if there.isdigit() and cores < int(there) else max(1, cores // local_size())
