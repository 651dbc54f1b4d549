"""MMEB-V2: image tasks with candidates per query, visual document retrieval, and the rankings that VLM2Vec writes.

    ROOT/MMEB_Test_Instruct/ImageNet-1K/test-*.parquet     qry_inst, qry_text, qry_img_path, tgt_inst, tgt_text,
                                                           tgt_img_path; the first candidate is the right one
    ROOT/image-tasks/...                                   the images that these paths name
    ROOT/MMEB-eval/ImageNet-1K/test-*.parquet              the same in MMEB V1: qry instead of qry_inst and qry_text
    ROOT/arxivqa_test_subsampled_beir/{queries,corpus,qrels}/test-*.parquet      documents, images in cells

Texts are assembled as in VLM2Vec, without the image token, which is the model's own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from eyechart.datasets.arrow_files import arrow_rows
from eyechart.datasets.catalogue import CatalogueEntry, load_catalogue
from eyechart.datasets.image_finder import finder_of
from eyechart.datasets.in_memory_rows import ObjectDataset, ObjectRow, ObjectRows
from eyechart.datasets.libraries import hugging_face_splits
from eyechart.datasets.locations import need_file, no_such_split, source_of
from eyechart.datasets.row_dataset import Problems, RowDataset, describe, in_memory, json_objects
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.io.digests import files_digest
from eyechart.types import DatasetSpec, Document, Sample, TextCollection

INSTRUCTION, INSTRUCTED = "instruction", "instructed"
"""Keys of an item's metadata: the instruction, and the text that contains it."""
PREFIX = "mmeb/"
PLACEHOLDER = "<|image_1|>"
FIND = "Find a document image that matches the given query:"
UNDERSTAND = "Understand the content of the provided document image."
PARTS = ("queries", "corpus", "qrels")
PREDICTIONS = "_pred.jsonl"
VIDEO = re.compile(
    "K700|SmthSmthV2|HMDB51|UCF101|Breakfast|MVBench|Video-MME|NExTQA|EgoSchema|ActivityNetQA|DiDeMo|MSR-VTT|MSVD|VATEX|"
    "YouCook2|QVHighlight|Charades-STA|MomentSeeker"
)
Judged = tuple[Document, Sequence[Document], Mapping[str, float]]
"""A query, its candidates, and the relevance of some of them."""


class Ranking(NamedTuple):
    """A query's candidates by name, best first, and the relevance of the right ones."""

    ranked: tuple[str, ...]
    relevance: Mapping[str, float]


def not_supported(name: str, known: Iterable[str]) -> UsageError:
    """Create the error for a task of MMEB that is not in the catalogue."""
    if VIDEO.fullmatch(name):
        return UsageError(
            "{name} is a video task of MMEB; encoders take images and texts.",
            advice="Use the collections mmeb-image and mmeb-visdoc.",
            name=name,
        )
    return unknown_name("MMEB task", f"{PREFIX}{name}", [other for other in known if other.startswith(PREFIX)])


def open_mmeb(spec: DatasetSpec) -> RowDataset[Sample] | ObjectDataset:
    """Open a task: its data under the root; without them, what the rankings of another tool tell of it."""
    catalogue = load_catalogue()
    entry = catalogue.entries[spec.options["entry"]]
    sizes = {name: len(catalogue.collections[name]) for name in catalogue.collections_of(entry.name)}
    dataset = _open(spec, entry)
    return replace(dataset, info=replace(dataset.info, measures=entry.domain, collections=sizes))


def _open(spec: DatasetSpec, entry: CatalogueEntry) -> RowDataset[Sample] | ObjectDataset:
    found = (path for pattern in source_of(spec)["present"] for path in sorted(Path(spec.root).glob(pattern)))
    for folder in filter(Path.is_dir, found):
        if entry.domain.startswith("visdoc") and all((folder / part).is_dir() for part in PARTS):
            return _open_documents(spec, folder)
        if entry.domain.startswith("image") and (splits := hugging_face_splits(folder)):
            return _open_images(spec, entry, _files(spec, splits))
    if path := spec.options.get("predictions"):
        rows = [
            (Document(str(i), "", image=str(i)), [Document(name, "") for name in sorted(one.ranked)], one.relevance)
            for i, one in enumerate(read_rankings(path, entry.name))
        ]
        samples = [Sample(query.id, None) for query, _, _ in rows]
        return in_memory(describe(spec, "collection", path, _collection(rows)), samples)
    advice = "See `eyechart info {name}`."
    raise DataError("{root} has no Parquet files of {name}.", advice=advice, root=spec.root, name=entry.name)


def _files(spec: DatasetSpec, splits: Mapping[str, list[Path]]) -> list[Path]:
    """Return the files of the split; VisRAG calls its only split train."""
    if spec.split not in splits and len(splits) != 1:
        raise no_such_split(spec.name, spec.split, list(splits))
    return splits.get(spec.split) or next(iter(splits.values()))


def _collection(rows: Iterable[Judged]) -> TextCollection:
    """Collect queries and candidates; a candidate is encoded as in the first row that has it, and counts once a row."""
    queries: list[Document] = []
    documents: dict[str, Document] = {}
    candidates: dict[str, tuple[str, ...]] = {}
    relevance: dict[str, Mapping[str, float]] = {}
    for query, some, gains in rows:
        queries.append(query)
        candidates[query.id] = tuple(dict.fromkeys(one.id for one in some))
        relevance[query.id] = gains
        for one in some:
            documents.setdefault(one.id, one)
    return TextCollection(tuple(documents.values()), tuple(queries), relevance, candidates)


