"""A folder of queries and documents that are texts, images or both, with graded relevance.

    ROOT/corpus.jsonl    {"_id": "d1", "text": "...", "image": "images/1.jpg"}     text, image or both
    ROOT/queries.jsonl   {"_id": "q1", "image": "images/2.jpg"}
    ROOT/qrels/test.tsv  query-id  corpus-id  score     (or ROOT/qrels.jsonl)

Text to image, image to image, and a mixed gallery of texts and images are all this form. With texts alone it
is the folder of text retrieval.
"""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets.images import ImageFinder
from eyechart.datasets.rows import Problems, RowDataset
from eyechart.datasets.text_collection import CORPUS, IMAGE, QUERIES, json_rows, read_relevance
from eyechart.errors import DataError
from eyechart.io.names import is_unsafe, shown
from eyechart.types import DatasetInfo, DatasetSpec, Document, Sample, TextCollection

IMAGES = ("{image}", "images/{image}")


def open_collection(spec: DatasetSpec) -> RowDataset:
    """Read a folder: its images are samples, texts and relevance the description; every bad line is reported."""
    root = Path(spec.root)
    if not root.is_dir():
        raise DataError(f"There is no folder {root}.", advice="Check --dataset_root.")
    finder = ImageFinder(root, IMAGES)
    refs: dict[str, Sample] = {}
    documents = _items(root / CORPUS, finder, refs)
    queries = _items(root / QUERIES, finder, refs)
    finder.raise_if_missing(root)
    if not refs:
        raise DataError(f"{root} has no images, only texts.", advice="Call it texts/NAME instead of collection/NAME.")
    relevance = read_relevance(root, spec.split, queries)
    collection = TextCollection(documents, queries, relevance)
    info = DatasetInfo(spec.name, "collection", spec.split, spec.language, source=shown(root), collection=collection)
    return RowDataset(info, tuple(refs.values()))


def _items(path: Path, finder: ImageFinder, refs: dict[str, Sample]) -> tuple[Document, ...]:
    """Read queries or documents; their images are added to ``images``, each once."""
    problems = Problems(path)
    found: dict[str, Document] = {}
    for number, row in json_rows(path):
        name, text, image = row.get("_id"), row.get("text", ""), row.get(IMAGE)
        if not isinstance(name, str | int) or isinstance(name, bool) or str(name) in found:
            problems.add(number, f"the _id {name!r} is missing, no text or number, or occurs twice")
        elif is_unsafe(str(name)):
            problems.add(number, f"the _id {name!r} holds control characters")
        elif not isinstance(text, str) or not (image is None or (isinstance(image, str) and image)):
            problems.add(number, "text and image must be texts")
        elif image is None and not text.strip():
            problems.add(number, "there is neither a text nor an image")
        else:
            meta = {key: value for key, value in row.items() if key not in ("_id", "text", IMAGE)}
            if image is not None and (ref := finder.find(image)):
                refs.setdefault(image, Sample(image, ref))
            found[str(name)] = Document(str(name), text, meta, image)
    problems.raise_if_any()
    if not found:
        raise DataError(f"{path} has no lines.")
    return tuple(found.values())
