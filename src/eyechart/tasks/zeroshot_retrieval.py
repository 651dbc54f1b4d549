"""Zero-shot retrieval between images and captions, or in a collection of texts and images with graded relevance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError
from eyechart.manifest import Failure
from eyechart.metrics.vectors import Ints, Vectors
from eyechart.settings.tasks import MEAN_RECALL, PromptedSettings, ZeroshotRetrievalSettings
from eyechart.tasks import ranked_queries
from eyechart.tasks.base import (
    ROLES,
    Prediction,
    Task,
    TaskContext,
    counted,
    drop_constant_embeddings,
    encode_images,
    encode_pairs,
    encode_texts,
    need_samples,
    prompts_of,
)
from eyechart.tasks.caption_search import (
    DISTINCT,
    Directions,
    RetrievalPrediction,
    full_metrics,
    mean_recall,
    recalls,
    search,
    search_records,
    shared_pairs,
    with_repeats,
)
from eyechart.tasks.ranked_queries import TIES
from eyechart.types import DatasetInfo, Document, Input, Notice, Outcome, TextCollection

DEFAULT_METRICS = ("ndcg_at_10", "mrr_at_10", "map_at_10")


@dataclass(frozen=True)
class CollectionPrediction(Prediction):
    """Vectors of queries and documents, in the order of the collection."""

    collection: TextCollection
    """The usable part of the dataset's collection."""
    queries: Vectors
    documents: Vectors
    lost: int
    """Number of queries and documents whose image failed."""

    def only(self, keep: NDArray[np.int64]) -> NoReturn:  # noqa: ARG002 - the same for all
        """Raise: queries and documents share images, so image metadata cannot group queries."""
        raise DataError("a collection cannot be grouped")


def predict_collection(context: TaskContext, settings: PromptedSettings) -> CollectionPrediction:
    """Embed all texts and images by role.

    An item with both is one joint input, or the sum of its two unit vectors (as in MIEB) if the model takes none.
    """
    collection, card = context.info.collection, context.encoder.card
    if collection is None:
        raise DataError("{name} is declared as a collection but has none.", name=context.info.name)
    if card.prompting == "prefix" and "image+text" not in card.inputs and "image" in card.inputs:
        context.encoder.images(context.listed)  # embedded while the dataset is read
    manifest, prompts = context.manifest, prompts_of(context, settings)
    listed = {entry.id for entry in manifest.entries} | {failure.id for failure in manifest.failures}
    for item in (*collection.queries, *collection.documents):
        if item.image is not None and item.image not in listed:  # a smaller gallery would give different numbers
            raise DataError(
                "The image of {id} was not read.", advice="{--limit} is not supported for collections.", id=item.id
            )
    sides = [
        _encode_items(items, context, role, prompts.get(role, ""))
        for role, items in zip(ROLES, (collection.queries, collection.documents), strict=True)
    ]
    lost = {failure.id: failure for side in sides for failure in side.failures}
    kept = [[i for i, item in enumerate(side.items) if item.image not in lost] for side in sides]
    queries, documents = (tuple(side.items[i] for i in rows) for side, rows in zip(sides, kept, strict=True))
    usable = replace(collection, queries=queries, documents=documents)
    return CollectionPrediction(
        info=context.info,
        entries=tuple(entry for entry in manifest.entries if entry.id not in lost),
        failures=tuple(lost.values()),
        collection=usable,
        queries=sides[0].vectors[kept[0]],
        documents=sides[1].vectors[kept[1]],
        notices=tuple(dict.fromkeys(notice for side in sides for notice in side.notices)),
        lost=sum(len(getattr(collection, part)) - len(getattr(usable, part)) for part in ("queries", "documents")),
    )


class _Side(NamedTuple):
    """The queries or the documents whose image was read, with their vectors: zero if the image failed."""

    items: Sequence[Document]
    vectors: Vectors
    failures: Sequence[Failure]
    notices: Sequence[Notice]


