"""Queries with the ranks of their relevant documents, the scores of that, and the same as MTEB computes it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from eyechart import stats
from eyechart.errors import DataError
from eyechart.metrics.classification import abstention_gain
from eyechart.metrics.maxsim import LOWEST
from eyechart.metrics.retrieval import (
    METRICS,
    NOT_FOUND,
    RelevantRanks,
    rank_in_lists,
    rank_relevant,
    rounded_scores,
    top_items,
)
from eyechart.metrics.retrieval_chance import mean_chance
from eyechart.metrics.search import Positives, dots, score_lists
from eyechart.metrics.vectors import AnyVectors, Floats, Ints, zero_rows
from eyechart.tasks.base import counted, make_metric
from eyechart.types import Document, MeanOf, Outcome, TextCollection

PRIMARY, PRIMARY_OF_CANDIDATES = "ndcg_at_10", "map_at_1000"
"""MTEB's main scores for retrieval and for reranking given candidates."""
KS = (1, 3, 5, 10, 20, 100, 1000)
SHOWN = 5
"""Number of retrieved documents listed in a record."""
TIES = "{n} queries tie with a wrong answer; ties count against the right one."


class JudgedQuery(NamedTuple):
    """A scored query with its relevant documents."""

    query: Document
    positives: Mapping[int, float]
    """Positions of its relevant documents, and their relevance."""
    absent: tuple[float, ...]
    """Relevance of the documents missing from the corpus."""
    searched: int
    """Number of documents searched: all, or its candidates."""


@dataclass(frozen=True)
class Rankings:
    """The ranking of each query: its best documents, best first, and the ranks of the relevant ones."""

    judged: Sequence[JudgedQuery]
    relevant: RelevantRanks
    top: Ints
    """Shape (queries, SHOWN): positions of documents, -1 for none."""
    scores: tuple[Floats, Floats] | None
    """Scores of the top documents, and of each query's best relevant one; None for rankings without scores."""

    def only(self, keep: Ints) -> Rankings:
        """Return the rankings of the queries at the ascending positions ``keep``."""
        relevant = self.relevant
        query = np.repeat(np.arange(len(relevant.tied)), relevant.counts)
        rows = np.isin(query, keep)
        place = np.searchsorted(keep, query[rows])
        ranks, gains = relevant.ranks[rows], relevant.gains[rows]
        found = RelevantRanks.from_rows(place, ranks, gains, relevant.tied[keep])
        scores = self.scores and (self.scores[0][keep], self.scores[1][keep])
        return Rankings([self.judged[i] for i in keep], found, self.top[keep], scores)


def judged_queries(
    collection: TextCollection, ids: Collection[str] | None = None
) -> tuple[list[JudgedQuery], tuple[str, ...]]:
    """Collect the scored queries, optionally only those with the given ids, and the ids of those left out."""
    everywhere = {document.id: i for i, document in enumerate(collection.documents)}
    judged: list[JudgedQuery] = []
    chosen = [query for query in collection.queries if ids is None or query.id in ids]
    for query in chosen:
        relevant = {name: gain for name, gain in collection.relevance.get(query.id, {}).items() if gain > 0}
        if relevant:
            named = collection.candidates.get(query.id)
            position = everywhere if named is None else {name: everywhere[name] for name in named}
            found = {position[name]: gain for name, gain in relevant.items() if name in position}
            absent = tuple(gain for name, gain in relevant.items() if name not in position)
            judged.append(JudgedQuery(query, found, absent, len(position)))
    if not judged:
        raise DataError("None of the {n} queries has a relevant document.", advice="Check the qrels.", n=len(chosen))
    kept = {one.query.id for one in judged}
    return judged, tuple(query.id for query in chosen if query.id not in kept)


