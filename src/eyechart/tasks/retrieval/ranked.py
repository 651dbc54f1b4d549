"""Queries, where their relevant documents stand in what was found, and the scores of that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.errors import DataError, ModelError
from eyechart.metrics.ranking import METRICS, NOT_FOUND, RelevantRanks, rank_in_lists, rank_relevant
from eyechart.metrics.ranking_chance import CHANCE
from eyechart.metrics.retrieval import top_items
from eyechart.metrics.search import Positives, dots
from eyechart.metrics.vectors import Vectors
from eyechart.tasks.measured import measured
from eyechart.types import Document, MeanOf, Notice, Outcome, TextCollection

PRIMARY, PRIMARY_OF_CANDIDATES = "ndcg_at_10", "map_at_1000"
"""What MTEB quotes for retrieval, and for reranking: finding among given candidates."""
KS = (1, 3, 5, 10, 20, 100, 1000)
SHOWN = 5
"""How many found documents a record names."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JudgedQueries:
    """The queries that count, with what is relevant to each."""

    queries: tuple[Document, ...]
    positives: tuple[Mapping[int, float], ...]
    """For each query, the positions of its relevant documents and how relevant they are."""
    absent: tuple[tuple[float, ...], ...]
    """For each query, the relevance of documents that are not there to be found."""
    searched: tuple[int, ...]
    """For each query, among how many documents it looks: all, or its candidates."""
    left_out: tuple[str, ...] = ()
    """The ids of queries without any relevant document."""

    @property
    def answerable(self) -> Ints:
        """Return the positions of the queries that have at least one relevant document in the corpus."""
        return np.array([i for i, found in enumerate(self.positives) if found], np.int64)

    def only(self, keep: Ints) -> JudgedQueries:
        """Return the queries at the positions ``keep``."""
        return JudgedQueries(
            queries=tuple(self.queries[i] for i in keep),
            positives=tuple(self.positives[i] for i in keep),
            absent=tuple(self.absent[i] for i in keep),
            searched=tuple(self.searched[i] for i in keep),
        )


@dataclass(frozen=True)
class FoundDocuments:
    """What was found for the queries: the best items, best first, and where the relevant ones stand."""

    relevant: RelevantRanks
    top: Ints
    """Shape (queries, SHOWN): positions of documents, -1 for none."""

    def only(self, keep: Ints) -> FoundDocuments:
        """Return what was found for the queries at the positions ``keep``, which ascend."""
        relevant = self.relevant
        query = np.repeat(np.arange(len(relevant.tied)), relevant.counts)
        rows = np.isin(query, keep)
        place = np.searchsorted(keep, query[rows])
        ranks, gains = relevant.ranks[rows], relevant.gains[rows]
        return FoundDocuments(RelevantRanks.from_rows(place, ranks, gains, relevant.tied[keep]), self.top[keep])


def judged_queries(collection: TextCollection, ids: Collection[str] | None = None) -> JudgedQueries:
    """Collect the queries that count, of all or of those with some ids.

    Raises:
        DataError: If no query has a relevant document.
    """
    everywhere = {document.id: i for i, document in enumerate(collection.documents)}
    kept: list[Document] = []
    searched: list[int] = []
    positives: list[dict[int, float]] = []
    absent: list[tuple[float, ...]] = []
    left_out: list[str] = []
    chosen = [query for query in collection.queries if ids is None or query.id in ids]
    for query in chosen:
        relevant = {name: gain for name, gain in collection.relevance.get(query.id, {}).items() if gain > 0}
        if relevant:
            named = collection.candidates.get(query.id)
            position = everywhere if named is None else {name: everywhere[name] for name in named}
            kept.append(query)
            searched.append(len(position))
            positives.append({position[name]: gain for name, gain in relevant.items() if name in position})
            absent.append(tuple(gain for name, gain in relevant.items() if name not in position))
        else:
            left_out.append(query.id)
    if not kept:
        raise DataError(f"None of the {len(chosen)} queries has a relevant document.", advice="Check the qrels.")
    return JudgedQueries(tuple(kept), tuple(positives), tuple(absent), tuple(searched), tuple(left_out))


def is_cosine(similarity: str) -> bool:
    """Tell whether a model compares vectors by cosine, for which they are scaled to unit length, or by dot product.

    Raises:
        ModelError: If it compares in another way.
    """
    if similarity not in ("cosine", "dot"):
        raise ModelError(
            f"The model compares vectors by {similarity}, which is not known here.",
            advice="Models that compare by cosine or dot product can be scored.",
        )
    return similarity == "cosine"


def rank_all(judged: JudgedQueries, queries: Vectors, documents: Vectors) -> FoundDocuments:
    """Rank the whole corpus by dot product. No document is left out, whatever its id: not even the query's own.

    Args:
        judged: The queries.
        queries: Their vectors, of unit length if the model compares by cosine.
        documents: The vectors of all documents.
    """
    positives, gains, chosen = _flat(judged)
    relevant = rank_relevant(queries[chosen], documents, positives, gains) if len(chosen) else None
    items = top_items(queries, documents, SHOWN)
    return FoundDocuments(_with_absent(judged, relevant, chosen), items)


def rank_lists(judged: JudgedQueries, items: Ints, scores: Floats) -> FoundDocuments:
    """Rank shortlists by a reranker's scores; what is not on them is not found."""
    positives, gains, chosen = _flat(judged)
    relevant = rank_in_lists(items[chosen], scores[chosen], positives, gains) if len(chosen) else None
    order = np.argsort(-scores, axis=1, kind="stable")[:, :SHOWN]
    return FoundDocuments(_with_absent(judged, relevant, chosen), np.take_along_axis(items, order, axis=1))


