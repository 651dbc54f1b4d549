"""Text retrieval folders: ``corpus.jsonl``, ``queries.jsonl``, relevance in ``qrels/{split}.tsv`` or ``qrels.jsonl``.

Both forms of relevance are written, because both are in use: the tab-separated one by BEIR and by EvalScope up to 1.7,
the JSON lines by EvalScope since.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from eyechart.datasets.layout import ONLY_SPLIT, no_such_split
from eyechart.datasets.rows import Problems, RowDataset
from eyechart.errors import DataError
from eyechart.io.files import write_atomic
from eyechart.io.names import is_unsafe
from eyechart.io.untrusted import MAX_TEXT, json_lines, text_lines
from eyechart.types import DatasetInfo, DatasetSpec, Document, Sample, TextCollection

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels.jsonl"
COLUMNS = ("query-id", "corpus-id", "score")

IMAGE = "image"
"""The column that names an item's image; a folder without it is one of texts alone."""

Row = Mapping[str, Any]


def open_text_collection(spec: DatasetSpec) -> RowDataset:
    """Read a folder of texts: its queries are the samples; what else its lines hold is metadata."""
    folder = Path(spec.root).expanduser()
    collection = read_collection(folder, spec.split)
    samples = tuple(Sample(query.id, None, texts=(query.text,), meta=query.meta) for query in collection.queries)
    info = DatasetInfo(spec.name, "texts", spec.split, spec.language, source=str(folder), collection=collection)
    return RowDataset(info, samples)


def has_images(folder: Path) -> bool:
    """Tell whether a line of a collection names an image; lines are searched, not parsed, as there may be millions."""
    column = re.compile(rf'"{IMAGE}"\s*:')
    files = [path for path in (folder / CORPUS, folder / QUERIES) if path.is_file()]
    return any(column.search(line) for path in files for _, line in text_lines(path))


def read_collection(folder: Path, split: str = "test") -> TextCollection:
    """Read a folder; every bad line is reported with its number.

    Ids may be numbers or texts; a document's title stands before its text. ``qrels/{split}.tsv`` is read if it is
    there, else ``qrels.jsonl``.

    Raises:
        DataError: If a file is missing, a line is bad, an id occurs twice, or relevance names an unknown query.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}.", advice="Check its path.")
    documents = _texts(folder / CORPUS)
    queries = _texts(folder / QUERIES)
    return TextCollection(documents, queries, read_relevance(folder, split, queries))


def read_relevance(folder: Path, split: str, queries: Iterable[Document]) -> dict[str, dict[str, float]]:
    """Read how relevant which document is to which query: ``qrels.jsonl`` is of the split "test" alone."""
    table = folder / "qrels" / f"{split}.tsv"
    if split != ONLY_SPLIT and not table.is_file():
        raise no_such_split(
            str(folder), split, _splits(folder), f"The relevance of a split goes into qrels/{split}.tsv."
        )
    path = table if table.is_file() else folder / QRELS
    known = {query.id for query in queries}
    problems = Problems(path)
    relevance: dict[str, dict[str, float]] = {}
    for number, row in _relevance_rows(path, split):
        reason = _bad_relevance(row, known)
        if reason:
            problems.add(number, reason)
        else:
            relevance.setdefault(str(row["query-id"]), {})[str(row["corpus-id"])] = float(row["score"])
    problems.raise_if_any()
    return relevance


def _splits(folder: Path) -> list[str]:
    tables = {path.stem for path in (folder / "qrels").glob("*.tsv")}
    return sorted(tables | ({ONLY_SPLIT} if (folder / QRELS).is_file() else set())) or ["none"]


def write_collection(collection: TextCollection, folder: Path, split: str = "test") -> None:
    """Write a folder as EvalScope's ``image_caption`` does, ids as numbers where they are numbers."""
    write_atomic(folder / CORPUS, _lines(_text_row(document) for document in collection.documents))
    write_atomic(folder / QUERIES, _lines(_text_row(query) for query in collection.queries))
    rows = [
        {"query-id": _number(query), "corpus-id": _number(document), "score": _number(score)}
        for query, documents in collection.relevance.items()
        for document, score in documents.items()
    ]
    write_atomic(folder / QRELS, _lines(rows))
    table = "".join("\t".join(map(str, line)) + "\n" for line in (COLUMNS, *(row.values() for row in rows)))
    write_atomic(folder / "qrels" / f"{split}.tsv", table.encode())