def rank_all(judged: Sequence[JudgedQuery], queries: AnyVectors, documents: AnyVectors) -> Rankings:
    """Rank the whole corpus by dot product or MaxSim, including a document with the query's own id.

    Vectors are of unit length if the model compares by cosine.
    """
    positives, gains, chosen = _flat(judged)
    relevant = rank_relevant(queries[chosen], documents, positives, gains) if len(chosen) else None
    items, own = top_items(queries, documents, SHOWN), np.full(len(judged), -np.inf)
    if len(chosen):
        scores = dots(queries, documents, chosen[positives.queries()], positives.items)
        own[chosen] = np.maximum.reduceat(scores, positives.starts)
    found = score_lists(items, queries, documents), own
    return Rankings(judged, _with_absent(judged, relevant, chosen), items, found)


def rank_lists(
    judged: Sequence[JudgedQuery], items: Ints, scores: Floats, vectors: tuple[AnyVectors, AnyVectors] | None = None
) -> Rankings:
    """Rank shortlists by scores, those of a reranker or of vectors; other documents count as not retrieved.

    Of the vectors of queries and documents, zero ones never make a document right.
    """
    positives, gains, chosen = _flat(judged)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :SHOWN]
    right = np.array([np.isin(row, list(one.positives)) for row, one in zip(items, judged, strict=True)])
    found = np.take_along_axis(scores, order, axis=1), np.where(right, scores, -np.inf).max(axis=1, initial=-np.inf)
    if vectors is not None:
        blank = zero_rows(vectors[0])[:, None] | zero_rows(vectors[1])[items]
        scores = np.where(right & blank, LOWEST, scores)
    relevant = rank_in_lists(items[chosen], scores[chosen], positives, gains) if len(chosen) else None
    return Rankings(judged, _with_absent(judged, relevant, chosen), np.take_along_axis(items, order, axis=1), found)


def _flat(judged: Sequence[JudgedQuery]) -> tuple[Positives, Floats, Ints]:
    """Concatenate the relevant documents of the queries that have one in the corpus; also return these queries."""
    chosen = np.array([i for i, one in enumerate(judged) if one.positives], np.int64)
    found = [judged[i].positives for i in chosen]
    items = np.array([item for one in found for item in one], np.int64)
    gains = np.array([gain for one in found for gain in one.values()], np.float64)
    starts = np.concatenate([[0], np.cumsum([len(one) for one in found])[:-1]]).astype(np.int64)
    return Positives(items, starts[: len(found)]), gains, chosen


def _with_absent(judged: Sequence[JudgedQuery], relevant: RelevantRanks | None, chosen: Ints) -> RelevantRanks:
    """Add the relevant documents that are missing from the corpus."""
    query = np.repeat(np.arange(len(judged)), [len(one.absent) for one in judged])
    gains = np.array([gain for one in judged for gain in one.absent], np.float64)
    ranks = np.full(len(query), NOT_FOUND)
    tied = np.zeros(len(judged), bool)
    if relevant is not None:
        query = np.concatenate([np.repeat(chosen, relevant.counts), query])
        ranks = np.concatenate([relevant.ranks, ranks])
        gains = np.concatenate([relevant.gains, gains])
        tied[chosen] = relevant.tied
    return RelevantRanks.from_rows(query, ranks, gains, tied)


def candidate_lists(collection: TextCollection, queries: Sequence[Document]) -> Ints | None:
    """Return the positions of each query's candidates, one row each, padded with -1; None without candidates."""
    if not collection.candidates:
        return None
    position = {document.id: i for i, document in enumerate(collection.documents)}
    rows = [[position[name] for name in collection.candidates[query.id]] for query in queries]
    lists = np.full((len(rows), max(map(len, rows), default=0)), -1)
    for place, row in enumerate(rows):
        lists[place, : len(row)] = row
    return lists


