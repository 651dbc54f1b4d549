"""A webdataset as a stream for torch loaders, with the webdataset methods that scripts call.

The first five stages yield samples as dicts of decoded members, as in the versions (0.2) whose pipeline DataComp's code
slices. Members are numbers, arrays, texts and images; nothing is unpickled.
"""

import copy
import functools
import io
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Self

import numpy as np

from eyechart.datasets.remote import Files
from eyechart.datasets.tar_shards import IMAGE_EXTENSIONS, check_whole, iter_groups
from eyechart.errors import DataError
from eyechart.io.images import ImageRef, to_rgb
from eyechart.io.progress import NoProgress
from eyechart.io.safe_parse import parse_json

Stage = Callable[[Iterator[Any]], Iterable[Any]]
Fields = dict[str, Any]


class TarStream:
    """Samples of the shards of a split, processed in stages."""

    def __init__(self, source: Callable[[], Iterable[str]], stages: Sequence[Stage]) -> None:
        self._pipeline: list[Any] = [source, *stages]
        self._shared = False
        self.size: int | None = None
        self.classes: list[str] | None = None
        self.templates: list[str] | dict[str, list[str]] | None = None

    @property
    def pipeline(self) -> list[Any]:
        """The stages: the first yields shard names, each other one transforms the output of the previous one."""
        return self._pipeline

    @pipeline.setter
    def pipeline(self, stages: list[Any]) -> None:
        # Scripts that do this were written for webdataset 0.2, where a new stage also changed the original dataset.
        self._pipeline, self._shared = stages, True

    def __iter__(self) -> Iterator[Any]:
        found: Iterator[Any] = iter(self._pipeline[0]())
        for stage in self._pipeline[1:]:
            found = iter(stage(found))
        return found

    def __len__(self) -> int:
        if self.size is None:
            raise TypeError("A stream has no length; set one with with_length(n).")
        return self.size

    def __bool__(self) -> bool:
        return True

    def compose(self, *stages: Stage) -> Self:
        """Return the stream with more stages."""
        longer = copy.copy(self)
        if not self._shared:
            longer._pipeline = [*self._pipeline]
        longer._pipeline.extend(stages)
        return longer

    def with_length(self, n: int, silent: bool = False) -> Self:  # noqa: ARG002 - the original's signature
        """Set the length that `len` returns; the samples are unaffected."""
        self.size = n
        return self

    def map(self, f: Callable[[Any], Any]) -> Self:
        """Apply a function to each sample."""
        return self.compose(partial(map, f))

    def select(self, predicate: Callable[[Any], bool]) -> Self:
        """Keep the samples for which a predicate is true."""
        return self.compose(partial(filter, predicate))

    def to_tuple(self, *keys: str | Sequence[str]) -> Self:
        """Make tuples of members; each position takes the first of its alternatives that exists."""
        wanted = [key.split(";") if isinstance(key, str) else list(key) for key in keys]
        return self.map(partial(_members, wanted))

    def map_tuple(self, *functions: Callable[[Any], Any] | None) -> Self:
        """Apply a function, or None, to each position of the tuples."""
        return self.map(partial(_changed, functions))

    def shuffle(self, size: int, initial: int = 100, rng: random.Random | None = None) -> Self:
        """Shuffle the samples in a buffer."""
        return self.compose(partial(_mixed, size, initial, rng or random.Random())) if size > 0 else self  # noqa: S311

    def slice(self, *bounds: int | None) -> Self:
        """Take a slice of the stream, as `itertools.islice` does."""
        return self.compose(partial(_sliced, bounds))

    def batched(
        self, batchsize: int, collation_fn: Callable[[list[Any]], Any] | None = None, partial: bool = True
    ) -> Self:
        """Batch consecutive samples: numbers and arrays become one array per position, anything else a list."""
        return self.compose(functools.partial(_batches, batchsize, collation_fn or collate, partial))


def open_stream(files: Files, names: Sequence[str]) -> TarStream:
    """Stream the samples of shards as dicts of decoded members."""
    from torch.utils.data import IterableDataset

    IterableDataset.register(TarStream)  # the loader checks for this class, and torch is imported lazily
    return TarStream(partial(list, names), [_whole_node, _share_of_worker, partial(_groups, files), _decoded])


