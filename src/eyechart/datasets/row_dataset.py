"""Datasets made of rows or of other datasets: shards, signatures by content, and collected problems."""

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Generic, TypeVar

from eyechart.errors import DataError, EyechartError
from eyechart.io.files import file_path, shown
from eyechart.io.images import ImageRef
from eyechart.io.progress import Progress
from eyechart.io.safe_parse import is_file, parse_json, read_json, text_lines
from eyechart.types import (
    Dataset,
    DatasetInfo,
    DatasetSpec,
    Fetchable,
    Kind,
    Sample,
    Shard,
    TextCollection,
    digest_json,
    iter_without_images,
)

UNREADABLE = "unreadable"
"""Digest of an unreadable image; reading the dataset reports or counts it."""


def digest_info(info: DatasetInfo) -> str:
    """Digest the class names, prompts, queries and documents of a description."""
    prompts = sorted(info.class_prompts.items())
    return _digest([(info.kind, info.classnames, info.templates, prompts, repr(info.collection))])


def digest_samples(samples: Iterable[Sample]) -> str:
    """Digest samples with the content of their images; digests of unchanged files are cached."""
    return _digest(
        (sample.id, _content(sample.image), sample.label, sample.labels, sample.texts, dict(sample.meta))
        for sample in samples
    )


def _content(image: ImageRef | None) -> str:
    try:
        return image.digest().hex() if image else ""
    except DataError:
        return UNREADABLE


def _digest(rows: Iterable[object]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for row in rows:
        state.update(json.dumps(row, sort_keys=True, default=str).encode("ascii") + b"\n")
    return state.hexdigest()


@contextmanager
def located(where: str) -> Iterator[None]:
    """Prefix the errors of a block with the sample or row that they are about."""
    try:
        yield
    except EyechartError as error:
        raise type(error)("{where}: {reason}", advice=error.advice, where=where, reason=error.message) from error


MAX_SHOWN = 20
ROWS_PER_SHARD = 4096

T = TypeVar("T")


@dataclass(frozen=True)
class RowShard(Generic[T]):
    """A slice of the rows; each becomes a sample on reading."""

    name: str
    rows: Sequence[T]
    make: Callable[[T], Sample]

    def __iter__(self) -> Iterator[Sample]:
        return map(self.make, self.rows)


@dataclass(frozen=True)
class RowDataset(Generic[T]):
    """Rows and a function that converts each to a sample."""

    info: DatasetInfo
    rows: Sequence[T]
    make: Callable[[T], Sample]
    content: Callable[[], str]
    """Digests the content of the samples."""

    def shards(self) -> Sequence[RowShard[T]]:
        """Split the rows into slices."""
        starts = range(0, len(self.rows), ROWS_PER_SHARD)
        return [RowShard(f"rows {i}-", self.rows[i : i + ROWS_PER_SHARD], self.make) for i in starts]

    def signature(self) -> str:
        """Digest the description, the number of rows and their content."""
        return digest_json([digest_info(self.info), len(self.rows), self.content()])


def in_memory(info: DatasetInfo, samples: Sequence[Sample]) -> RowDataset[Sample]:
    """Create a dataset from samples in memory; most refer to image files."""
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
    """Collects the problems of all rows, so that users see them at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[str] = []

    def add(self, line: int, reason: str) -> None:
        """Record a problem of a line."""
        self.found.append(f"  line {line}: {reason}")

    def raise_if_any(self) -> None:
        """Raise one error that lists the problems."""
        if self.found:
            more = [f"  ... and {len(self.found) - MAX_SHOWN} more"] if len(self.found) > MAX_SHOWN else []
            lines = "\n".join([*self.found[:MAX_SHOWN], *more])
            raise DataError(
                "{path} has {n} bad lines:\n{lines}",
                advice="Correct them and run again.",
                path=self.path,
                n=len(self.found),
                lines=lines,
            )


def json_objects(
    path: Path, problems: Problems | None = None, encoding: str | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Stream the objects of a JSON-lines file with line numbers; bad lines are collected, or the first is raised."""
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
            raise DataError("{path}, line {n}: {reason}.", path=path, n=number, reason=reason)


def read_csv(
    path: Path, delimiter: str = ",", encoding: str | None = None
) -> tuple[list[str], list[tuple[int, dict[str, str | None]]]]:
    """Read the columns of a table, and its rows with line numbers; missing cells are None.

    Quoting is strict: an unclosed quotation mark would swallow all following rows.
    """
    reader = csv.reader((line for _, line in text_lines(path, encoding=encoding)), delimiter=delimiter, strict=True)
    rows = []
    try:
        columns = next(reader, [])
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None:
            raise DataError("{path}: the column {name!r} occurs more than once.", path=path, name=twice)
        for cells in reader:
            if len(cells) > len(columns):
                raise DataError(
                    "{path}, line {line_num}: more cells than columns.", path=path, line_num=reader.line_num
                )
            if cells:
                rows.append((reader.line_num, dict(zip_longest(columns, cells))))
    except csv.Error as error:
        raise DataError(
            "{path}, after line {line_num}: invalid table ({reason}).",
            advice="Quote cells that contain a quotation mark, and double the mark inside.",
            path=path,
            line_num=reader.line_num - 1,
            reason=error,
        ) from error
    return columns, rows


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that must contain an object."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise DataError("{path} is not a JSON object.", path=path)
    return found


def find_image(text: str, folder: Path) -> Path | None:
    """Find an image by a path relative to the file that names it or to the working directory; the first match wins."""
    given = file_path(text)
    return next((path for path in (folder / given, given) if is_file(path)), None)


Change = Callable[[Sample], Sample | None]
"""Returns the replacement of a sample, or None to drop it. Must be picklable, since workers call it."""


@dataclass(frozen=True)
class MappedShard:
    """A shard whose samples are changed on reading."""

    base: Shard
    change: Change

    @property
    def name(self) -> str:
        """The name of the base shard."""
        return self.base.name

    def __iter__(self) -> Iterator[Sample]:
        return self._changed(self.base)

    def outline(self) -> Iterator[Sample]:
        """Stream the samples without reading images, unless the change needs them."""
        return self._changed(iter_without_images(self.base))

    def _changed(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        return (changed for changed in map(self.change, samples) if changed is not None)


@dataclass(frozen=True)
class MappedDataset:
    """A dataset whose samples are changed on reading."""

    base: Dataset
    info: DatasetInfo
    change: Change
    tag: str
    """Identifies the change in the signature."""

    def shards(self) -> Sequence[MappedShard]:
        """Wrap the shards of the base dataset."""
        return [MappedShard(shard, self.change) for shard in self.base.shards()]

    def signature(self) -> str | None:
        """Digest the base dataset, the description and the change."""
        base = self.base.signature()
        return None if base is None else digest_json([base, digest_info(self.info), self.tag])

    def fetch(self, progress: Progress) -> None:
        """Download the base dataset."""
        if isinstance(self.base, Fetchable):
            self.base.fetch(progress)
