"""Reading and writing files of predictions and scores by their suffix: ``load`` and ``dump`` of VLMEvalKit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eyechart.datasets.questions.rows import RowTable, as_table
from eyechart.datasets.questions.tsv import read_tsv, write_tsv
from eyechart.datasets.questions.xlsx import read_xlsx, write_xlsx
from eyechart.datasets.rows import json_objects, read_csv
from eyechart.errors import DataError
from eyechart.io.cells import unguarded
from eyechart.io.files import write_atomic
from eyechart.io.json_text import to_json
from eyechart.io.untrusted import parse_json, read_text


def load(path: str | Path) -> Any:
    """Read a file: JSON as it is, a table as a pandas data frame where pandas is installed, else as a `RowTable`.

    Unlike the original, the words NA, None and nan are words, and nothing is ever unpickled.
    """
    file = Path(path)
    if file.suffix == ".json":
        return parse_json(read_text(file))
    table = load_table(file)
    return table.to_pandas() if find_spec("pandas") else table


def load_table(path: Path) -> RowTable:
    """Read a table of any known format."""
    reader = _FORMATS.get(path.suffix)
    if reader is None:
        raise DataError(f"{path} has no known format.", advice=f"Known: {', '.join(_FORMATS)}.")
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    return reader(path)


def _read_csv(path: Path) -> RowTable:
    columns, rows = read_csv(path)
    cells = ({unguarded(name): unguarded(cell) or None for name, cell in row.items()} for _, row in rows)
    return RowTable(cells, map(unguarded, columns))


def _read_json_lines(path: Path) -> RowTable:
    return RowTable(row for _, row in json_objects(path))


_FORMATS: dict[str, Callable[[Path], RowTable]] = {
    ".xlsx": read_xlsx,
    ".tsv": read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
}


def dump(data: Any, path: str | Path) -> None:
    """Write a table, a data frame or a dict of numbers to a file, in the format of its suffix."""
    file = Path(path)
    if file.suffix == ".json":
        write_atomic(file, (to_json(data, indent=1) + "\n").encode())
        return
    table = as_table([data] if isinstance(data, Mapping) else data)
    if file.suffix == ".xlsx":
        write_xlsx(file, table.columns, ([row[name] for name in table.columns] for row in table.rows))
    elif file.suffix == ".tsv":
        write_tsv(file, table)
    elif file.suffix == ".csv":
        write_atomic(file, table.to_csv().encode("utf-8", "backslashreplace"))
    elif file.suffix == ".jsonl":
        lines = "".join(to_json(row.to_dict()) + "\n" for row in table.rows)
        # A lone surrogate, which UTF-8 cannot hold, becomes the JSON escape for it.
        write_atomic(file, lines.encode("utf-8", "backslashreplace"))
    else:
        raise DataError(f"{file} has no known format.", advice=f"Known: .json, {', '.join(_FORMATS)}.")
