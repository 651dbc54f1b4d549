"""Parquet and Arrow files: tables, and the datasets that Hugging Face's library writes, read with pyarrow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eyechart.errors import DataError, first_line, import_extra
from eyechart.io.safe_parse import parse_json

BATCH_ROWS = 64
"""Rows in memory at a time; each may contain an image."""


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    arrow = import_extra("pyarrow", "parquet")
    try:
        yield
    except (arrow.ArrowException, OSError) as error:
        raise DataError(
            "Cannot read {path} ({reason}).", advice="Copy or download it again.", path=path, reason=first_line(error)
        ) from error


def arrow_schema(path: Path) -> Any:
    """Read the schema of a file."""
    parquet, ipc = import_extra("pyarrow.parquet", "parquet"), import_extra("pyarrow.ipc", "parquet")
    with _readable(path):
        if path.suffix == ".parquet":
            return parquet.read_schema(path)
        with path.open("rb") as stream:
            return ipc.open_stream(stream).schema


def arrow_rows(paths: Sequence[Path], columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Stream the rows of some files, optionally only some columns."""
    parquet, ipc = import_extra("pyarrow.parquet", "parquet"), import_extra("pyarrow.ipc", "parquet")
    for path in paths:
        with _readable(path):
            if path.suffix == ".parquet":
                with parquet.ParquetFile(path) as file:
                    for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                        yield from batch.to_pylist()
                continue
            with path.open("rb") as stream:
                for batch in ipc.open_stream(stream):
                    chosen = batch if columns is None else batch.select(list(columns))
                    for start in range(0, len(chosen), BATCH_ROWS):
                        yield from chosen.slice(start, BATCH_ROWS).to_pylist()


def arrow_table(paths: Sequence[Path]) -> Any:
    """Read whole files as one table; Arrow files are mapped into memory."""
    arrow, parquet = import_extra("pyarrow", "parquet"), import_extra("pyarrow.parquet", "parquet")
    tables = []
    for path in paths:
        with _readable(path):
            mapped = path.suffix == ".arrow"
            tables.append(
                arrow.ipc.open_stream(arrow.memory_map(str(path))).read_all() if mapped else parquet.read_table(path)
            )
    with _readable(paths[0]):
        return arrow.concat_tables(tables)


IMAGE_KEYS = ("image", "img", "jpg", "png")
"""Common names of columns of images."""


@dataclass(frozen=True)
class DescribedColumn:
    """The type of a column."""

    kind: Literal["image", "label", "text", "number", "other"]
    names: tuple[str, ...] = ()
    """Class names of a label."""
    several: bool = False
    """Whether a cell is a list."""


def describe_columns(schema: Any) -> dict[str, DescribedColumn]:
    """Describe the columns of a schema by the features that Hugging Face's library declares in it, else by their types.

    Without a declared column of images, bytes, or a struct with bytes, are an image if the column is named so.
    """
    try:
        features = parse_json((schema.metadata or {}).get(b"huggingface", b"{}").decode())["info"]["features"]
    except (ValueError, KeyError, TypeError):
        features = {}
    known = features if isinstance(features, dict) else {}
    declared = any(isinstance(feature, dict) and feature.get("_type") == "Image" for feature in known.values())
    return {field.name: _described(field, known.get(field.name), declared=declared) for field in schema}


def _described(field: Any, feature: Any, *, declared: bool) -> DescribedColumn:
    inner = feature[0] if isinstance(feature, list) and feature else feature
    inner = inner.get("feature", inner) if isinstance(inner, dict) else {}
    inner = inner if isinstance(inner, dict) else {}
    listed = str(field.type).partition("<")[0].endswith("list")  # not a struct of lists
    if inner.get("_type") == "ClassLabel":
        return DescribedColumn("label", tuple(map(str, inner.get("names") or ())), listed)
    text = str(field.type.value_type if listed else field.type)
    embedded = not declared and field.name in IMAGE_KEYS and ("binary" in text or "bytes:" in text)
    if not listed and (embedded or inner.get("_type") == "Image"):
        return DescribedColumn("image")
    if text.endswith("string"):
        return DescribedColumn("text", (), listed)
    return DescribedColumn("number" if text.lstrip("u").startswith("int") else "other", (), listed)
