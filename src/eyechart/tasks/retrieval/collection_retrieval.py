"""Retrieval in a collection whose queries and documents are texts, images or both, with graded relevance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError
from eyechart.metrics.vectors import Vectors, unit
from eyechart.tasks.base import Material, Prediction
from eyechart.tasks.encoded import EncodedImages, encode_images, encode_texts
from eyechart.tasks.labelled import wants_full
from eyechart.tasks.retrieval import ranked
from eyechart.types import Document, Metric, Notice, Outcome, TextCollection

DEFAULT_METRICS = ("ndcg_at_10", "mrr_at_10", "map_at_10")


@dataclass(frozen=True)
class CollectionPrediction(Prediction):
    """Vectors of queries and documents, in the order of the collection."""

    collection: TextCollection
    """What of the dataset's collection could be used."""
    queries: Vectors
    documents: Vectors
    lost: int
    """Queries and documents whose image could not be used."""
    notices: tuple[Notice, ...]

    def only(self, keep: NDArray[np.int64]) -> NoReturn:  # noqa: ARG002 - the same for all
        """Refuse: images are shared by queries and documents, so their columns do not group queries."""
        raise DataError("a collection has no groups of samples")


def predict(material: Material) -> CollectionPrediction:
    """Embed all texts and images; an item with both is the sum of its two unit vectors (as in MIEB)."""
    collection = material.info.collection
    if collection is None:
        raise DataError(f"{material.info.name} is described as a collection but has none.")
    images = encode_images(material)
    usable = {entry.id for entry in images.entries}
    _check_whole(material, collection)
    kept = replace(
        collection,
        queries=tuple(query for query in collection.queries if query.image in {None, *usable}),
        documents=tuple(item for item in collection.documents if item.image in {None, *usable}),
    )
    queries, about_queries = _vectors(kept.queries, images, material)
    documents, about_documents = _vectors(kept.documents, images, material)
    return CollectionPrediction(
        info=material.info,
        entries=images.entries,
        failures=images.failures,
        collection=kept,
        queries=queries,
        documents=documents,
        notices=(*images.notices, *about_queries, *about_documents),
        lost=sum(len(getattr(collection, part)) - len(getattr(kept, part)) for part in ("queries", "documents")),
    )


def _check_whole(material: Material, collection: TextCollection) -> None:
    """Refuse a manifest that ``--limit`` cut: a smaller gallery would give other numbers."""
    listed = {entry.id for entry in material.manifest.entries} | {failure.id for failure in material.manifest.failures}
    for item in (*collection.queries, *collection.documents):
        if item.image is not None and item.image not in listed:
            raise DataError(f"The image of {item.id} is not read.", advice="--limit does not work with collections.")


def _vectors(
    items: Sequence[Document], images: EncodedImages, material: Material
) -> tuple[Vectors, tuple[Notice, ...]]:
    place = {entry.id: row for row, entry in enumerate(images.entries)}
    spoken = [i for i, item in enumerate(items) if item.text]
    shown = [i for i, item in enumerate(items) if item.image is not None]
    texts, notices = encode_texts(material, [items[i].text for i in spoken]) if spoken else (images.vectors, ())
    out = np.zeros((len(items), texts.shape[1]), np.float32)
    if spoken:
        out[spoken] += texts
    if shown:
        out[shown] += images.vectors[[place[str(items[i].image)] for i in shown]]
    both = np.intersect1d(spoken, shown).astype(np.int64)
    out[both] = unit(out[both])
    return out, notices


def score(prediction: CollectionPrediction, settings: Mapping[str, Any]) -> Outcome:
    """Rank all documents for every query.

    The metrics are those of text retrieval: nDCG, MRR and MAP at 10, hit rate and (true) recall at each k of
    ``recall_k``; with ``--metrics full`` all of them at every k.
    """
    collection = prediction.collection
    judged = ranked.judged_queries(collection)
    counted = {query.id for query in judged.queries}
    chosen = [i for i, query in enumerate(collection.queries) if query.id in counted]
    ranking = ranked.rank_all(judged, prediction.queries[chosen], prediction.documents)
    ks = sorted({*settings["recall_k"], 10, *(ranked.KS if wants_full(settings) else ())})
    outcome = ranked.score(judged, ranking, collection, ks)
    kinds = [_kind(document) for document in collection.documents]
    found = Counter(kinds[row[0]] for row in ranking.top)
    notices = [*prediction.notices, *outcome.notices]
    if prediction.lost:
        text = f"{prediction.lost} queries and documents are left out, as their image could not be used."
        notices.append(Notice("unusable_items", prediction.lost, text))
    return replace(
        outcome,
        metrics=_shown(outcome.metrics, settings),
        records=[
            {**record, "query": _kind(query)} for record, query in zip(outcome.records, judged.queries, strict=True)
        ],
        notices=tuple(notices),
        details={**outcome.details, "gallery": dict(Counter(kinds)), "found_first": dict(found)},
    )


def _kind(item: Document) -> str:
    shown, spoken = item.image is not None, bool(item.text)
    return "image+text" if shown and spoken else "image" if shown else "text"


def _shown(metrics: Mapping[str, Metric], settings: Mapping[str, Any]) -> dict[str, Metric]:
    if wants_full(settings):
        return dict(metrics)
    wanted = [*DEFAULT_METRICS, *(f"{name}_at_{k}" for name in ("hit_rate", "recall") for k in settings["recall_k"])]
    return {name: metrics[name] for name in wanted}