def score(
    found: Rankings, collection: TextCollection, left_out: int, ks: Sequence[int] = KS, main: str = PRIMARY
) -> Outcome:
    """Compute ndcg, map, mrr, recall, precision and hit_rate at each k, under MTEB's names: ``ndcg_at_10``.

    Conventions: `eyechart.metrics.retrieval`. Queries with the same relevant documents (the texts of one image) form
    one independent unit for the intervals; with candidates, which may be classes, those about one image. ``left_out``
    queries have no relevant document; ``main`` is the primary metric.
    """
    judged = found.judged
    values = {(name, k): metric(found.relevant, k) for name, metric in METRICS.items() for k in ks}
    # Queries without a document in the corpus are one unit each.
    keys: dict[object, int] = {}
    by_image = bool(collection.candidates)
    unit_of = [(by_image and one.query.image) or tuple(sorted(one.positives)) or i for i, one in enumerate(judged)]
    units = np.array([keys.setdefault(unit, len(keys)) for unit in unit_of])
    sizes = [(one.searched, len(one.positives), len(one.positives) + len(one.absent)) for one in judged]
    metrics = {}
    for (measure, k), per_query in values.items():
        name = f"{measure}_at_{k}"
        metrics[name] = make_metric(
            float(per_query.mean()),
            stats.mean_interval(per_query, units),
            chance=mean_chance(measure, sizes, k),
            n=int(units.max()) + 1,
            primary=name == main,
            mean_of=MeanOf(name, cluster="unit"),
        )
    irrelevant = "{n} queries have no relevant document and {n:is|are} left out."
    absent = "{n} relevant documents are not in the corpus and {n:counts|count} as not found."
    return Outcome(
        metrics=metrics,
        records=list(_records(found, collection, values, units)),
        notices=[
            *counted("queries_without_relevant", left_out, irrelevant),
            *counted("absent_documents", sum(len(one.absent) for one in judged), absent),
            *counted("ties", int(found.relevant.tied.sum()), TIES),
        ],
        details={"documents": len(collection.documents), "queries": len(judged), "main_score": main},
    )


def _records(
    found: Rankings, collection: TextCollection, values: Mapping[tuple[str, int], Floats], units: Ints
) -> Iterator[dict[str, Any]]:
    names = [document.id for document in collection.documents]
    best = found.relevant.best
    for i, (query, positives, *_) in enumerate(found.judged):
        record: dict[str, Any] = {
            "id": query.id,
            "query": "text",
            "text": query.text,
            **{key: query.meta[key] for key in ("image_id",) if key in query.meta},
            "unit": int(units[i]),
            "rank": int(best[i]) if best[i] != NOT_FOUND else None,
            "relevant": [names[item] for item in positives],
            "tied": bool(found.relevant.tied[i]),
            **{f"{measure}_at_{k}": round(float(column[i]), 12) for (measure, k), column in values.items()},
            "top": [names[item] for item in found.top[i] if item >= 0],
        }
        if found.scores is not None:
            top, own = (rounded_scores(part) for part in (found.scores[0][i][found.top[i] >= 0], found.scores[1][[i]]))
            named = {"similarity": top[0] if top else None, "relevant_similarity": own[0]}
            record |= {"scores": top} | {name: value for name, value in named.items() if value is not None}
        yield record


# MTEB's metrics of a ranking: its tie rule, names, rounding and abstention scores.
#
# MTEB evaluates with trec_eval, which orders equal scores by descending document id, relevant or not. Our own metrics
# rank the relevant document last among ties; MTEB's are reported next to them, so that both can be compared with
# published numbers.


DEPTH = max(KS)
"""Number of documents MTEB considers per query."""
BLOCK = 512
"""Queries ranked at a time."""
ROUNDED = frozenset({"ndcg", "map", "recall", "precision", "hit_rate"})
DIGITS = 5
WITHOUT_CONFIDENCE = "hit_rate"
SPREADS = ("max", "std", "diff1")
"""MTEB's three confidence measures: maximum score, standard deviation, difference of the two best."""


@dataclass(frozen=True)
class MtebValues:
    """MTEB's values for each query it counts: all in the qrels, including those without a relevant document."""

    ids: tuple[str, ...]
    values: Mapping[tuple[str, int], Floats]
    confidence: Floats
    """Shape (queries, SPREADS)."""

    def only(self, ids: Collection[str]) -> MtebValues:
        """Return the values of the selected queries."""
        keep = [i for i, name in enumerate(self.ids) if name in ids]
        return MtebValues(
            tuple(self.ids[i] for i in keep),
            {key: column[keep] for key, column in self.values.items()},
            self.confidence[keep],
        )