def _flat(judged: JudgedQueries) -> tuple[Positives, Floats, Ints]:
    """Lay out the relevant documents of the answerable queries one after the other."""
    chosen = judged.answerable
    found = [judged.positives[i] for i in chosen]
    items = np.array([item for one in found for item in one], np.int64)
    gains = np.array([gain for one in found for gain in one.values()], np.float64)
    starts = np.concatenate([[0], np.cumsum([len(one) for one in found])[:-1]]).astype(np.int64)
    return Positives(items, starts[: len(found)]), gains, chosen


def _with_absent(judged: JudgedQueries, relevant: RelevantRanks | None, chosen: Ints) -> RelevantRanks:
    """Add the relevant documents that are not in the corpus."""
    query = np.repeat(np.arange(len(judged.absent)), [len(gains) for gains in judged.absent])
    gains = np.array([gain for one in judged.absent for gain in one], np.float64)
    ranks = np.full(len(query), NOT_FOUND)
    tied = np.zeros(len(judged.queries), bool)
    if relevant is not None:
        query = np.concatenate([np.repeat(chosen, relevant.counts), query])
        ranks = np.concatenate([relevant.ranks, ranks])
        gains = np.concatenate([relevant.gains, gains])
        tied[chosen] = relevant.tied
    return RelevantRanks.from_rows(query, ranks, gains, tied)


def candidate_lists(collection: TextCollection, queries: Sequence[Document]) -> Ints | None:
    """Return the positions of each query's candidates, one row each, filled up with -1; None if there are none."""
    if not collection.candidates:
        return None
    position = {document.id: i for i, document in enumerate(collection.documents)}
    rows = [[position[name] for name in collection.candidates[query.id]] for query in queries]
    lists = np.full((len(rows), max(map(len, rows), default=0)), -1)
    for place, row in enumerate(rows):
        lists[place, : len(row)] = row
    return lists


def score_lists(lists: Ints, queries: Vectors, documents: Vectors) -> Floats:
    """Score the documents of lists by dot product, in float64; what is no document gets minus infinity."""
    row, column = np.nonzero(lists >= 0)
    scores = np.full(lists.shape, -np.inf)
    scores[row, column] = dots(queries, documents, row, lists[row, column])
    return scores


def score(judged: JudgedQueries, found: FoundDocuments, collection: TextCollection, ks: Sequence[int] = KS) -> Outcome:
    """Compute ndcg, map, mrr, recall, precision and hit_rate at each k, as MTEB names them: ``ndcg_at_10``.

    Conventions: `eyechart.metrics.ranking`. Queries with the same relevant documents (the texts of one image) count
    as one independent unit for the intervals.
    """
    values = {(name, k): metric(found.relevant, k) for name, metric in METRICS.items() for k in ks}
    units = _units(judged)
    main = PRIMARY_OF_CANDIDATES if collection.candidates else PRIMARY
    metrics = {}
    for (measure, k), per_query in values.items():
        name = f"{measure}_at_{k}"
        metrics[name] = measured(
            float(per_query.mean()),
            stats.mean_interval(per_query, units),
            chance=_chance(judged, measure, k),
            n=int(units.max()) + 1,
            primary=name == main,
            mean_of=MeanOf(name, cluster="unit"),
        )
    return Outcome(
        metrics=metrics,
        records=list(_records(judged, found, collection, values, units)),
        notices=list(_notices(judged, found)),
        details={"documents": len(collection.documents), "queries": len(judged.queries), "main_score": main},
    )


def _units(judged: JudgedQueries) -> Ints:
    """Number the independent units; queries without a document in the corpus are one each."""
    keys: dict[object, int] = {}
    return np.array([keys.setdefault(tuple(sorted(found)) or i, len(keys)) for i, found in enumerate(judged.positives)])


def _chance(judged: JudgedQueries, name: str, k: int) -> float:
    sizes = [
        (gallery, len(found), len(found) + len(lost))
        for gallery, found, lost in zip(judged.searched, judged.positives, judged.absent, strict=True)
    ]
    kinds, counts = np.unique(np.array(sizes), axis=0, return_counts=True)
    values = [CHANCE[name](int(gallery), int(found), int(total), k) for gallery, found, total in kinds]
    return float(np.average(values, weights=counts))


def _records(
    judged: JudgedQueries,
    found: FoundDocuments,
    collection: TextCollection,
    values: Mapping[tuple[str, int], Floats],
    units: Ints,
) -> Iterator[dict[str, Any]]:
    names = [document.id for document in collection.documents]
    best = found.relevant.best
    for i, query in enumerate(judged.queries):
        yield {
            "id": query.id,
            "query": "text",
            "text": query.text,
            **{key: query.meta[key] for key in ("image_id",) if key in query.meta},
            "unit": int(units[i]),
            "rank": int(best[i]) if best[i] != NOT_FOUND else None,
            "relevant": [names[item] for item in judged.positives[i]],
            "tied": bool(found.relevant.tied[i]),
            **{f"{measure}_at_{k}": round(float(column[i]), 12) for (measure, k), column in values.items()},
            "top": [names[item] for item in found.top[i] if item >= 0],
        }


def _notices(judged: JudgedQueries, found: FoundDocuments) -> Iterator[Notice]:
    if judged.left_out:
        text = f"{len(judged.left_out)} queries have no relevant document and are left out."
        yield Notice("queries_without_relevant", len(judged.left_out), text)
    lost = sum(len(gains) for gains in judged.absent)
    if lost:
        text = f"{lost} relevant documents are not in the corpus; they count as not found."
        yield Notice("absent_documents", lost, text)
    tied = int(found.relevant.tied.sum())
    if tied:
        yield Notice("ties", tied, f"{tied} queries tie with a wrong answer; ties count against the right one.")