def collate(samples: list[Any]) -> list[Any]:
    """Turn a list of tuples into one entry per position."""
    if not isinstance(samples[0], list | tuple):
        raise DataError(
            "Cannot batch samples of type {type}.", advice="Call to_tuple first.", type=type(samples[0]).__name__
        )
    import torch

    found: list[Any] = [list(column) for column in zip(*samples, strict=True)]
    for place, column in enumerate(found):
        if isinstance(column[0], torch.Tensor):
            found[place] = torch.stack(column)
        elif isinstance(column[0], int | float | np.ndarray):
            found[place] = np.array(column)
    return found


def _whole_node(shards: Iterator[str]) -> Iterator[str]:
    return shards


def _share_of_worker(shards: Iterator[str]) -> Iterator[str]:
    """Divide the shards among the workers of a loader."""
    from torch.utils.data import get_worker_info

    worker = get_worker_info()
    return islice(shards, worker.id, None, worker.num_workers) if worker else shards


def _groups(files: Files, shards: Iterator[str]) -> Iterator[Fields]:
    for name in shards:
        path = files.fetch(name, NoProgress())
        check_whole(path)
        for key, fields in iter_groups(path):
            yield {"__key__": key, "__url__": str(path), **fields}


def _decoded(samples: Iterator[Fields]) -> Iterator[Fields]:
    for fields in samples:
        found = dict(fields)
        for name, value in fields.items():
            decode = DECODERS.get(name.rpartition(".")[2])
            if decode is None or not isinstance(value, bytes):
                continue
            source = f"{fields['__url__']}:{fields['__key__']}.{name}"
            try:
                found[name] = decode(value, source)
            except UNREADABLE as error:
                raise DataError("Cannot decode {source} ({reason}).", source=source, reason=error) from error
        yield found


UNREADABLE = (ValueError, EOFError, OSError, SyntaxError, TypeError, MemoryError, RecursionError)
"""Invalid UTF-8, numbers or JSON; an array's header is Python text that numpy parses and may claim any size."""
DECODERS: dict[str, Callable[[bytes, str], Any]] = {
    **dict.fromkeys(IMAGE_EXTENSIONS, lambda data, source: to_rgb(ImageRef(source, data=data).decode())),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), lambda data, _: int(data)),
    **dict.fromkeys(("txt", "text", "transcript"), lambda data, _: data.decode("utf-8")),
    "json": lambda data, _: parse_json(data.decode("utf-8")),
    "npy": lambda data, _: np.load(io.BytesIO(data), allow_pickle=False),
}


def _members(wanted: Sequence[Sequence[str]], fields: Fields) -> tuple[Any, ...]:
    found = []
    for names in wanted:
        name = next((name for name in names if name in fields), None)
        if name is None:
            there = ", ".join(sorted(key for key in fields if not key.startswith("__")))
            raise DataError(
                "Sample {key} has no {names}, only {there}.",
                key=fields["__key__"],
                names=" or ".join(names),
                there=there,
            )
        found.append(fields[name])
    return tuple(found)


def _changed(functions: Sequence[Callable[[Any], Any] | None], values: Sequence[Any]) -> tuple[Any, ...]:
    rest = [None] * (len(values) - len(functions))
    pairs = zip([*functions, *rest], values, strict=True)
    return tuple(value if change is None else change(value) for change, value in pairs)


def _mixed(size: int, initial: int, rng: random.Random, samples: Iterator[Any]) -> Iterator[Any]:
    buffer: list[Any] = []
    for sample in samples:
        buffer.append(sample)
        if len(buffer) >= max(size, initial):
            yield buffer.pop(rng.randrange(len(buffer)))
    rng.shuffle(buffer)
    yield from buffer


def _sliced(bounds: Sequence[int | None], samples: Iterator[Any]) -> Iterator[Any]:
    return islice(samples, *bounds)


def _batches(size: int, join: Callable[[list[Any]], Any], partly_filled: bool, samples: Iterator[Any]) -> Iterator[Any]:
    while batch := list(islice(samples, size)):
        if len(batch) == size or partly_filled:
            yield join(batch)
