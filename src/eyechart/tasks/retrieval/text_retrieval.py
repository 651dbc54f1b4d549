"""Text retrieval: find the documents that are relevant to a query, with an encoder and perhaps a reranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.datasets.text_collection import CANDIDATES
from eyechart.errors import DataError, ModelError, UsageError
from eyechart.metrics.retrieval import top_items
from eyechart.metrics.vectors import Floats, Ints, Vectors
from eyechart.models.rerankers.reranker import SIGMOID, Shortlist
from eyechart.tasks.base import Material, Prediction, Task
from eyechart.tasks.encoded import encode_texts
from eyechart.tasks.retrieval import ranked
from eyechart.tasks.retrieval.mteb_values import MtebValues, counted_queries, mteb_scores, of_lists, of_vectors
from eyechart.tasks.retrieval.ranked import FoundDocuments, JudgedQueries
from eyechart.tasks.retrieval.text_prompts import UNIT, given_prompts, prompt_settings, prompts_of, with_prompt
from eyechart.types import DatasetInfo, Document, Metric, ModelCard, ModelSpec, Notice, Outcome, TextCollection

RERANKER = "reranker"
TOP_K = 10
"""Documents that a reranker reads for each query."""
SAID = ("captions_by", "caption_prompt")
"""What results say of texts that a generator wrote, if it is known."""


@dataclass(frozen=True)
class TextPrediction(Prediction):
    """The queries that count, and what was found for them."""

    collection: TextCollection
    judged: JudgedQueries
    found: FoundDocuments
    mteb: MtebValues | None
    """MTEB's own values; None if relevance has fractions, which it does not take."""
    reranker: ModelCard | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Name the queries without any relevant document."""
        return self.judged.left_out

    def only(self, keep: NDArray[np.int64]) -> Self:
        """Return the prediction for the queries at the positions ``keep``."""
        judged = self.judged.only(keep)
        mteb = self.mteb and self.mteb.only({query.id for query in judged.queries})
        return replace(super().only(keep), judged=judged, found=self.found.only(keep), mteb=mteb)


def second_stage(options: Mapping[str, Any]) -> dict[str, Any]:
    """Pick, if there is a reranker, how many documents it reads and what it is told before a query."""
    if not options.get(RERANKER):
        return {}
    depth = int(options.get("top_k") or TOP_K)
    if depth < 1:
        raise UsageError(f"top_k must be 1 or more, not {depth}.")
    return {"top_k": depth, "reranker_prompt": options.get("reranker_prompt") or ""}


def reranker_of(options: Mapping[str, Any]) -> dict[str, ModelSpec]:
    """Take the reranker: a cross-encoder by its folder or id, or any that is described already."""
    given = options.get(RERANKER)
    if not given:
        return {}
    return {RERANKER: given if isinstance(given, ModelSpec) else ModelSpec("cross-encoder", given)}


class TextRetrieval(Task):
    """ndcg, map, mrr, recall, precision and hit_rate at 1, 3, 5, 10, 20, 100 and 1000, as MTEB names them.

    Ties count against the right document. ``main_score`` and ``details.mteb`` are what MTEB itself says, ties and all.
    With candidates in the data (``top_ranked.jsonl``) each query looks among its own: that is MTEB's reranking.
    """

    name = "text_retrieval"
    version = 2
    measures = "text retrieval"
    kinds = frozenset({"texts"})
    records = "ranking"
    roles = {RERANKER: "reranker"}  # noqa: RUF012 - declared as ClassVar above

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick the prompts and, with a reranker, how many documents it reads and what it is told before a query."""
        said = {key: options[key] for key in (*SAID, "candidates") if options.get(key)}
        return {**prompt_settings(options), **second_stage(options), **said}

    def model_options(self, family: str) -> dict[str, Any]:
        """Put prompts in front of texts here, by role, and nowhere else."""
        return given_prompts(family)

    def others(self, options: Mapping[str, Any]) -> dict[str, ModelSpec]:
        """Take the reranker."""
        return reranker_of(options)

    def check(self, info: DatasetInfo, settings: Mapping[str, Any]) -> None:
        """Refuse a reranking task without candidates."""
        super().check(info, settings)
        if settings.get("candidates") and info.collection is not None and not info.collection.candidates:
            raise DataError(
                f"{info.name} is a reranking task, but its folder has no candidates.",
                advice=f"They go into {CANDIDATES}, one line for each query: "
                '{"query-id": "q1", "corpus-ids": ["d1", "d2"]}; or call it CustomRetrieval to search all documents.',
            )

    def predict(self, material: Material, settings: Mapping[str, Any]) -> TextPrediction:
        """Embed queries and documents, rank documents for each query, and let the reranker order the best anew."""
        collection = material.info.collection
        if collection is None:
            raise DataError(f"{material.info.name} is described as texts but has no collection.")
        ids = {entry.id for entry in material.manifest.entries}
        judged = ranked.judged_queries(collection, ids)
        asked = counted_queries(collection, ids)
        (queries, documents), notices = _embed(material, settings, collection, asked)
        counted = {query.id for query in judged.queries}
        mine = np.array([i for i, query in enumerate(asked) if query.id in counted])
        lists, scores, card = _lists(material, settings, asked, queries, documents)
        if lists is None:
            found = ranked.rank_all(judged, queries[mine], documents)
            mteb = of_vectors(collection, asked, queries, documents)
        else:
            found = ranked.rank_lists(judged, lists[mine], scores[mine])
            mteb = of_lists(collection, asked, lists, as_its_library(scores, card))
        gains = (gain for query in asked for gain in collection.relevance[query.id].values())
        return TextPrediction(
            info=material.info,
            entries=tuple(entry for entry in material.manifest.entries if entry.id in counted),
            failures=(),
            collection=collection,
            judged=judged,
            found=found,
            mteb=mteb if all(gain == int(gain) for gain in gains) else None,
            reranker=card,
            notices=notices,
        )

    def score(self, prediction: TextPrediction, settings: Mapping[str, Any]) -> Outcome:
        """Score what was found."""
        outcome = ranked.score(prediction.judged, prediction.found, prediction.collection)
        details = {**outcome.details, **{key: settings[key] for key in SAID if key in settings}}
        metrics = dict(outcome.metrics)
        if prediction.mteb is not None:
            scores = mteb_scores(prediction.mteb, details["main_score"])
            details["mteb"] = {"scores": {prediction.info.split: [scores]}}
            metrics["main_score"] = Metric(scores["main_score"])
        notices = [*prediction.notices, *outcome.notices]
        card = prediction.reranker
        if card is not None:
            details[RERANKER] = asdict(card) | {"fingerprint": card.fingerprint}
            depth = settings["top_k"]
            if not prediction.collection.candidates:
                text = f"Only the first {depth} documents are ordered anew: metrics beyond that k are of those."
                notices.append(Notice("reranked_depth", depth, text))
        return replace(outcome, metrics=metrics, details=details, notices=notices)


