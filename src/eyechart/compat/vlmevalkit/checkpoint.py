"""Files with the suffix ``.pkl`` between two steps of an evaluation: JSON inside, because unpickling runs code.

JSON has texts as keys only, and no tuples. Where a value is something else, a mark says what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eyechart.compat.vlmevalkit.frames import to_frame
from eyechart.datasets.questions.rows import RowTable, as_table
from eyechart.errors import DataError
from eyechart.io.files import write_atomic
from eyechart.io.json_text import to_json
from eyechart.io.untrusted import parse_json

MARK = "__eyechart__"


def write_checkpoint(path: Path, data: Any) -> None:
    """Write dicts, lists, tuples, sets, tables, texts and numbers."""
    write_atomic(path, (to_json(_marked(data, path)) + "\n").encode("utf-8", "backslashreplace"))


def read_checkpoint(path: Path) -> Any:
    """Read what `write_checkpoint` wrote.

    Raises:
        DataError: If there is no such file, or a real pickle in it.
    """
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    try:
        return _unmarked(parse_json(path.read_bytes().decode()))
    except (UnicodeDecodeError, DataError, ValueError) as error:
        raise DataError(
            f"{path} was not written by Eyechart, and pickles are not read: they can run any code.",
            advice="Delete it, so that the step is done again, or convert it to JSON where it was written.",
        ) from error


def _marked(value: Any, path: Path) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "columns") or isinstance(value, RowTable):
        table = as_table(value)
        rows = [[_marked(row[name], path) for name in table.columns] for row in table.rows]
        return {MARK: "table", "columns": list(table.columns), "rows": rows}
    if hasattr(value, "tolist"):  # numbers and arrays of numpy
        return _marked(value.tolist(), path)
    if isinstance(value, Mapping):
        plain = all(isinstance(key, str) for key in value) and MARK not in value
        items = [[_marked(key, path), _marked(item, path)] for key, item in value.items()]
        return dict(items) if plain else {MARK: "dict", "items": items}
    if isinstance(value, list | tuple | set | frozenset):
        items = [_marked(item, path) for item in value]
        kind = "tuple" if isinstance(value, tuple) else "set"
        return items if isinstance(value, list) else {MARK: kind, "items": items}
    raise DataError(f"{path}: a {type(value).__name__} cannot be kept in a file between two steps.")


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    kind = value.get(MARK)
    if kind is None:
        return {key: _unmarked(item) for key, item in value.items()}
    if kind == "table":
        rows = (dict(zip(value["columns"], map(_unmarked, row), strict=True)) for row in value["rows"])
        return to_frame(RowTable(rows, value["columns"]))
    if kind == "dict":
        return {_unmarked(key): _unmarked(item) for key, item in value["items"]}
    items = [_unmarked(item) for item in value["items"]]
    return tuple(items) if kind == "tuple" else set(items)
