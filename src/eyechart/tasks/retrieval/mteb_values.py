"""What MTEB says of a ranking: its rule for ties, its names, its rounding, and how well confidence tells good answers.

MTEB's evaluator is trec_eval: of equal scores the greater document id stands first, whether it is right or wrong, which
helps and hurts at random. Our own metrics put the right document last; MTEB's stand beside them, so that both can be
compared with what others publish.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eyechart.metrics.calibration import abstention_gain
from eyechart.metrics.ranking import METRICS, NOT_FOUND, RelevantRanks
from eyechart.metrics.retrieval import top_items
from eyechart.metrics.vectors import Floats, Ints, Vectors
from eyechart.tasks.retrieval.ranked import KS, score_lists
from eyechart.types import Document, TextCollection

DEPTH = max(KS)
"""MTEB looks at so many documents for each query."""
BLOCK = 512
"""Queries that are ranked at a time."""
ROUNDED = frozenset({"ndcg", "map", "recall", "precision", "hit_rate"})
DIGITS = 5
WITHOUT_CONFIDENCE = "hit_rate"
SPREADS = ("max", "std", "diff1")
"""Its three measures of confidence: the best score, the spread of all, how far the best is ahead."""


@dataclass(frozen=True)
class MtebValues:
    """MTEB's values for each query that it counts: all that relevance names, if only to say that nothing fits."""

    ids: tuple[str, ...]
    values: Mapping[tuple[str, int], Floats]
    confidence: Mapping[str, Floats]

    def only(self, ids: Collection[str]) -> MtebValues:
        """Return the values of some queries."""
        keep = [i for i, name in enumerate(self.ids) if name in ids]
        return MtebValues(
            tuple(self.ids[i] for i in keep),
            {key: column[keep] for key, column in self.values.items()},
            {key: column[keep] for key, column in self.confidence.items()},
        )


def counted_queries(collection: TextCollection, ids: Collection[str]) -> list[Document]:
    """Return the queries that MTEB counts."""
    return [query for query in collection.queries if query.id in ids and collection.relevance.get(query.id)]


def of_vectors(
    collection: TextCollection, asked: Sequence[Document], queries: Vectors, documents: Vectors
) -> MtebValues:
    """Rank the whole collection by dot product, a block of queries at a time."""
    blocks = []
    for start in range(0, len(asked), BLOCK):
        part = slice(start, start + BLOCK)
        lists = top_items(queries[part], documents, DEPTH)
        blocks.append(of_lists(collection, asked[part], lists, score_lists(lists, queries[part], documents)))
    return _joined(blocks)


def of_lists(collection: TextCollection, asked: Sequence[Document], lists: Ints, scores: Floats) -> MtebValues:
    """Rank lists of documents by their scores in float32, which is what trec_eval compares; -1 is no document."""
    names = np.array([document.id for document in collection.documents])
    # By text, greatest first: numpy's texts are compared by code points, as trec_eval's bytes are.
    by_name = np.empty(len(names), np.int64)
    by_name[np.argsort(names, kind="stable")] = np.arange(len(names))
    single = scores.astype(np.float32)
    order = np.lexsort((-by_name[lists], -single), axis=1)[:, :DEPTH]
    lists, single = np.take_along_axis(lists, order, axis=1), np.take_along_axis(single, order, axis=1)
    ranks = _ranks(collection, asked, lists)
    values = {(name, k): _per_query(ranks, len(asked), name, k) for name in METRICS for k in KS}
    sure = np.array([_confidence(row[items >= 0]) for row, items in zip(single, lists, strict=True)])
    confidence = {name: sure[:, i] for i, name in enumerate(SPREADS)}
    return MtebValues(tuple(query.id for query in asked), values, confidence)


def _ranks(collection: TextCollection, asked: Sequence[Document], lists: Ints) -> tuple[Ints, RelevantRanks | None]:
    """Return which queries have something relevant, and where it stands."""
    position = {document.id: i for i, document in enumerate(collection.documents)}
    rows: list[int] = []
    ranks: list[int] = []
    gains: list[float] = []
    having: list[int] = []
    for place, query in enumerate(asked):
        relevant = {name: gain for name, gain in collection.relevance[query.id].items() if gain > 0}
        if relevant:
            at = {int(item): rank for rank, item in enumerate(lists[place], 1) if item >= 0}
            rows += [len(having)] * len(relevant)
            ranks += [at.get(position.get(name, -1), NOT_FOUND) for name in relevant]
            gains += list(relevant.values())
            having.append(place)
    if not having:
        return np.array([], np.int64), None
    nobody = np.zeros(len(having), bool)
    found = RelevantRanks.from_rows(np.array(rows), np.array(ranks, np.int64), np.array(gains, np.float64), nobody)
    return np.array(having), found


def _per_query(ranks: tuple[Ints, RelevantRanks | None], count: int, name: str, k: int) -> Floats:
    having, found = ranks
    out = np.zeros(count)
    if found is not None:
        out[having] = METRICS[name](found, k)
    return out


def _confidence(scores: Vectors) -> tuple[float, float, float]:
    if not len(scores):
        return 0.0, 0.0, 0.0
    exact = scores.astype(np.float64)
    return float(exact[0]), float(exact.std()), float(exact[0] - exact[1]) if len(exact) > 1 else 0.0


def _joined(blocks: Sequence[MtebValues]) -> MtebValues:
    first = blocks[0]
    return MtebValues(
        tuple(name for block in blocks for name in block.ids),
        {key: np.concatenate([block.values[key] for block in blocks]) for key in first.values},
        {key: np.concatenate([block.confidence[key] for block in blocks]) for key in first.confidence},
    )


def mteb_scores(found: MtebValues, main: str) -> dict[str, Any]:
    """Return what MTEB writes for one split: its keys, rounded where it rounds; ``main`` is its ``main_score``."""
    means = {
        f"{name}_at_{k}": round(float(column.mean()), DIGITS) if name in ROUNDED else float(column.mean())
        for (name, k), column in found.values.items()
    }
    gains = {
        f"nauc_{name}_at_{k}_{spread}": abstention_gain(sure, column)
        for (name, k), column in found.values.items()
        if name != WITHOUT_CONFIDENCE
        for spread, sure in found.confidence.items()
    }
    return {**means, "accuracy": means["recall_at_1"], **gains, "main_score": means[main], "hf_subset": "default"}