def _embed(
    material: Material, settings: Mapping[str, Any], collection: TextCollection, asked: Sequence[Document]
) -> tuple[tuple[Vectors, Vectors], tuple[Notice, ...]]:
    """Encode queries and documents with their prompts, so that their dot product is the model's own similarity."""
    prompts = prompts_of(material, settings)
    by_cosine = ranked.is_cosine(material.encoder.card.similarity) or UNIT in settings
    texts = {
        "query": [query.text for query in asked],
        "document": [document.text for document in collection.documents],
    }
    found = [
        encode_texts(material, with_prompt(prompts, role, own), normalize=by_cosine) for role, own in texts.items()
    ]
    (queries, about_queries), (documents, about_documents) = found
    return (queries, documents), (*about_queries, *about_documents)


def _lists(
    material: Material, settings: Mapping[str, Any], asked: Sequence[Document], queries: Vectors, documents: Vectors
) -> tuple[Ints | None, Floats, ModelCard | None]:
    """Return the documents among which each query is ranked, their scores, and who scored them if not the encoder.

    None for the documents: the whole collection, which the encoder ranks.
    """
    collection = material.info.collection
    lists = ranked.candidate_lists(collection, asked) if collection is not None else None
    if RERANKER in material.others:
        lists = top_items(queries, documents, settings["top_k"]) if lists is None else lists
        return (lists, *_reread(material, settings, asked, lists))
    if lists is None:
        return None, np.empty(0), None
    return lists, ranked.score_lists(lists, queries, documents), None


def _reread(
    material: Material, settings: Mapping[str, Any], asked: Sequence[Document], lists: Ints
) -> tuple[Floats, ModelCard]:
    """Let the reranker score the documents of lists; what it has not read is not found."""
    collection = material.info.collection
    documents = collection.documents if collection is not None else ()
    shortlists = [
        Shortlist(
            str(i), settings["reranker_prompt"] + query.text, tuple(documents[item].text for item in row[row >= 0])
        )
        for i, (query, row) in enumerate(zip(asked, lists, strict=True))
    ]
    reranker = material.open_other(RERANKER)
    scores = np.full(lists.shape, -np.inf)
    scores[lists >= 0] = np.nan
    with material.progress.step(f"reranking {material.info.name}", len(shortlists)) as bar:
        for name, row in reranker.score(shortlists):
            place = lists[int(name)] >= 0
            scores[int(name), place] = row if len(row) == place.sum() else np.nan
            bar.advance()
    bad = int((~np.isfinite(scores) & (lists >= 0)).any(axis=1).sum())
    if bad:
        raise ModelError(f"The reranker gave no usable scores for {bad} of {len(shortlists)} queries.")
    return scores, reranker.card


def as_its_library(scores: Floats, card: ModelCard | None) -> Floats:
    """Return the scores that MTEB would see: those of a reranker's own library, which may put them between 0 and 1."""
    if card is None or card.similarity != SIGMOID:
        return scores
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-scores))
