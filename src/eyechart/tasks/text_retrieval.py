"""Text retrieval: find the documents relevant to a query, with an encoder and optionally a reranker."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eyechart.datasets.text_collection import CANDIDATES
from eyechart.errors import DataError, ModelError
from eyechart.io.images import ImageRef
from eyechart.messages import UserMessage
from eyechart.metrics.retrieval import top_items
from eyechart.metrics.search import score_lists
from eyechart.metrics.vectors import Floats, Ints
from eyechart.models.rerankers import SIGMOID, RankedItem, Shortlist
from eyechart.settings.tasks import RerankingSettings, TextRetrievalSettings
from eyechart.tasks import ranked_queries
from eyechart.tasks.base import ROLES, Prediction, Task, TaskContext, counted, encode_texts, prompts_of
from eyechart.tasks.ranked_queries import MtebValues, Rankings, mteb_scores, of_lists, of_vectors
from eyechart.types import DatasetInfo, Document, Metric, ModelCard, ModelSpec, Outcome, TextCollection

GIVEN_PROMPTS = {"sentence-transformers": {"prompts": "given"}}
"""Model option that leaves prompts to the caller, which prepends them by role."""
RERANKER = "reranker"
MEAN_MAXSIM = "meanmaxsim"
"""MaxSim divided by the number of a query's vectors, a similarity of sentence-transformers."""
DEPTH = "Only the first {n} documents are reranked: metrics at a larger k cover only those."
QUERIES_AT_ONCE = 256
"""Queries reranked at a time if there are images, which may be held in memory."""
CAPTION_FACTS = ("captions_by", "caption_prompt")
"""Settings about generated texts that the details of a result repeat."""


@dataclass(frozen=True)
class TextPrediction(Prediction):
    """The scored queries and their rankings."""

    collection: TextCollection
    found: Rankings
    mteb: MtebValues | None
    """MTEB's own values; None if relevance is fractional, which MTEB does not support."""
    reranker: ModelCard | None = None

    def only(self, keep: NDArray[np.int64]) -> Self:
        """Return the prediction for the queries at positions ``keep``."""
        found = self.found.only(keep)
        mteb = self.mteb and self.mteb.only({one.query.id for one in found.judged})
        return replace(super().only(keep), found=found, mteb=mteb)


class RerankingTask(Task):
    """A task that ranks documents, with an optional reranker."""

    roles = {RERANKER: "reranker"}  # noqa: RUF012 - declared as ClassVar above
    multi_vector = True

    def extra_models(self, settings: RerankingSettings) -> dict[str, ModelSpec]:
        """Return the reranker: a cross-encoder by its folder or id."""
        return {RERANKER: ModelSpec("cross-encoder", settings.reranker)} if settings.reranker else {}


