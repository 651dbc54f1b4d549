"""``image_queries.jsonl``: one object a line with ``image_path`` and ``query`` (EvalScope's custom retrieval data)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from eyechart.datasets.layout import check_only_split
from eyechart.datasets.rows import Problems, RowDataset, describe, find_image, in_memory, json_objects
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.names import file_path
from eyechart.types import DatasetSpec, Sample

FILE = "image_queries.jsonl"


def open_jsonl(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read the file completely; every bad line is reported with its number.

    Several lines about one image are one sample with all their queries. The same query for two images means both.
    """
    check_only_split(spec, f"{FILE} is not divided: each split needs a folder of its own.")
    root = Path(spec.root)
    path = root / FILE if root.is_dir() or root.suffix != ".jsonl" else root
    if not path.is_file():
        raise DataError(f"There is no {path}.", advice=f"The folder of a custom dataset must hold {FILE}.")
    problems = Problems(path)
    samples: dict[Path, Sample] = {}
    for number, row in json_objects(path, problems, spec.options.get("encoding", "")):
        reason = _what_is_wrong(row)
        image = None if reason else find_image(row["image_path"], path.parent)
        if not image and not reason and spec.options.get("skip_missing"):
            image = path.parent / file_path(row["image_path"])  # it fails alone, when it is read
        if image:
            place = image.resolve()
            samples[place] = _with_line(samples.get(place), image, row, number)
        else:
            gone = f"the image {row.get('image_path')!r} does not exist (looked in {path.parent} and here)"
            problems.add(number, reason or gone)
    problems.raise_if_any()
    return in_memory(describe(spec, "retrieval", path, shared_texts=True), list(samples.values()))


def _with_line(known: Sample | None, image: Path, row: Mapping[str, Any], number: int) -> Sample:
    """Make a sample of a line; a further line about the same image adds its queries to that one."""
    texts = (row["query"],) if isinstance(row["query"], str) else tuple(row["query"])
    if known is not None:
        return replace(known, texts=(*known.texts, *(text for text in texts if text not in known.texts)))
    meta = {key: value for key, value in row.items() if key not in ("image_path", "query")}
    return Sample(str(row.get("id", number - 1)), ImageRef.from_path(image), texts=texts, meta=meta)


def _what_is_wrong(row: Mapping[str, Any]) -> str:
    if not isinstance(row.get("image_path"), str) or not row["image_path"]:
        return "image_path is missing or not a text"
    query = row.get("query")
    texts = [query] if isinstance(query, str) else query
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return "query must be a list of texts"
    if not any(text.strip() for text in texts):
        return "query is empty"
    return ""
