"""Parquet and Arrow files: tables, and the datasets that Hugging Face's library writes, read with pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


def declared_features(schema: Any) -> Mapping[str, Any]:
    """Return the features that Hugging Face's library declares in a schema; empty without them."""
    try:
        found = parse_json((schema.metadata or {}).get(b"huggingface", b"{}").decode())
        features = found["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return features if isinstance(features, dict) else {}