def _encode_items(listed: Sequence[Document], context: TaskContext, role: str, prompt: str) -> _Side:
    encoder = context.encoder
    place = {entry.id: row for row, entry in enumerate(context.manifest.entries)}
    items = [item for item in listed if item.image is None or item.image in place]
    joint = "image+text" in encoder.card.inputs
    kinds = [_kind(item) for item in items]
    read = [i for i, kind in enumerate(kinds) if kind == "text" or (kind == "image+text" and not joint)]
    seen = [i for i, kind in enumerate(kinds) if kind == "image" or (kind == "image+text" and not joint)]
    fused = [i for i, kind in enumerate(kinds) if kind == "image+text" and joint]
    parts: list[tuple[Ints, Vectors]] = []
    failures: list[Failure] = []
    notices: list[Notice] = []
    if read:
        texts, about = encode_texts(context, [items[i].text for i in read], role=role, prompt=prompt)
        parts.append((np.array(read), texts))
        notices += about
    for rows in filter(len, (np.array(seen, np.int64), np.array(fused, np.int64))):
        shown = context.manifest.only(np.array([place[str(items[i].image)] for i in rows]))
        words = [items[i].text for i in rows] if rows[0] in fused else []
        embedded = (
            encoder.joint(shown, words, role=role, prompt=prompt)
            if words
            else encoder.images(shown, role=role, prompt=prompt)
        )
        contents = zip(map(bytes, shown.digests), words or [""] * len(rows), strict=True)
        vectors, about = drop_constant_embeddings(encoder.unit(embedded.vectors), "images", contents)
        if len(vectors):
            parts.append((rows[embedded.kept], vectors))
        failures += embedded.failures
        notices += about
    out = np.zeros((len(items), max((vectors.shape[1] for _, vectors in parts), default=0)), np.float32)
    for rows, vectors in parts:
        out[rows] += vectors
    both = np.intersect1d(read, seen).astype(np.int64)
    out[both] = encoder.unit(out[both])
    return _Side(items, out, failures, notices)


def score_collection(prediction: CollectionPrediction, settings: ZeroshotRetrievalSettings) -> Outcome:
    """Rank all documents for every query.

    The metrics are those of text retrieval: nDCG, MRR and MAP at 10, hit rate and (true) recall at each k of
    ``recall_k``; with ``--metrics full`` all of them at every k.
    """
    collection = prediction.collection
    judged, left_out = ranked_queries.judged_queries(collection)
    ids = {one.query.id for one in judged}
    chosen = [i for i, query in enumerate(collection.queries) if query.id in ids]
    ranking = ranked_queries.rank_all(judged, prediction.queries[chosen], prediction.documents)
    ks = sorted({*settings.recall_k, 10, *(ranked_queries.KS if settings.metrics == "full" else ())})
    outcome = ranked_queries.score(ranking, collection, len(left_out), ks)
    kinds = [_kind(document) for document in collection.documents]
    found = Counter(kinds[row[0]] for row in ranking.top)
    metrics = outcome.metrics
    if settings.metrics != "full":
        wanted = [*DEFAULT_METRICS, *(f"{name}_at_{k}" for name in ("hit_rate", "recall") for k in settings.recall_k)]
        metrics = {name: metrics[name] for name in wanted}
    unusable = "{n} queries and documents are left out because their image could not be used."
    return replace(
        outcome,
        metrics=metrics,
        records=[{**record, "query": _kind(one.query)} for record, one in zip(outcome.records, judged, strict=True)],
        notices=(*prediction.notices, *outcome.notices, *counted("unusable_items", prediction.lost, unusable)),
        details={**outcome.details, "gallery": dict(Counter(kinds)), "found_first": dict(found)},
    )


def _kind(item: Document) -> str:
    shown, spoken = item.image is not None, bool(item.text)
    return "image+text" if shown and spoken else "image" if shown else "text"


