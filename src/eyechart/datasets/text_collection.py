"""Retrieval folders: ``corpus.jsonl``, ``queries.jsonl``, relevance in ``qrels/{split}.tsv`` or ``qrels.jsonl``.

    ROOT/corpus.jsonl    {"_id": "d1", "text": "...", "title": "...", "image": "images/1.jpg"}
    ROOT/queries.jsonl   {"_id": "q1", "text": "..."}
    ROOT/qrels/test.tsv  query-id  corpus-id  score     (or ROOT/qrels.jsonl)
    ROOT/top_ranked.jsonl  {"query-id": "q1", "corpus-ids": ["d1", "d2"]}     (only for reranking)

Queries and documents are texts (``texts/NAME``), or texts, images or both (``collection/NAME``): text-to-image,
image-to-image and mixed galleries all use this format. Relevance is written in both formats in use: tab-separated by
BEIR and by EvalScope up to 1.7, JSON lines by later versions of EvalScope.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from eyechart.datasets.image_finder import ImageFinder
from eyechart.datasets.locations import ONLY_SPLIT, need_file, no_such_split
from eyechart.datasets.row_dataset import Problems, RowDataset, describe, in_memory, json_objects
from eyechart.errors import DataError
from eyechart.io.files import is_unsafe, write_atomic
from eyechart.io.safe_parse import MAX_TEXT, text_lines
from eyechart.messages import UserMessage
from eyechart.types import DatasetSpec, Document, Sample, TextCollection

CORPUS, QUERIES, QRELS, CANDIDATES = "corpus.jsonl", "queries.jsonl", "qrels.jsonl", "top_ranked.jsonl"
COLUMNS = ("query-id", "corpus-id", "score")
IMAGE = "image"
"""The column with the path of an item's image; folders without it contain texts only."""
IMAGES = ("{image}", "images/{image}")

Row = Mapping[str, Any]