def of_vectors(
    collection: TextCollection, asked: Sequence[Document], queries: AnyVectors, documents: AnyVectors
) -> MtebValues:
    """Rank the whole collection by dot product or MaxSim, a block of queries at a time."""
    blocks = []
    for start in range(0, len(asked), BLOCK):
        part = slice(start, start + BLOCK)
        lists = top_items(queries[part], documents, DEPTH)
        blocks.append(of_lists(collection, asked[part], lists, score_lists(lists, queries[part], documents)))
    return MtebValues(
        tuple(query.id for query in asked),
        {key: np.concatenate([block.values[key] for block in blocks]) for key in blocks[0].values},
        np.concatenate([block.confidence for block in blocks]),
    )


def of_lists(collection: TextCollection, asked: Sequence[Document], lists: Ints, scores: Floats) -> MtebValues:
    """Rank lists of documents by their float32 scores, as trec_eval does; -1 marks an empty slot."""
    names = np.array([document.id for document in collection.documents])
    # By id, descending: numpy compares texts by code point, which equals trec_eval's byte order.
    by_name = np.empty(len(names), np.int64)
    by_name[np.argsort(names, kind="stable")] = np.arange(len(names))
    single = scores.astype(np.float32)
    order = np.lexsort((-by_name[lists], -single), axis=1)[:, :DEPTH]
    lists, single = np.take_along_axis(lists, order, axis=1), np.take_along_axis(single, order, axis=1)
    having, found = listed_ranks(collection, asked, lists)
    values = {(name, k): np.zeros(len(asked)) for name in METRICS for k in KS}
    if found is not None:
        for (name, k), column in values.items():
            column[having] = METRICS[name](found, k)
    sure = np.zeros((len(asked), len(SPREADS)))
    for place, (row, items) in enumerate(zip(single, lists, strict=True)):
        exact = row[items >= 0].astype(np.float64)
        if len(exact):
            sure[place] = exact[0], exact.std(), exact[0] - exact[1] if len(exact) > 1 else 0.0
    return MtebValues(tuple(query.id for query in asked), values, sure)


def listed_ranks(
    collection: TextCollection, asked: Sequence[Document], lists: Ints
) -> tuple[list[int], RelevantRanks | None]:
    """Return which queries have a relevant document, and its ranks in lists that are ordered already."""
    position = {document.id: i for i, document in enumerate(collection.documents)}
    having: list[int] = []
    found: list[tuple[int, int, float]] = []
    for place, query in enumerate(asked):
        relevant = {name: gain for name, gain in collection.relevance[query.id].items() if gain > 0}
        if relevant:
            at = {int(item): rank for rank, item in enumerate(lists[place], 1) if item >= 0}
            found += [(len(having), at.get(position.get(name, -1), NOT_FOUND), gain) for name, gain in relevant.items()]
            having.append(place)
    if not having:
        return having, None
    rows, ranks, gains = map(np.array, zip(*found, strict=True))
    return having, RelevantRanks.from_rows(rows, ranks, gains.astype(np.float64), np.zeros(len(having), bool))


def mteb_scores(found: MtebValues, main: str) -> dict[str, Any]:
    """Return MTEB's result for one split: its keys, rounded where it rounds; ``main`` is its ``main_score``."""
    means = {
        f"{name}_at_{k}": round(float(column.mean()), DIGITS) if name in ROUNDED else float(column.mean())
        for (name, k), column in found.values.items()
    }
    gains = {
        f"nauc_{name}_at_{k}_{spread}": abstention_gain(sure, column)
        for (name, k), column in found.values.items()
        if name != WITHOUT_CONFIDENCE
        for spread, sure in zip(SPREADS, found.confidence.T, strict=True)
    }
    return {**means, "accuracy": means["recall_at_1"], **gains, "main_score": means[main], "hf_subset": "default"}