def _open_images(spec: DatasetSpec, entry: CatalogueEntry, files: list[Path]) -> RowDataset[Sample]:
    def rows() -> Iterator[Judged]:
        for number, row in enumerate(arrow_rows(files)):
            try:
                query, some = (_v1_row if "qry" in row else _row)(entry, str(number), row)
                yield query, some, {some[0].id: 1.0}
            except (LookupError, TypeError, AttributeError, ValueError) as error:
                reason = f"{type(error).__name__}: {error}"
                raise DataError(
                    "{path}, row {n}: not a row of MMEB ({reason}).", path=files[0], n=number, reason=reason
                ) from error

    collection = _collection(rows())
    finder = finder_of(spec)
    names = dict.fromkeys(item.image for item in (*collection.queries, *collection.documents) if item.image)
    samples = [Sample(image, finder.find(image)) for image in names]
    finder.raise_if_missing(files[0])
    return in_memory(describe(spec, "collection", files[0].parent, collection), samples)


def _row(entry: CatalogueEntry, number: str, row: Mapping[str, Any]) -> tuple[Document, list[Document]]:
    """Convert a row of V2: candidates are texts, or images with an optional caption."""
    texts, paths = row["tgt_text"], [path for path in row.get("tgt_img_path") or () if path]
    image = row["qry_img_path"] or None
    instruction = row["qry_inst"].replace(PLACEHOLDER, "")
    if image and (paths or entry.domain == "image QA"):
        instruction = f"\n{instruction.strip()}"
    end = "\n\n" if entry.name == "mmeb/VisDial" else "\n"
    query = _item(number, instruction, row["qry_text"] or "", image, end)
    if not paths:
        return query, [Document(text, text) for text in texts]
    told, captioned = row["tgt_inst"].replace(PLACEHOLDER, ""), bool(texts[0].strip())
    end = "\n" if captioned or not image else ""
    return query, [
        _item(path + ":" + text.strip('"') if image else path, told, text if captioned else "", path, end)
        for path, text in zip(paths, texts, strict=True)
    ]


def _v1_row(_entry: CatalogueEntry, number: str, row: Mapping[str, Any]) -> tuple[Document, list[Document]]:
    """Convert a row of V1, whose texts contain their instruction."""
    paths = row["tgt_img_path"] or [None] * len(row["tgt_text"])
    return Document(number, row["qry"].replace(PLACEHOLDER, ""), image=row["qry_img_path"] or None), [
        Document(f"{path}:{text}" if path else text, text.replace(PLACEHOLDER, ""), image=path or None)
        for path, text in zip(paths, row["tgt_text"], strict=True)
    ]


def _item(name: str, instruction: str, text: str, image: str | None, end: str) -> Document:
    whole = f"{instruction} {text}" if text or image is None else instruction
    meta = {INSTRUCTION: instruction.strip(), INSTRUCTED: (whole.replace(" \n", "\n") if image else whole) + end}
    return Document(name, text, meta, image)


def _open_documents(spec: DatasetSpec, folder: Path) -> ObjectDataset:
    queries, corpus, qrels = (_files(spec, hugging_face_splits(folder / part)) for part in PARTS)
    language = source_of(spec).get("language")
    relevance: dict[str, dict[str, float]] = {}
    for row in arrow_rows(qrels):
        own, page = relevance.setdefault(str(row["query-id"]), {}), str(row["corpus-id"])
        own[page] = max(own.get(page, 0.0), float(row["score"]))
    asked = tuple(
        _item(str(row["query-id"]), FIND, row["query"], None, "")
        for row in arrow_rows(queries)
        if language in (None, row.get("language"))
    )
    # The order in which VLM2Vec ranks equals: relevant pages by query, then the others.
    pages = dict.fromkeys(str(row["corpus-id"]) for row in arrow_rows(corpus, ["corpus-id"]))
    right = (page for query in asked for page, gain in relevance.get(query.id, {}).items() if gain > 0)
    order = dict.fromkeys(page for page in (*right, *pages) if page in pages)
    collection = TextCollection(tuple(_item(page, UNDERSTAND, "", page, "") for page in order), asked, relevance)

    def rows() -> Iterator[ObjectRow]:
        for row in arrow_rows(corpus, ["corpus-id", "image"]):
            yield ObjectRow(row["image"], None, id=str(row["corpus-id"]))

    token = files_digest([*queries, *corpus, *qrels], folder)
    return ObjectDataset(describe(spec, "collection", folder, collection), ObjectRows("images", rows), token)


def ranking_files(path: str) -> tuple[Path, ...]:
    """Return the files of rankings at a path: itself, or those of a folder."""
    return tuple(sorted(Path(path).glob(f"*{PREDICTIONS}"))) if Path(path).is_dir() else (Path(path),)


def read_rankings(path: str, name: str) -> list[Ranking]:
    """Read a task's rankings from VLM2Vec's file, or from a folder of them."""
    file = Path(path) / f"{name.removeprefix(PREFIX)}{PREDICTIONS}" if Path(path).is_dir() else Path(path)
    problems, found = Problems(need_file(file)), []
    for number, row in json_objects(file, problems):
        ranked, label, gains = row.get("prediction"), row.get("label"), row.get("rel_scores")
        right = label if isinstance(label, list) else [label]
        gains = [1.0] * len(right) if gains is None else gains
        if isinstance(ranked, list) and None not in right and isinstance(gains, list) and len(gains) == len(right):
            relevance = {str(name): float(gain) for name, gain in zip(right, gains, strict=True)}
            found.append(Ranking(tuple(dict.fromkeys(map(str, ranked))), relevance))
        else:
            problems.add(number, "needs prediction (a list), label, and rel_scores or null")
    problems.raise_if_any()
    return found
