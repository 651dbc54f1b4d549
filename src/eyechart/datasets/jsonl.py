"""``image_queries.jsonl``: one object a line with ``image_path`` and ``query`` (EvalScope's custom retrieval data)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eyechart.datasets.layout import check_only_split
from eyechart.datasets.rows import Problems, RowDataset, describe, find_image, in_memory
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.untrusted import parse_json, text_lines
from eyechart.types import DatasetSpec, Sample

FILE = "image_queries.jsonl"


def open_jsonl(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read the file completely; every bad line is reported with its number."""
    check_only_split(spec, f"{FILE} is not divided: each split needs a folder of its own.")
    root = Path(spec.root)
    path = root / FILE if root.is_dir() or root.suffix != ".jsonl" else root
    if not path.is_file():
        raise DataError(f"There is no {path}.", advice=f"The folder of a custom dataset must hold {FILE}.")
    problems = Problems(path)
    samples: list[Sample] = []
    for number, line in text_lines(path):
        if line.strip():
            sample = _row(line, number, path.parent, problems)
            if sample:
                samples.append(sample)
    problems.raise_if_any()
    return in_memory(describe(spec, "retrieval", path), samples)


def _row(line: str, number: int, folder: Path, problems: Problems) -> Sample | None:
    try:
        row = parse_json(line)
    except ValueError as error:
        problems.add(number, f"not valid JSON ({error})")
        return None
    reason = _what_is_wrong(row)
    if reason:
        problems.add(number, reason)
        return None
    image = find_image(row["image_path"], folder)
    if image is None:
        problems.add(number, f"the image {row['image_path']!r} does not exist (looked in {folder} and here)")
        return None
    texts = (row["query"],) if isinstance(row["query"], str) else tuple(row["query"])
    meta = {key: value for key, value in row.items() if key not in ("image_path", "query")}
    return Sample(str(row.get("id", number - 1)), ImageRef.from_path(image), texts=texts, meta=meta)


def _what_is_wrong(row: Any) -> str:
    if not isinstance(row, dict):
        return "not a JSON object"
    if not isinstance(row.get("image_path"), str) or not row["image_path"]:
        return "image_path is missing or not a text"
    query = row.get("query")
    texts = [query] if isinstance(query, str) else query
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return "query must be a list of texts"
    if not any(text.strip() for text in texts):
        return "query is empty"
    return ""
