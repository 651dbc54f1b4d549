"""Where questions come from: files of rows, folders with one such file, and what Hugging Face's datasets writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eyechart.datasets.rows import json_objects, read_csv
from eyechart.errors import DataError, UsageError, import_extra, unknown_name
from eyechart.io.untrusted import parse_json, read_text

Row = Mapping[str, Any]


@dataclass(frozen=True)
class RowSource:
    """Rows, and the folder that their images are named from."""

    path: Path
    folder: Path
    columns: Sequence[str]
    rows: Sequence[Row]


def open_source(path: Path, split: str = "") -> RowSource:
    """Open a file of rows, or a folder.

    Raises:
        DataError: If there is nothing, or nothing of a known form.
        UsageError: If it has several splits or tables, and none is chosen.
    """
    if path.is_dir():
        return _open_folder(path, split)
    if not path.is_file():
        raise DataError(f"There is no file or folder {path}.")
    if split:
        raise UsageError(f"{path} is a file: it has no split.", advice="Leave --split out.")
    return _open_file(path)


def _open_file(path: Path) -> RowSource:
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path} has no known format.", advice=f"Known: {', '.join(READERS)}, and folders.")
    rows = reader(path)
    if not rows:
        raise DataError(f"{path} has no rows.")
    return RowSource(path, path.parent, list(dict.fromkeys(name for row in rows for name in row)), rows)


def _open_folder(path: Path, split: str) -> RowSource:
    if (path / "dataset_dict.json").is_file():
        splits = _object(path / "dataset_dict.json").get("splits", [])
        return _open_folder(path / _chosen(split, [str(name) for name in splits], path), "")
    if (path / "state.json").is_file():
        files = [str(part["filename"]) for part in _object(path / "state.json").get("_data_files", [])]
        features = _object(path / "dataset_info.json").get("features", {}) if files else {}
        return _arrow_source(path, [path / Path(name).name for name in files], features or {})
    found = sorted([*path.glob("*.parquet"), *path.glob("data/*.parquet")])
    if found:
        names = list(dict.fromkeys(file.name.split("-")[0].removesuffix(".parquet") for file in found))
        chosen = _chosen(split, names, path)
        return _arrow_source(path, [file for file in found if file.name.split("-")[0].split(".")[0] == chosen], None)
    if split:
        raise UsageError(f"{path} has no splits.", advice="Leave --split out.")
    tables = sorted(file for file in path.iterdir() if file.suffix.lower() in READERS)
    if len(tables) != 1:
        held = ", ".join(file.name for file in tables) or "none"
        raise UsageError(
            f"{path} should hold one file of questions ({', '.join(READERS)}); it holds: {held}.",
            advice="Name the file itself; --images names the folder of the images if that is another one.",
        )
    return _open_file(tables[0])


def _chosen(split: str, splits: Sequence[str], path: Path) -> str:
    if split and split not in splits:
        raise unknown_name("split", split, splits)
    if not split and len(splits) != 1:
        raise UsageError(f"{path} has the splits {', '.join(splits)}.", advice="Choose one: --split NAME")
    return split or splits[0]


def _object(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(read_text(path))
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON ({error}).") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} is not a JSON object.")
    return found


def _read_json(path: Path) -> list[Row]:
    """Read a list of objects, or an object that holds one list of objects, under whatever name."""
    try:
        found = parse_json(read_text(path))
    except ValueError as error:
        raise DataError(
            f"{path} is not valid JSON ({error}).", advice="One object per line? Name it .jsonl."
        ) from error
    if isinstance(found, dict):
        lists = [value for value in found.values() if _objects(value)]
        if len(lists) != 1:
            raise DataError(f"{path} holds {len(lists)} lists of objects.", advice="One list of questions is needed.")
        found = lists[0]
    if not _objects(found):
        raise DataError(f"{path} is no list of objects.", advice='Write [{"image": "a.png", "question": "..."}, ...].')
    return list(found)


def _objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _read_parquet(path: Path) -> Sequence[Row]:
    return _arrow_source(path.parent, [path], None).rows


READERS: dict[str, Callable[[Path], Sequence[Row]]] = {
    ".json": _read_json,
    ".jsonl": lambda path: [row for _, row in json_objects(path)],
    ".csv": lambda path: [row for _, row in read_csv(path)[1]],
    ".tsv": lambda path: [row for _, row in read_csv(path, "\t")[1]],
    ".parquet": _read_parquet,
}


class ArrowRows(Sequence[Row]):
    """Rows of a table in Arrow's form, each read when it is asked for: images stay in the file."""

    def __init__(self, table: Any, features: Mapping[str, Any]) -> None:
        self.table = table
        self.labels = {
            name: feature["names"]
            for name, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, place: Any) -> Any:
        row = {name: self.table.column(name)[place].as_py() for name in self.table.column_names}
        for name, words in self.labels.items():
            if isinstance(row[name], int) and 0 <= row[name] < len(words):
                row[name] = words[row[name]]
        return row


def _arrow_source(folder: Path, files: Sequence[Path], features: Mapping[str, Any] | None) -> RowSource:
    arrow = import_extra("pyarrow", "parquet")
    parquet = import_extra("pyarrow.parquet", "parquet")
    if not files:
        raise DataError(f"{folder} names no file of rows.")
    try:
        tables = [
            _memory_mapped(arrow, file) if file.suffix == ".arrow" else parquet.read_table(file) for file in files
        ]
        table = arrow.concat_tables(tables)
    except (OSError, arrow.ArrowException) as error:
        raise DataError(f"{folder} cannot be read as a dataset ({str(error).splitlines()[0]}).") from error
    found = features if features is not None else _features(table.schema.metadata or {})
    if not table.num_rows:
        raise DataError(f"{folder} has no rows.")
    return RowSource(folder, folder, table.column_names, ArrowRows(table, found))


def _memory_mapped(arrow: Any, file: Path) -> Any:
    return arrow.ipc.open_stream(arrow.memory_map(str(file))).read_all()


def _features(metadata: Mapping[bytes, bytes]) -> Mapping[str, Any]:
    """Read what the library wrote about the columns into a parquet file."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    except ValueError:
        return {}
    return features if isinstance(features, dict) else {}


def numbered(rows: Sequence[Row]) -> Iterator[tuple[int, Row]]:
    """Yield rows with their numbers, from 1, one at a time."""
    return ((i + 1, rows[i]) for i in range(len(rows)))
