"""MMEB-V2: image tasks with candidates per query, visual document retrieval, and the rankings that VLM2Vec writes.

    ROOT/MMEB_Test_Instruct/ImageNet-1K/test-*.parquet     qry_inst, qry_text, qry_img_path, tgt_inst, tgt_text,
                                                           tgt_img_path; the first candidate is the right one
    ROOT/image-tasks/...                                   the images that these paths name
    ROOT/MMEB-eval/ImageNet-1K/test-*.parquet              the same in MMEB V1: qry instead of qry_inst and qry_text
    ROOT/arxivqa_test_subsampled_beir/{queries,corpus,qrels}/test-*.parquet      documents, images in cells

Texts are assembled as in VLM2Vec, without the image token, which is the model's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eyechart.benchmarks import group_members
from eyechart.datasets.arrow_files import arrow_rows
from eyechart.datasets.image_finder import finder_of
from eyechart.datasets.in_memory_rows import ObjectDataset, ObjectRow, ObjectRows
from eyechart.datasets.libraries import hugging_face_splits
from eyechart.datasets.locations import no_such_split, source_of
from eyechart.datasets.row_dataset import Problems, RowDataset, describe, in_memory, json_objects
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.io.digests import files_digest
from eyechart.types import INSTRUCTED, INSTRUCTION, Dataset, DatasetSpec, Document, Sample, TextCollection

PREFIX = "mmeb/"
PLACEHOLDER = "<|image_1|>"
FIND, UNDERSTAND = (
    "Find a document image that matches the given query:",
    "Understand the content of the provided document image.",
)
"""Instructions of documents, for queries and for pages."""
PARTS = ("queries", "corpus", "qrels")
PREDICTIONS = "_pred.jsonl"
VIDEO = frozenset(
    {
        *("K700", "SmthSmthV2", "HMDB51", "UCF101", "Breakfast", "MVBench", "Video-MME", "NExTQA", "EgoSchema"),
        *("ActivityNetQA", "DiDeMo", "MSR-VTT", "MSVD", "VATEX", "YouCook2", "QVHighlight", "Charades-STA"),
        *("MomentSeeker", "Kinetics-700"),
    }
)


def not_supported(name: str, known: Sequence[str]) -> UsageError:
    """Create the error for a task of MMEB that is not in the catalogue."""
    if name in VIDEO:
        return UsageError(
            "{name} is a video task of MMEB; encoders here take images and texts.",
            advice="Use the collections mmeb-image and mmeb-visdoc.",
            name=name,
        )
    return unknown_name("MMEB task", f"{PREFIX}{name}", [other for other in known if other.startswith(PREFIX)])


def open_mmeb(spec: DatasetSpec) -> Dataset:
    """Open a task: its data under the root, or the rankings of another tool with the option ``predictions``."""
    name = str(spec.options["entry"]).removeprefix(PREFIX)
    if spec.options.get("predictions"):
        return _open_predictions(spec, Path(spec.options["predictions"]).expanduser(), name)
    folders = [path for pattern in source_of(spec)["present"] for path in sorted(Path(spec.root).glob(pattern))]
    documents = name not in [member.removeprefix(PREFIX) for member in _image_tasks()]
    for folder in filter(Path.is_dir, folders):
        if documents and all((folder / part).is_dir() for part in PARTS):
            return _open_documents(spec, folder)
        if not documents and (files := hugging_face_splits(folder)):
            return _open_images(spec, name, _files(spec, files))
    raise DataError(
        "{folder} has no tables of {name}.",
        advice="Expected Parquet files in it, or in its folders queries, corpus and qrels for documents.",
        folder=folders[0],
        name=spec.name,
    )


def _image_tasks() -> list[str]:
    return [name for group in ("CLS", "QA", "RET", "GD") for name in group_members(f"image {group}")]


def _files(spec: DatasetSpec, splits: Mapping[str, list[Path]]) -> list[Path]:
    """Return the files of the split; VisRAG calls its only split train."""
    if spec.split not in splits and len(splits) > 1:
        raise no_such_split(spec.name, spec.split, list(splits))
    return splits.get(spec.split) or next(iter(splits.values()))


@dataclass
class _Items:
    """Queries and candidates of an image task; a candidate is encoded as in the first row that has it."""

    queries: list[Document] = field(default_factory=list)
    documents: dict[str, Document] = field(default_factory=dict)
    candidates: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, query: Document, candidates: Sequence[Document]) -> None:
        """Add a row; a candidate that it repeats counts once."""
        self.queries.append(query)
        self.candidates[query.id] = tuple(dict.fromkeys(one.id for one in candidates))
        for one in candidates:
            self.documents.setdefault(one.id, one)

    def collection(self, relevance: Mapping[str, Mapping[str, float]]) -> TextCollection:
        """Return queries, candidates and relevance."""
        return TextCollection(tuple(self.documents.values()), tuple(self.queries), relevance, self.candidates)


def _open_images(spec: DatasetSpec, name: str, files: list[Path]) -> RowDataset[Sample]:
    items = _Items()
    for number, row in enumerate(arrow_rows(files)):
        try:
            items.add(*(_v1_row if "qry" in row else _row)(name, str(number), row))
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise DataError(
                "{path}, row {n}: not a row of MMEB ({reason!r}).", path=files[0], n=number, reason=error
            ) from error
    collection = items.collection({query: {names[0]: 1.0} for query, names in items.candidates.items()})
    names = dict.fromkeys(item.image for item in (*collection.queries, *collection.documents) if item.image)
    finder = finder_of(spec)
    samples = [Sample(image, finder.find(image)) for image in names]
    finder.raise_if_missing(files[0])
    return in_memory(describe(spec, "collection", files[0].parent, collection), samples)


def _row(task: str, number: str, row: Mapping[str, Any]) -> tuple[Document, list[Document]]:
    """Convert a row of V2: candidates are texts, or images with an optional caption."""
    images, texts = [path for path in row.get("tgt_img_path") or () if path], row["tgt_text"]
    image = row["qry_img_path"] or None
    before = "\n" if image and (images or f"{PREFIX}{task}" in group_members("image QA")) else ""
    asked = row["qry_inst"].replace(PLACEHOLDER, "")
    end = "\n\n" if task == "VisDial" else "\n"
    query = _item(number, f"{before}{asked.strip() if before else asked}", row["qry_text"] or "", image, end)
    if not images:
        return query, [Document(text, text) for text in texts]
    told = row["tgt_inst"].replace(PLACEHOLDER, "")
    captioned = bool(texts[0].strip())
    end = "\n" if captioned or not image else ""
    return query, [
        _item(f"{path}:{text.strip(chr(34))}" if image else path, told, text if captioned else "", path, end)
        for path, text in zip(images, texts, strict=True)
    ]


def _v1_row(_task: str, number: str, row: Mapping[str, Any]) -> tuple[Document, list[Document]]:
    """Convert a row of V1, whose texts contain their instruction."""
    paths = row["tgt_img_path"] or [None] * len(row["tgt_text"])
    candidates = [
        Document(f"{path}:{text}" if path else text, text.replace(PLACEHOLDER, ""), image=path or None)
        for path, text in zip(paths, row["tgt_text"], strict=True)
    ]
    return Document(number, row["qry"].replace(PLACEHOLDER, ""), image=row["qry_img_path"] or None), candidates


def _item(name: str, instruction: str, text: str, image: str | None, end: str) -> Document:
    """Return an item, with the text that contains its instruction."""
    whole = f"{instruction} {text}" if text or image is None else instruction
    meta = {INSTRUCTION: instruction.strip(), INSTRUCTED: (whole.replace(" \n", "\n") if image else whole) + end}
    return Document(name, text, meta, image)


def _open_documents(spec: DatasetSpec, folder: Path) -> ObjectDataset:
    queries, corpus, qrels = (_files(spec, hugging_face_splits(folder / part)) for part in PARTS)
    language = source_of(spec).get("language")
    relevance: dict[str, dict[str, float]] = {}
    for row in arrow_rows(qrels):
        if row["score"] > 0:
            own, page = relevance.setdefault(str(row["query-id"]), {}), str(row["corpus-id"])
            own[page] = max(own.get(page, 0.0), float(row["score"]))
    asked = [row for row in arrow_rows(queries) if language in (None, row.get("language"))]
    found = tuple(_item(str(row["query-id"]), FIND, row["query"], None, "") for row in asked)
    # The order in which VLM2Vec ranks equals: relevant pages by query, then the others.
    pages = [str(row["corpus-id"]) for row in arrow_rows(corpus, ["corpus-id"])]
    first = (page for query in found for page in relevance.get(query.id, ()))
    known = set(pages)
    order = dict.fromkeys(page for page in (*first, *pages) if page in known)
    collection = TextCollection(tuple(_item(page, UNDERSTAND, "", page, "") for page in order), found, relevance)

    def rows() -> Iterator[ObjectRow]:
        for row in arrow_rows(corpus, ["corpus-id", "image"]):
            yield ObjectRow(row["image"], None, id=str(row["corpus-id"]))

    token = files_digest([*queries, *corpus, *qrels], folder)
    return ObjectDataset(describe(spec, "collection", folder, collection), ObjectRows("images", rows), token)


def _open_predictions(spec: DatasetSpec, path: Path, name: str) -> RowDataset[Sample]:
    """Read a file of rankings: lists of names, and the right names with their relevance."""
    path = path / f"{name}{PREDICTIONS}" if path.is_dir() else path
    problems, items = Problems(path), _Items()
    relevance: dict[str, dict[str, float]] = {}
    for number, row in json_objects(path, problems):
        ranked, right = row.get("prediction"), row.get("label")
        right = right if isinstance(right, list) else [right]
        gains = row.get("rel_scores") or [1.0] * len(right)
        if not isinstance(ranked, list) or len(gains) != len(right) or None in right:
            problems.add(number, "needs prediction (a list), label, and rel_scores or null")
            continue
        query = str(len(items.queries))
        items.add(Document(query, ""), [Document(text, "") for text in map(str, ranked)])
        relevance[query] = {str(text): float(gain) for text, gain in zip(right, gains, strict=True)}
    problems.raise_if_any()
    samples = [Sample(query.id, None) for query in items.queries]
    return in_memory(describe(spec, "collection", path, items.collection(relevance)), samples)
