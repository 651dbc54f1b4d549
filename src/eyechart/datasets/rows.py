"""Datasets that are a list of rows in memory: what the JSON-lines, table and folder readers have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.datasets.content import digest_info, digest_samples
from eyechart.errors import DataError
from eyechart.io.names import check_name, file_path
from eyechart.io.untrusted import is_file
from eyechart.types import DatasetInfo, Sample, digest_json

MAX_SHOWN = 20
ROWS_PER_SHARD = 4096


@dataclass(frozen=True)
class RowShard:
    """A slice of the rows."""

    name: str
    samples: Sequence[Sample]

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)


@dataclass(frozen=True)
class RowDataset:
    """Samples in memory, most of which refer to image files."""

    info: DatasetInfo
    samples: tuple[Sample, ...]

    def __post_init__(self) -> None:
        for sample in self.samples:
            check_name(sample.id, f"{self.info.name}: the sample")

    def shards(self) -> Sequence[RowShard]:
        """Cut the rows into slices."""
        starts = range(0, len(self.samples), ROWS_PER_SHARD)
        return [RowShard(f"rows {i}-", self.samples[i : i + ROWS_PER_SHARD]) for i in starts]

    def signature(self) -> str:
        """Digest the description and the rows with the content of their images."""
        return digest_json([digest_info(self.info), digest_samples(self.samples)])


class Problems:
    """Collects what is wrong row by row, so that a user sees all of it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[str] = []

    def add(self, line: int, reason: str) -> None:
        """Note a problem of a line."""
        self.found.append(f"  line {line}: {reason}")

    def raise_if_any(self) -> None:
        """Raise one error that lists the problems."""
        if self.found:
            more = [f"  ... and {len(self.found) - MAX_SHOWN} more"] if len(self.found) > MAX_SHOWN else []
            lines = "\n".join([*self.found[:MAX_SHOWN], *more])
            raise DataError(
                f"{self.path} has {len(self.found)} bad lines:\n{lines}", advice="Correct them and run again."
            )


def find_image(text: str, folder: Path) -> Path | None:
    """Find an image by a path relative to the file that names it or to the working directory, first that exists."""
    given = file_path(text)
    return next((path for path in (folder / given, given) if is_file(path)), None)
