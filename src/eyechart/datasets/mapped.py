"""Datasets made from other ones: the same stream with every sample changed or left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from eyechart.datasets.content import digest_info
from eyechart.io.progress import Progress
from eyechart.types import Dataset, DatasetInfo, Fetchable, Sample, Shard, digest_json, outline_of

Change = Callable[[Sample], Sample | None]
"""Returns the sample to use instead, or nothing to leave it out. It travels to workers, so it must be picklable."""


@dataclass(frozen=True)
class MappedShard:
    """A shard whose samples are changed as they are read."""

    base: Shard
    change: Change

    @property
    def name(self) -> str:
        """Return the name of the shard underneath."""
        return self.base.name

    def __iter__(self) -> Iterator[Sample]:
        return self._changed(self.base)

    def outline(self) -> Iterator[Sample]:
        """Stream the samples without reading an image, unless the change needs it."""
        return self._changed(outline_of(self.base))

    def _changed(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        return (changed for changed in map(self.change, samples) if changed is not None)


@dataclass(frozen=True)
class MappedDataset:
    """A dataset whose samples are changed as they are read."""

    base: Dataset
    info: DatasetInfo
    change: Change
    tag: str
    """Says what is changed; other text, other signature."""

    def shards(self) -> Sequence[MappedShard]:
        """List the shards of the dataset underneath."""
        return [MappedShard(shard, self.change) for shard in self.base.shards()]

    def signature(self) -> str:
        """Digest the dataset underneath, the description and the change."""
        return digest_json([self.base.signature(), digest_info(self.info), self.tag])

    def fetch(self, progress: Progress) -> None:
        """Make the dataset underneath local."""
        if isinstance(self.base, Fetchable):
            self.base.fetch(progress)