class TextRetrieval(RerankingTask):
    """ndcg, map, mrr, recall, precision and hit_rate at 1, 3, 5, 10, 20, 100 and 1000, under MTEB's names.

    Ties count against the relevant document. ``main_score`` and ``details.mteb`` are MTEB's own values, including its
    tie rule. With candidates in the data (``top_ranked.jsonl``) each query ranks its own: MTEB's reranking.
    """

    name = "text_retrieval"
    version = 2
    measures = "text retrieval"
    kinds = frozenset({"texts"})
    inputs = ("text",)
    records = "ranking"
    model_options = GIVEN_PROMPTS
    Settings = TextRetrievalSettings

    def check(self, info: DatasetInfo, settings: TextRetrievalSettings) -> None:
        """Reject a reranking task without candidates."""
        super().check(info, settings)
        if settings.candidates and info.collection is not None and not info.collection.candidates:
            raise DataError(
                "{name} is a reranking task, but its folder has no candidates.",
                advice="Add {candidates} with one line per query: "
                '{{"query-id": "q1", "corpus-ids": ["d1", "d2"]}}; or call it CustomRetrieval to '
                "search all documents.",
                name=info.name,
                candidates=CANDIDATES,
            )

    def predict(self, context: TaskContext, settings: TextRetrievalSettings) -> TextPrediction:
        """Embed queries and documents, rank the documents for each query, and rerank the top ones."""
        collection = context.info.collection
        if collection is None:
            raise DataError("{name} is declared as texts but has no collection.", name=context.info.name)
        ids = {entry.id for entry in context.manifest.entries}
        judged, left_out = ranked_queries.judged_queries(collection, ids)
        # MTEB also counts the queries whose judged documents are all irrelevant.
        asked = [query for query in collection.queries if query.id in ids and collection.relevance.get(query.id)]
        prompts = prompts_of(context, settings)
        similarity = context.encoder.card.similarity
        if similarity not in ("cosine", "dot", "maxsim", MEAN_MAXSIM):
            raise ModelError(
                "The model uses the similarity {similarity}, which is not supported.",
                advice="Supported similarities: cosine, dot product and MaxSim.",
                similarity=similarity,
            )
        by_cosine = similarity == "cosine" or settings.normalize_embeddings  # else the vectors' dot product, or MaxSim
        (queries, about_queries), (documents, about_documents) = (
            encode_texts(
                context, [item.text for item in items], normalize=by_cosine, role=role, prompt=prompts.get(role)
            )
            for role, items in zip(ROLES, (asked, collection.documents), strict=True)
        )
        if similarity == MEAN_MAXSIM:
            queries = queries.averaged()
        scored = {one.query.id for one in judged}
        mine = np.array([i for i, query in enumerate(asked) if query.id in scored])
        card: ModelCard | None = None
        lists = ranked_queries.candidate_lists(collection, asked)
        if RERANKER in context.extra_models:
            lists = top_items(queries, documents, settings.top_k) if lists is None else lists
            scores, card = rerank(context, settings, collection.documents, asked, lists)
        elif lists is not None:
            scores = score_lists(lists, queries, documents)
        if lists is None:
            found = ranked_queries.rank_all(judged, queries[mine], documents)
            mteb = of_vectors(collection, asked, queries, documents)
        else:
            vectors = None if RERANKER in context.extra_models else (queries[mine], documents)
            found = ranked_queries.rank_lists(judged, lists[mine], scores[mine], vectors)
            mteb = of_lists(collection, asked, lists, library_scores(scores, card))
        gains = (gain for query in asked for gain in collection.relevance[query.id].values())
        return TextPrediction(
            info=context.info,
            entries=tuple(entry for entry in context.manifest.entries if entry.id in scored),
            failures=(),
            collection=collection,
            left_out=left_out,
            found=found,
            mteb=mteb if all(gain == int(gain) for gain in gains) else None,
            reranker=card,
            notices=(*about_queries, *about_documents),
        )

    def score(self, prediction: TextPrediction, settings: TextRetrievalSettings) -> Outcome:
        """Score the rankings."""
        main = ranked_queries.PRIMARY_OF_CANDIDATES if prediction.collection.candidates else ranked_queries.PRIMARY
        outcome = ranked_queries.score(prediction.found, prediction.collection, len(prediction.left_out), main=main)
        details = {**outcome.details, **{key: value for key in CAPTION_FACTS if (value := getattr(settings, key))}}
        metrics = dict(outcome.metrics)
        if prediction.mteb is not None:
            scores = mteb_scores(prediction.mteb, details["main_score"])
            details["mteb"] = {"scores": {prediction.info.split: [scores]}}
            metrics["main_score"] = Metric(scores["main_score"])
        notices = [*prediction.notices, *outcome.notices]
        card = prediction.reranker
        if card is not None:
            details[RERANKER] = asdict(card) | {"fingerprint": card.fingerprint}
            if not prediction.collection.candidates:
                notices += counted("reranked_depth", settings.top_k, DEPTH)
        return replace(outcome, metrics=metrics, details=details, notices=notices)


def rerank(
    context: TaskContext,
    settings: RerankingSettings,
    documents: Sequence[Document],
    asked: Sequence[Document],
    lists: Ints,
) -> tuple[Floats, ModelCard]:
    """Score listed documents with the reranker; documents without a score count as not retrieved."""
    reranker = context.open_extra_model(RERANKER)
    scores = np.full(lists.shape, -np.inf)
    scores[lists >= 0] = np.nan
    size = QUERIES_AT_ONCE if any(item.image for item in (*asked, *documents)) else len(asked)
    with context.progress.step(UserMessage("reranking {name}", name=context.info.name), len(asked)) as bar:
        for start in range(0, len(asked), max(1, size)):
            pairs = [
                (i, asked[i], [documents[item] for item in lists[i] if item >= 0])
                for i in range(start, min(start + size, len(asked)))
            ]
            wanted = {item.image for _, query, found in pairs for item in (query, *found)} - {None}
            samples = context.manifest.samples() if wanted else ()
            images = {one.id: one.need_image() for one in samples if one.id in wanted}
            shortlists = [
                Shortlist(
                    str(i),
                    _ranked_item(query, images, settings.reranker_prompt),
                    tuple(_ranked_item(item, images) for item in found),
                )
                for i, query, found in pairs
            ]
            for name, row in reranker.score(shortlists):
                place = lists[int(name)] >= 0
                scores[int(name), place] = row if len(row) == place.sum() else np.nan
                bar.advance()
    bad = int((~np.isfinite(scores) & (lists >= 0)).any(axis=1).sum())
    if bad:
        raise ModelError("The reranker returned no usable scores for {bad} of {n} queries.", bad=bad, n=len(asked))
    return scores, reranker.card


def _ranked_item(item: Document, images: Mapping[str, ImageRef], prompt: str = "") -> RankedItem:
    text = prompt + item.text
    return text if item.image is None else (*([text] if text else []), images[item.image])


def library_scores(scores: Floats, card: ModelCard | None) -> Floats:
    """Return the scores MTEB would see: those of the reranker's library, which may map them to 0..1."""
    if card is None or card.similarity != SIGMOID:
        return scores
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-scores))
