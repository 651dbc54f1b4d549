"""Text retrieval: find the documents that are relevant to a query, with an encoder and perhaps a reranker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, ModelError, UsageError
from eyechart.metrics.retrieval import top_items
from eyechart.metrics.vectors import Vectors
from eyechart.models.rerankers.reranker import Shortlist
from eyechart.tasks.base import Material, Prediction, Task
from eyechart.tasks.encoded import encode_texts
from eyechart.tasks.retrieval import ranked
from eyechart.tasks.retrieval.ranked import FoundDocuments, JudgedQueries
from eyechart.tasks.retrieval.text_prompts import UNIT, given_prompts, prompt_settings, prompts_of, with_prompt
from eyechart.types import ModelCard, ModelSpec, Notice, Outcome, TextCollection

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
    reranker: ModelCard | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Name the queries without any relevant document."""
        return self.judged.left_out

    def only(self, keep: NDArray[np.int64]) -> Self:
        """Return the prediction for the queries at the positions ``keep``."""
        return replace(super().only(keep), judged=self.judged.only(keep), found=self.found.only(keep))


class TextRetrieval(Task):
    """ndcg, map, mrr, recall, precision and hit_rate at 1, 3, 5, 10, 20 and 100, as MTEB names them: ``ndcg_at_10``."""

    name = "text_retrieval"
    measures = "text retrieval"
    kinds = frozenset({"texts"})
    records = "ranking"
    roles = {RERANKER: "reranker"}  # noqa: RUF012 - declared as ClassVar above

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick the prompts and, with a reranker, how many documents it reads and what it is told before a query."""
        said = {key: options[key] for key in SAID if options.get(key)}
        if not options.get(RERANKER):
            return {**prompt_settings(options), **said}
        depth = int(options.get("top_k") or TOP_K)
        if depth < 1:
            raise UsageError(f"top_k must be 1 or more, not {depth}.")
        second = {"top_k": depth, "reranker_prompt": options.get("reranker_prompt") or ""}
        return {**prompt_settings(options), **second, **said}

    def model_options(self, family: str) -> dict[str, Any]:
        """Put prompts in front of texts here, by role, and nowhere else."""
        return given_prompts(family)

    def others(self, options: Mapping[str, Any]) -> dict[str, ModelSpec]:
        """Take the reranker: a cross-encoder by its folder or id, or any that is described already."""
        given = options.get(RERANKER)
        if not given:
            return {}
        return {RERANKER: given if isinstance(given, ModelSpec) else ModelSpec("cross-encoder", given)}

    def predict(self, material: Material, settings: Mapping[str, Any]) -> TextPrediction:
        """Embed queries and documents, rank all documents for each query, and let the reranker order the best anew."""
        collection = material.info.collection
        if collection is None:
            raise DataError(f"{material.info.name} is described as texts but has no collection.")
        judged = ranked.judged_queries(collection, {entry.id for entry in material.manifest.entries})
        counted = {query.id for query in judged.queries}
        vectors, notices = _embed(material, settings, collection, judged)
        prediction = TextPrediction(
            info=material.info,
            entries=tuple(entry for entry in material.manifest.entries if entry.id in counted),
            failures=(),
            collection=collection,
            judged=judged,
            found=ranked.rank_all(judged, *vectors),
            notices=notices,
        )
        return _reranked(prediction, material, settings, vectors) if RERANKER in material.others else prediction

    def score(self, prediction: TextPrediction, settings: Mapping[str, Any]) -> Outcome:
        """Score what was found."""
        outcome = ranked.score(prediction.judged, prediction.found, prediction.collection)
        details = {**outcome.details, **{key: settings[key] for key in SAID if key in settings}}
        notices = [*prediction.notices, *outcome.notices]
        card = prediction.reranker
        if card is not None:
            details[RERANKER] = asdict(card) | {"fingerprint": card.fingerprint}
            depth = settings["top_k"]
            text = f"Only the first {depth} documents are ordered anew: metrics beyond that k are of those."
            notices.append(Notice("reranked_depth", depth, text))
        return replace(outcome, details=details, notices=notices)


def _embed(
    material: Material, settings: Mapping[str, Any], collection: TextCollection, judged: JudgedQueries
) -> tuple[tuple[Vectors, Vectors], tuple[Notice, ...]]:
    """Encode queries and documents with their prompts, so that their dot product is the model's own similarity."""
    prompts = prompts_of(material, settings)
    by_cosine = ranked.is_cosine(material.encoder.card.similarity) or UNIT in settings
    texts = {
        "query": [query.text for query in judged.queries],
        "document": [document.text for document in collection.documents],
    }
    found = [
        encode_texts(material, with_prompt(prompts, role, own), normalize=by_cosine) for role, own in texts.items()
    ]
    (queries, about_queries), (documents, about_documents) = found
    return (queries, documents), (*about_queries, *about_documents)


def _reranked(
    first: TextPrediction, material: Material, settings: Mapping[str, Any], vectors: tuple[Vectors, Vectors]
) -> TextPrediction:
    """Return the prediction in the reranker's order; what it has not read is not found."""
    items = top_items(*vectors, settings["top_k"])
    documents = first.collection.documents
    lists = [
        Shortlist(str(i), settings["reranker_prompt"] + query.text, tuple(documents[item].text for item in row))
        for i, (query, row) in enumerate(zip(first.judged.queries, items, strict=True))
    ]
    reranker = material.open_other(RERANKER)
    scores = np.full(items.shape, np.nan)
    with material.progress.step(f"reranking {material.info.name}", len(lists)) as bar:
        for name, row in reranker.score(lists):
            scores[int(name)] = row if len(row) == items.shape[1] else np.nan
            bar.advance()
    bad = int((~np.isfinite(scores).all(axis=1)).sum())
    if bad:
        raise ModelError(f"The reranker gave no usable scores for {bad} of {len(lists)} queries.")
    return replace(first, found=ranked.rank_lists(first.judged, items, scores), reranker=reranker.card)