def open_text_collection(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read a folder of texts: its queries are the samples; further keys are metadata."""
    folder = Path(spec.root).expanduser()
    collection = read_collection(folder, spec.split, encoding=spec.options.get("encoding", ""))
    samples = [Sample(query.id, None, texts=(query.text,), meta=query.meta) for query in collection.queries]
    return in_memory(describe(spec, "texts", folder, collection), samples)


def open_collection(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read a folder of texts and images: its images are the samples, each once."""
    folder = Path(spec.root)
    collection = read_collection(folder, spec.split, images=True, encoding=spec.options.get("encoding", ""))
    names = dict.fromkeys(item.image for item in (*collection.documents, *collection.queries) if item.image)
    if not names:
        raise DataError(
            "{path} contains texts only, no images.", advice="Use texts/NAME instead of collection/NAME.", path=folder
        )
    finder = ImageFinder(folder, IMAGES)
    samples = [Sample(name, finder.find(name)) for name in names]
    finder.raise_if_missing(folder)
    return in_memory(describe(spec, "collection", folder, collection), samples)


def has_images(folder: Path, encoding: str = "") -> bool:
    """True if a line of a collection names an image; lines are searched, not parsed, as there may be millions."""
    column = re.compile(rf'"{IMAGE}"\s*:')
    files = [path for path in (folder / CORPUS, folder / QUERIES) if path.is_file()]
    return any(column.search(line) for path in files for _, line in text_lines(path, encoding=encoding))


def read_collection(
    folder: Path, split: str = "test", *, images: bool = False, encoding: str | None = None
) -> TextCollection:
    """Read a folder; every bad line is reported with its number.

    Ids may be numbers or texts; a document's title precedes its text. With ``images``, an item may have an image in
    addition to its text or instead of it. If both ``qrels/{split}.tsv`` and ``qrels.jsonl`` exist, they must agree.
    """
    if not folder.is_dir():
        raise DataError("There is no folder {path}.", advice="Check {--dataset_root}.", path=folder)
    documents = _items(folder / CORPUS, encoding, images=images)
    queries = _items(folder / QUERIES, encoding, images=images)
    query_ids = {query.id for query in queries}
    relevance = _relevance(folder, split, query_ids, encoding)
    path = folder / CANDIDATES
    known = {document.id for document in documents}
    candidates = _candidates(path, relevance, query_ids, known, encoding) if path.is_file() else {}
    return TextCollection(documents, queries, relevance, candidates)


def _candidates(
    path: Path, relevance: Mapping[str, object], queries: set[str], documents: set[str], encoding: str | None
) -> dict[str, tuple[str, ...]]:
    """Read the candidate documents per query; every query with relevance needs some."""
    problems = Problems(path)
    found: dict[str, tuple[str, ...]] = {}
    for number, row in json_objects(path, problems, encoding):
        query, items = str(row.get("query-id")), row.get("corpus-ids")
        names = tuple(map(str, items)) if isinstance(items, list) else ()
        unknown = next((name for name in names if name not in documents), None)
        if query not in queries:
            problems.add(number, f"there is no query {query!r}")
        elif not names or len(set(names)) != len(names):
            problems.add(number, "corpus-ids must be a list of documents, each once")
        elif unknown is not None:
            problems.add(number, f"there is no document {unknown!r}")
        elif query in found:
            problems.add(number, "this query is a duplicate")
        found[query] = names
    problems.raise_if_any()
    missing = next((query for query in relevance if query not in found), None)
    if missing is not None:
        advice = "Each query needs candidates."
        raise DataError(
            "{path} has no candidates for the query {missing!r}.", advice=advice, path=path, missing=missing
        )
    return found


def _relevance(folder: Path, split: str, known: set[str], encoding: str | None) -> dict[str, dict[str, float]]:
    """Read the relevance of documents by query; ``qrels.jsonl`` belongs to the split "test" only."""
    table, lines = folder / "qrels" / f"{split}.tsv", folder / QRELS
    if split != ONLY_SPLIT and not table.is_file():
        splits = {path.stem for path in table.parent.glob("*.tsv")} | ({ONLY_SPLIT} if lines.is_file() else set())
        how = UserMessage("The relevance of a split must be in qrels/{split}.tsv.", split=split)
        raise no_such_split(str(folder), split, sorted(splits) or ["none"], how)
    paths = [path for path in (table, lines) if path.is_file() and (path == table or split == ONLY_SPLIT)]
    if not paths:
        raise DataError(
            "{folder} contains no relevance file.",
            advice="Expected qrels/{split}.tsv or {qrels}.",
            folder=folder,
            split=split,
            qrels=QRELS,
        )
    first, *others = [_relevance_of(path, known, encoding) for path in paths]
    if any(other != first for other in others):
        advice = "Keep the file you need and move the other away."
        raise DataError("{table} and {folder} disagree.", advice=advice, table=table, folder=lines)
    return first


def _relevance_of(path: Path, known: set[str], encoding: str | None) -> dict[str, dict[str, float]]:
    problems = Problems(path)
    relevance: dict[str, dict[str, float]] = {}
    tabbed = path.suffix == ".tsv"
    for number, row in _table_rows(path, encoding) if tabbed else json_objects(path, problems, encoding):
        if any(row.get(column) in (None, "") for column in COLUMNS):
            problems.add(number, f"needs {', '.join(COLUMNS)}")
            continue
        query, document, score = str(row["query-id"]), str(row["corpus-id"]), _finite(row["score"])
        if query not in known:
            problems.add(number, f"there is no query {row['query-id']!r}")
        elif score is None:
            problems.add(number, f"the score {row['score']!r} is not a number")
        elif relevance.setdefault(query, {}).setdefault(document, score) != score:
            problems.add(number, f"the document {document!r} has a different score for the query {query!r} above")
    problems.raise_if_any()
    return relevance


def write_collection(collection: TextCollection, folder: Path, split: str = "test") -> None:
    """Write a folder as EvalScope's ``image_caption`` does, with numeric ids as numbers."""
    for name, items in ((CORPUS, collection.documents), (QUERIES, collection.queries)):
        texts = ({"_id": _number(item.id), "text": item.text, **item.meta} for item in items)
        write_atomic(folder / name, _lines(texts))
    rows = [
        {"query-id": _number(query), "corpus-id": _number(document), "score": _number(score)}
        for query, documents in collection.relevance.items()
        for document, score in documents.items()
    ]
    write_atomic(folder / QRELS, _lines(rows))
    table = "".join("\t".join(map(str, line)) + "\n" for line in (COLUMNS, *(row.values() for row in rows)))
    write_atomic(folder / "qrels" / f"{split}.tsv", table.encode())


def documents_in(folder: Path) -> int:
    """Count the documents of a folder written by `write_collection`; 0 if there are none."""
    path = folder / CORPUS
    try:
        return sum(bool(line.strip()) for _, line in text_lines(path)) if path.is_file() else 0
    except DataError:  # damaged, so not worth keeping
        return 0


def collection_files(folder: Path) -> tuple[Path, ...]:
    """Return the files that `write_collection` writes."""
    return (folder / CORPUS, folder / QUERIES, folder / QRELS, folder / "qrels" / f"{ONLY_SPLIT}.tsv")


def _items(path: Path, encoding: str | None, *, images: bool) -> tuple[Document, ...]:
    advice = "A text retrieval folder needs {corpus}, {queries} and relevance."
    need_file(path, UserMessage(advice, corpus=CORPUS, queries=QUERIES))
    own = {"_id", "text", "title", *([IMAGE] if images else [])}
    problems = Problems(path)
    found: dict[str, Document] = {}
    for number, row in json_objects(path, problems, encoding):
        image: Any = row.get(IMAGE) if images else None
        text: Any = row.get("text", "" if images else None)
        reason = _bad_item(row, text, image)
        if not reason and str(row["_id"]) in found:
            reason = f"the _id {row['_id']!r} occurs twice"
        if reason:
            problems.add(number, reason)
            continue
        title = row.get("title")
        whole = f"{title} {text}".strip() if isinstance(title, str) and title else text
        if image is None and not whole.strip():
            problems.add(number, "there is neither a text nor an image" if images else "the text is empty")
        elif len(whole) > MAX_TEXT:
            problems.add(number, f"the text has {len(whole)} characters, more than {MAX_TEXT}")
        meta = {key: value for key, value in row.items() if key not in own}
        found[str(row["_id"])] = Document(str(row["_id"]), whole, meta, image)
    problems.raise_if_any()
    if not found:
        raise DataError("{path} has no lines.", path=path)
    return tuple(found.values())


def _bad_item(row: Row, text: Any, image: Any) -> str:
    name = row.get("_id")
    if not isinstance(name, str | int) or isinstance(name, bool):
        return f"_id {name!r} is missing, or neither a text nor a number"
    if not isinstance(text, str) or not (image is None or (isinstance(image, str) and image)):
        return "text and image must be texts" if "text" in row else "there is no text"
    if not isinstance(row.get("title"), str | None):
        return "the title must be a text"
    return f"the _id {name!r} holds control characters" if is_unsafe(str(name)) else ""


def _table_rows(path: Path, encoding: str | None) -> Iterator[tuple[int, Row]]:
    for number, line in text_lines(path, encoding=encoding):
        cells = [cell.strip() for cell in line.split("\t")]
        if number == 1 and cells[0] == COLUMNS[0]:
            if tuple(cells) != COLUMNS:
                raise DataError(
                    "Unexpected columns in {path}: {cells}.",
                    advice="Expected: {columns}.",
                    path=path,
                    cells=", ".join(cells),
                    columns=", ".join(COLUMNS),
                )
        elif line.strip("\r\n"):
            yield number, dict(zip(COLUMNS, cells, strict=True)) if len(cells) == len(COLUMNS) else {}


def _finite(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _number(value: str | float) -> str | int | float:
    """Return integer ids and scores as JSON numbers without a decimal point."""
    if isinstance(value, str):
        number = value.isascii() and value.isdigit() and len(value) < 19 and str(int(value)) == value
        return int(value) if number else value
    return int(value) if value == int(value) else value


def _lines(rows: Iterable[Row]) -> bytes:
    return b"".join(
        json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
        for row in rows
    )
