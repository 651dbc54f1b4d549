"""Datasets whose samples are made one by one while they are read: arrays, crops, records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from eyechart.datasets.content import digest_info
from eyechart.datasets.rows import ROWS_PER_SHARD
from eyechart.io.names import check_name
from eyechart.types import DatasetInfo, Sample, digest_json

T = TypeVar("T")


@dataclass(frozen=True)
class LazyShard(Generic[T]):
    """A slice of the items."""

    name: str
    items: Sequence[T]
    make: Callable[[T], Sample]

    def __iter__(self) -> Iterator[Sample]:
        for sample in map(self.make, self.items):
            check_name(sample.id, f"{self.name}: the sample")
            yield sample


@dataclass(frozen=True)
class LazyDataset(Generic[T]):
    """Items and a function that makes a sample of each."""

    info: DatasetInfo
    items: Sequence[T]
    make: Callable[[T], Sample]
    content: Callable[[], str]
    """Digests the files that the items are made of."""

    def shards(self) -> Sequence[LazyShard[T]]:
        """Cut the items into slices."""
        starts = range(0, len(self.items), ROWS_PER_SHARD)
        return [LazyShard(f"items {i}-", self.items[i : i + ROWS_PER_SHARD], self.make) for i in starts]

    def signature(self) -> str:
        """Digest the description, the number of items and what they are made of."""
        return digest_json([digest_info(self.info), len(self.items), self.content()])