def collection_files(folder: Path, split: str = "test") -> tuple[Path, ...]:
    """Return the files that `write_collection` writes."""
    return (folder / CORPUS, folder / QUERIES, folder / QRELS, folder / "qrels" / f"{split}.tsv")


def _texts(path: Path) -> tuple[Document, ...]:
    problems = Problems(path)
    found: dict[str, Document] = {}
    for number, row in json_rows(path):
        name, text = row.get("_id"), row.get("text")
        if not isinstance(name, str | int) or isinstance(name, bool) or not isinstance(text, str):
            problems.add(number, "_id (a text or a number) and text (a text) are needed")
        elif str(name) in found:
            problems.add(number, f"the _id {name!r} occurs twice")
        elif is_unsafe(str(name)):
            problems.add(number, f"the _id {name!r} holds control characters")
        else:
            title = row.get("title")
            whole = f"{title} {text}".strip() if isinstance(title, str) and title else text
            meta = {key: value for key, value in row.items() if key not in ("_id", "text", "title")}
            found[str(name)] = Document(str(name), whole, meta)
            if not whole.strip():
                problems.add(number, "the text is empty")
            elif len(whole) > MAX_TEXT:
                problems.add(number, f"the text has {len(whole)} characters, more than {MAX_TEXT}")
    problems.raise_if_any()
    if not found:
        raise DataError(f"{path} has no lines.")
    return tuple(found.values())


def json_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Stream the objects of a JSON-lines file with their line numbers."""
    if not path.is_file():
        raise DataError(
            f"There is no {path}.", advice=f"A text retrieval folder holds {CORPUS}, {QUERIES} and relevance."
        )
    for number, row in json_lines(path):
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: not a JSON object.")
        yield number, row


def _relevance_rows(path: Path, split: str) -> Iterator[tuple[int, Row]]:
    if path.suffix != ".tsv":
        if not path.is_file():
            raise DataError(
                f"There is no relevance in {path.parent}.", advice=f"It goes into qrels/{split}.tsv or {QRELS}."
            )
        yield from json_rows(path)
        return
    for number, line in text_lines(path):
        cells = [cell.strip() for cell in line.split("\t")]
        if line.strip("\r\n") and not (number == 1 and cells[0] == COLUMNS[0]):
            yield number, dict(zip(COLUMNS, cells, strict=False))


def _bad_relevance(row: Row, queries: set[str]) -> str:
    if any(row.get(column) in (None, "") for column in COLUMNS):
        return f"needs {', '.join(COLUMNS)}"
    if str(row["query-id"]) not in queries:
        return f"there is no query {row['query-id']!r}"
    try:
        score = float(row["score"])
    except (TypeError, ValueError, OverflowError):
        return f"the score {row['score']!r} is not a number"
    return "" if math.isfinite(score) else "the score is not a number"


def _text_row(document: Document) -> Row:
    return {"_id": _number(document.id), "text": document.text, **document.meta}


def _number(value: str | float) -> str | int | float:
    """Return a number as the file shows it: ids and scores that are whole numbers, without quotes or a point."""
    if isinstance(value, str):
        number = value.isascii() and value.isdigit() and len(value) < 19 and str(int(value)) == value
        return int(value) if number else value
    return int(value) if value == int(value) else value


def _lines(rows: Iterable[Row]) -> bytes:
    return b"".join(
        json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
        for row in rows
    )
