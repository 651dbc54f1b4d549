"""Datasets that are a list of rows: what the JSON-lines, table, folder and library readers have in common."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Generic, TypeVar

from eyechart.datasets.content import digest_info, digest_samples
from eyechart.errors import DataError
from eyechart.io.names import file_path, shown
from eyechart.io.untrusted import is_file, parse_json, text_lines
from eyechart.types import DatasetInfo, DatasetSpec, Kind, Sample, TextCollection, digest_json

MAX_SHOWN = 20
ROWS_PER_SHARD = 4096

T = TypeVar("T")


@dataclass(frozen=True)
class RowShard(Generic[T]):
    """A slice of the rows, each of which becomes a sample when it is read."""

    name: str
    rows: Sequence[T]
    make: Callable[[T], Sample]

    def __iter__(self) -> Iterator[Sample]:
        return map(self.make, self.rows)


@dataclass(frozen=True)
class RowDataset(Generic[T]):
    """Rows and a function that makes a sample of each."""

    info: DatasetInfo
    rows: Sequence[T]
    make: Callable[[T], Sample]
    content: Callable[[], str]
    """Digests what the samples are made of."""

    def shards(self) -> Sequence[RowShard[T]]:
        """Cut the rows into slices."""
        starts = range(0, len(self.rows), ROWS_PER_SHARD)
        return [RowShard(f"rows {i}-", self.rows[i : i + ROWS_PER_SHARD], self.make) for i in starts]

    def signature(self) -> str:
        """Digest the description, the number of rows and what they are made of."""
        return digest_json([digest_info(self.info), len(self.rows), self.content()])


def in_memory(info: DatasetInfo, samples: Sequence[Sample]) -> RowDataset[Sample]:
    """Make a dataset of samples that are there already; most of them refer to image files."""
    return RowDataset(info, samples, _same, partial(digest_samples, samples))


def _same(sample: Sample) -> Sample:
    return sample


def describe(
    spec: DatasetSpec,
    kind: Kind,
    source: object,
    collection: TextCollection | None = None,
    *,
    shared_texts: bool = False,
) -> DatasetInfo:
    """Describe a dataset without classes."""
    return DatasetInfo(
        spec.name,
        kind,
        spec.split,
        spec.language,
        source=shown(source),
        collection=collection,
        shared_texts=shared_texts,
    )


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


def json_objects(
    path: Path, problems: Problems | None = None, encoding: str | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Stream the objects of a JSON-lines file with their line numbers; bad lines are collected, or the first raised."""
    for number, line in text_lines(path, encoding=encoding):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
            reason = "" if isinstance(row, dict) else "not a JSON object"
        except ValueError as error:
            reason = f"not valid JSON ({error})"
        if not reason:
            yield number, row
        elif problems is not None:
            problems.add(number, reason)
        else:
            raise DataError(f"{path}, line {number}: {reason}.")


def read_csv(
    path: Path, delimiter: str = ",", encoding: str | None = None
) -> tuple[list[str], list[tuple[int, dict[str, str | None]]]]:
    """Read the columns of a table, and its rows with their line numbers; cells that a row lacks are None.

    Quoting is strict: a mark that is never closed would swallow all the rows behind it.
    """
    reader = csv.reader((line for _, line in text_lines(path, encoding=encoding)), delimiter=delimiter, strict=True)
    rows = []
    try:
        columns = next(reader, [])
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{path}: the column {twice!r} occurs more than once.")
        for cells in reader:
            if len(cells) > len(columns):
                raise DataError(f"{path}, line {reader.line_num}: more cells than columns.")
            if cells:
                rows.append((reader.line_num, dict(zip_longest(columns, cells))))
    except csv.Error as error:
        raise DataError(
            f"{path}, after line {reader.line_num - 1}: not a table ({error}).",
            advice="A cell with a quotation mark stands between quotation marks, and its own are doubled.",
        ) from error
    return columns, rows


def find_image(text: str, folder: Path) -> Path | None:
    """Find an image by a path relative to the file that names it or to the working directory, first that exists."""
    given = file_path(text)
    return next((path for path in (folder / given, given) if is_file(path)), None)