class ZeroshotRetrieval(Task):
    """image_retrieval_recall@k (caption to image) and text_retrieval_recall@k (image to caption).

    Both are hit rates, as is usual in the CLIP literature: at least one right answer among the first k. If captions
    repeat, ``..._distinct_texts`` count equal captions as one; with ``image_queries.jsonl`` any image that has the text
    is right. ``--metrics full`` adds, for both directions: true recall (``true_recall@k``: the share of right answers
    among the first k), MRR, nDCG and MAP at 10, the median rank, and mean_recall@k over both directions. A collection
    (texts, images or both on either side, graded relevance) gets the metrics of text retrieval.
    """

    name = "zeroshot_retrieval"
    version = 3
    kinds = frozenset({"retrieval", "collection"})
    inputs = ("image", "text")
    measures = "retrieval"
    records = "ranking"
    Settings = ZeroshotRetrievalSettings

    def inputs_of(self, info: DatasetInfo, settings: ZeroshotRetrievalSettings) -> tuple[Input, ...]:
        """Return images and texts; for a collection, those that occur in it."""
        if info.collection is None:
            return super().inputs_of(info, settings)
        kinds = {_kind(item) for item in (*info.collection.queries, *info.collection.documents)}
        return tuple(name for name in self.inputs if kinds & {name, "image+text"})

    def predict(self, context: TaskContext, settings: ZeroshotRetrievalSettings) -> Prediction:
        """Embed images and texts."""
        if context.info.kind == "collection":
            return predict_collection(context, settings)
        images = encode_images(context, prompt=settings.query_prompt)
        pairs = encode_pairs(context, images, settings.document_prompt)
        return RetrievalPrediction(**pairs, asked=np.arange(len(images.entries)))

    def score(self, prediction: Prediction, settings: ZeroshotRetrievalSettings) -> Outcome:
        """Rank in both directions and count hits at each k."""
        need_samples(prediction)
        if isinstance(prediction, CollectionPrediction):
            return score_collection(prediction, settings)
        return _score_captions(cast("RetrievalPrediction", prediction), settings)


def _score_captions(prediction: RetrievalPrediction, settings: ZeroshotRetrievalSettings) -> Outcome:
    ks, number = settings.recall_k, prediction.text_numbers
    shared = shared_pairs(prediction) if prediction.info.shared_texts else None
    found, _ = search(prediction, np.arange(len(number)), shared)
    repeats = len(number) - len(np.unique(number)) if shared is None else 0
    metrics = recalls(found, ks)
    image_fields: dict[str, Mapping[int, float]] = {}
    text_fields: dict[str, Mapping[int, float]] = {}
    if repeats:
        metrics = with_repeats(metrics, prediction, number, ks)
    full = settings.metrics == "full"
    named = MEAN_RECALL.findall(settings.main_metric or "")  # the main metric in the catalogue may be such a mean
    for k in ks if full else map(int, named):
        metrics[f"mean_recall@{k}"] = mean_recall(k, metrics)
    if full:
        for way, fields in zip(found, (text_fields, image_fields), strict=True):
            more, values = full_metrics(way, ks, repeats=bool(repeats) and way.query == "image")
            metrics |= more
            fields |= {name: dict(enumerate(np.round(column, 12).tolist())) for name, column in values.items()}
    if repeats:
        distinct, first = search(prediction, number)
        metrics |= recalls(distinct, ks, DISTINCT)
        by_text, by_image = (way.ranks.ranks.tolist() for way in distinct)
        image_fields[f"rank{DISTINCT}"] = dict(enumerate(by_image))
        places = np.searchsorted(prediction.asked_captions, first)
        text_fields[f"rank{DISTINCT}"] = dict(zip(places.tolist(), by_text, strict=True))
    return Outcome(
        metrics=metrics,
        records=search_records(prediction, found, image_fields, text_fields),
        notices=[*prediction.notices, *_notices(prediction, ks, found, repeats)],
        details={"captions": len(prediction.texts), "images": len(prediction.images)},
    )


def _notices(prediction: RetrievalPrediction, ks: Sequence[int], found: Directions, repeats: int) -> Iterator[Notice]:
    for gallery, size in (("images", len(prediction.images)), ("captions", len(prediction.texts))):
        trivial = [k for k in ks if k >= size]
        always = "With {size} {gallery}, recall@{first} is always 1: use a smaller k."
        if trivial:
            yield from counted("k_covers_gallery", len(trivial), always, size=size, gallery=gallery, first=trivial[0])
    repeated = (
        "{n} of {all} captions duplicate another one. By the published convention an image must find its own copy; the "
        "metrics that end in _distinct_texts count equal captions as one."
    )
    yield from counted("repeated_texts", repeats, repeated, all=len(prediction.texts))
    several = int((found[0].positives.counts() > 1).sum())
    shared = "{n} texts belong to several images: finding any of them counts as right."
    yield from counted("shared_texts", several, shared)
    yield from counted("ties", sum(int(way.ranks.tied.sum()) for way in found), TIES)
