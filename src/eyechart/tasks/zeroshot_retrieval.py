"""Zero-shot retrieval between images and captions, or in a collection of texts and images with graded relevance."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.datasets.mmeb import INSTRUCTED, INSTRUCTION, ranking_files, read_rankings
from eyechart.errors import DataError, ModelError, UsageError
from eyechart.manifest import Failure
from eyechart.metrics.retrieval import METRICS, top_items
from eyechart.metrics.search import score_lists
from eyechart.metrics.vectors import AnyVectors, Floats, Ints, placed
from eyechart.settings.tasks import MEAN_RECALL, MMEB_METRICS, ZeroshotRetrievalSettings
from eyechart.tasks import ranked_queries
from eyechart.tasks.base import (
    ROLES,
    Prediction,
    TaskContext,
    counted,
    drop_constant_embeddings,
    encode_images,
    encode_pairs,
    encode_texts,
    make_metric,
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
from eyechart.tasks.ranked_queries import TIES, JudgedQuery, Rankings
from eyechart.tasks.text_retrieval import DEPTH, RERANKER, RerankingTask, rerank
from eyechart.types import DatasetInfo, Document, Input, MeanOf, ModelCard, Notice, Outcome, TextCollection

DEFAULT_METRICS = ("ndcg_at_10", "mrr_at_10", "map_at_10")
MMEB_NAMES = {"hit_rate": "hit", "ndcg": "ndcg_linear"}
"""MMEB's names of the metrics that it publishes."""
MMEB_KS = (1, 5, 10)


@dataclass(frozen=True)
class CollectionPrediction(Prediction):
    """Vectors of queries and documents, in the order of the collection."""

    collection: TextCollection
    """The usable part of the dataset's collection."""
    queries: AnyVectors | None = None
    """None for the rankings of another tool: the candidates of each query are in their order."""
    documents: AnyVectors | None = None
    lost: int = 0
    """Number of queries and documents whose image failed."""
    reranked: tuple[Ints, Floats, ModelCard] | None = None
    """The shortlist of each query, the scores of its documents, and the reranker."""

    def only(self, keep: NDArray[np.int64]) -> NoReturn:  # noqa: ARG002 - the same for all
        """Raise: queries and documents share images, so image metadata cannot group queries."""
        raise DataError("a collection cannot be grouped")


def predict_collection(context: TaskContext, settings: ZeroshotRetrievalSettings) -> CollectionPrediction:
    """Embed all texts and images by role.

    An item with both is one joint input, or the sum of its two unit vectors (as in MIEB) if the model takes none.
    """
    collection = context.info.collection
    if collection is None:
        raise DataError("{name} is declared as a collection but has none.", name=context.info.name)
    if settings.predictions:
        ranked = _with_rankings(collection, context.info.name, settings.predictions)
        return CollectionPrediction(context.info, context.manifest.entries, (), ranked)
    card = context.encoder.card
    pair = next((one for one in (*collection.queries, *collection.documents) if _kind(one) == "image+text"), None)
    if pair is not None and card.multi_vector and "image+text" not in card.inputs:
        raise ModelError(
            "{id} has an image and a text, which {label} cannot encode as one input.",
            advice="Use a model with joint inputs or with one vector per input.",
            id=pair.id,
            label=context.encoder.model.spec.label,
        )
    if card.prompting == "prefix" and "image+text" not in card.inputs and "image" in card.inputs:
        context.encoder.images(context.listed)  # embedded while the dataset is read
    manifest = context.manifest
    listed = {entry.id for entry in manifest.entries} | {failure.id for failure in manifest.failures}
    for item in (*collection.queries, *collection.documents):
        if item.image is not None and item.image not in listed:  # a smaller gallery would give different numbers
            raise DataError(
                "The image of {id} was not read.", advice="{--limit} is not supported for collections.", id=item.id
            )
    sides = [
        _encode_items(items, context, role, settings)
        for role, items in zip(ROLES, (collection.queries, collection.documents), strict=True)
    ]
    items, vectors, failures, notices = zip(*sides, strict=True)
    lost = {failure.id: failure for side in failures for failure in side}
    kept = [[i for i, item in enumerate(side) if item.image not in lost] for side in items]
    queries, documents = (tuple(side[i] for i in rows) for side, rows in zip(items, kept, strict=True))
    known = {document.id for document in documents}
    lists = {query: tuple(filter(known.__contains__, names)) for query, names in collection.candidates.items()}
    usable = replace(collection, queries=queries, documents=documents, candidates=lists)
    return CollectionPrediction(
        info=context.info,
        entries=tuple(entry for entry in manifest.entries if entry.id not in lost),
        failures=tuple(lost.values()),
        collection=usable,
        queries=vectors[0][kept[0]],
        documents=vectors[1][kept[1]],
        notices=tuple(dict.fromkeys(notice for side in notices for notice in side)),
        lost=sum(len(getattr(collection, part)) - len(getattr(usable, part)) for part in ("queries", "documents")),
    )


def _with_rankings(collection: TextCollection, name: str, path: str) -> TextCollection:
    """Return a collection whose candidates are in the order of another tool."""
    queries, rankings = collection.queries, read_rankings(path, name)
    known = {document.id for document in collection.documents}
    if len(queries) != len(rankings) or any(
        one.relevance != {name: gain for name, gain in collection.relevance.get(query.id, {}).items() if gain > 0}
        or not known.issuperset(one.ranked)
        for query, one in zip(queries, rankings, strict=True)
    ):
        raise DataError("The queries or candidates of {path} are not those of the dataset.", path=path)
    return replace(collection, candidates={query.id: one.ranked for query, one in zip(queries, rankings, strict=True)})


def _instructed(
    items: Sequence[Document], context: TaskContext, role: str, settings: ZeroshotRetrievalSettings
) -> tuple[Sequence[Document], str]:
    """Return the items as they are encoded, and their prompt.

    MMEB's own instructions, unless the user gives another, are the prompt of a model that takes one as a message, else
    part of the texts. A model without joint inputs does not encode an instruction alone as a text. As published,
    late-interaction models get none for documents.
    """
    card, told = context.encoder.card, {item.meta.get(INSTRUCTION, "") for item in items}
    if getattr(settings, f"{role}_prompt") is not None or settings.main_metric not in MMEB_METRICS:
        return items, prompts_of(context, settings).get(role, "")
    if card.multi_vector and not (context.info.collection and context.info.collection.candidates):
        return items, ""
    if card.prompting == "message" and len(told) == 1:
        return items, told.pop()
    joint = "image+text" in card.inputs
    return [
        replace(item, text=item.meta[INSTRUCTED])
        if INSTRUCTED in item.meta and (item.text or item.image is None or joint)
        else item
        for item in items
    ], ""


def _encode_items(
    listed: Sequence[Document], context: TaskContext, role: str, settings: ZeroshotRetrievalSettings
) -> tuple[Sequence[Document], AnyVectors, Sequence[Failure], Sequence[Notice]]:
    """Return the queries or the documents whose image was read, with their vectors: zero if the image failed."""
    encoder = context.encoder
    place = {entry.id: row for row, entry in enumerate(context.manifest.entries)}
    listed = [item for item in listed if item.image is None or item.image in place]
    items, prompt = _instructed(listed, context, role, settings)
    joint = "image+text" in encoder.card.inputs
    kinds = [_kind(item) for item in items]
    read = [i for i, kind in enumerate(kinds) if kind == "text" or (kind == "image+text" and not joint)]
    seen = [i for i, kind in enumerate(kinds) if kind == "image" or (kind == "image+text" and not joint)]
    fused = [i for i, kind in enumerate(kinds) if kind == "image+text" and joint]
    parts: list[tuple[Ints, Any]] = []
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
    if encoder.card.multi_vector:
        return listed, placed(parts, len(items)), failures, notices
    out = np.zeros((len(items), max((vectors.shape[1] for _, vectors in parts), default=0)), np.float32)
    for rows, vectors in parts:
        out[rows] += vectors
    both = np.intersect1d(read, seen).astype(np.int64)
    out[both] = encoder.unit(out[both])
    return listed, out, failures, notices


def score_collection(prediction: CollectionPrediction, settings: ZeroshotRetrievalSettings) -> Outcome:
    """Rank all documents, or its candidates, for every query.

    The metrics are those of text retrieval: nDCG, MRR and MAP at 10, hit rate and (true) recall at each k of
    ``recall_k``; with ``--metrics full`` all of them at every k. MMEB has its own.
    """
    collection, mmeb = prediction.collection, settings.main_metric in MMEB_METRICS
    judged, left_out = ranked_queries.judged_queries(collection)
    ranking = _rank(prediction, judged)
    notices, details = list(prediction.notices), {}
    if prediction.reranked is not None:
        card = prediction.reranked[2]
        details = {RERANKER: asdict(card) | {"fingerprint": card.fingerprint}}
        notices += [] if collection.candidates else counted("reranked_depth", settings.top_k, DEPTH)
    ks = sorted({*settings.recall_k, 10, *(ranked_queries.KS if settings.metrics == "full" else ())})
    outcome = ranked_queries.score(ranking, collection, len(left_out), MMEB_KS if mmeb else ks)
    kinds = [_kind(document) for document in collection.documents]
    found = Counter(kinds[row[0]] for row in ranking.top)
    if mmeb:
        outcome = _mmeb_outcome(outcome, prediction, ranking, str(settings.main_metric))
    metrics = outcome.metrics
    if not mmeb and settings.metrics != "full":
        wanted = [*DEFAULT_METRICS, *(f"{name}_at_{k}" for name in ("hit_rate", "recall") for k in settings.recall_k)]
        metrics = {name: metrics[name] for name in wanted}
    unusable = "{n} queries and documents are left out because their image could not be used."
    return replace(
        outcome,
        metrics=metrics,
        records=[{**record, "query": _kind(one.query)} for record, one in zip(outcome.records, judged, strict=True)],
        notices=(*notices, *outcome.notices, *counted("unusable_items", prediction.lost, unusable)),
        details={**outcome.details, **details, "gallery": dict(Counter(kinds)), "found_first": dict(found)},
    )


def _rank(prediction: CollectionPrediction, judged: Sequence[JudgedQuery]) -> Rankings:
    ids = {one.query.id for one in judged}
    chosen = [i for i, query in enumerate(prediction.collection.queries) if query.id in ids]
    if prediction.reranked is not None:
        shortlists, scores, _ = prediction.reranked
        return ranked_queries.rank_lists(judged, shortlists[chosen], scores[chosen])
    lists = ranked_queries.candidate_lists(prediction.collection, [one.query for one in judged])
    if prediction.queries is None or prediction.documents is None:
        assert lists is not None  # noqa: S101 - every line has a ranking
        order = np.where(lists >= 0, -np.arange(lists.shape[1]), -np.inf)
        return replace(ranked_queries.rank_lists(judged, lists, order), scores=None)
    vectors = prediction.queries[chosen], prediction.documents
    if lists is None:
        return ranked_queries.rank_all(judged, *vectors)
    return ranked_queries.rank_lists(judged, lists, score_lists(lists, *vectors), vectors)


def _mmeb_outcome(outcome: Outcome, prediction: CollectionPrediction, ranking: Rankings, main: str) -> Outcome:
    """Name metrics as MMEB does, and add its own value of the primary one: the first of equals wins.

    In the image tasks the right candidate is the first, so that MMEB's value of a constant model is 1. Rankings of
    another tool have no scores, so ties are not visible, and all values are MMEB's.
    """
    prefix = "mmeb_" if prediction.queries is None else ""
    metrics = {
        f"{prefix}{name}@{k}": replace(outcome.metrics[f"{measure}_at_{k}"], primary=f"{name}@{k}" == main)
        for measure, name in MMEB_NAMES.items()
        for k in MMEB_KS
    }
    if prefix:
        unseen = "The predictions are rankings without scores, so ties do not count against the model."
        return replace(outcome, metrics=metrics, notices=(*outcome.notices, *counted("unseen_ties", 1, unseen)))
    asked, (measure, k) = [one.query for one in ranking.judged], MMEB_METRICS[main]
    _, relevant = ranked_queries.listed_ranks(prediction.collection, asked, ranking.top)
    values = METRICS[measure](relevant, k) if relevant else np.zeros(len(asked))
    units, own = np.array([record["unit"] for record in outcome.records]), f"mmeb_{main}"
    metrics[own] = make_metric(
        float(values.mean()),
        stats.mean_interval(values, units),
        chance=metrics[main].chance,
        n=metrics[main].n,
        mean_of=MeanOf(own, cluster="unit"),
    )
    records = [{**record, own: value} for record, value in zip(outcome.records, values.tolist(), strict=True)]
    return replace(outcome, metrics=metrics, records=records, details={**outcome.details, "main_score": main})


def _kind(item: Document) -> str:
    shown, spoken = item.image is not None, bool(item.text)
    return "image+text" if shown and spoken else "image" if shown else "text"


class ZeroshotRetrieval(RerankingTask):
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

    def reads(self, output: Path, settings: ZeroshotRetrievalSettings) -> tuple[Path, ...]:  # noqa: ARG002 - others do
        """Return the rankings to score."""
        return ranking_files(settings.predictions) if settings.predictions else ()

    def inputs_of(self, info: DatasetInfo, settings: ZeroshotRetrievalSettings) -> tuple[Input, ...]:
        """Return images and texts; for a collection, those that occur in it, and none for another tool's rankings."""
        if info.collection is None:
            return super().inputs_of(info, settings)
        kinds = {_kind(item) for item in (*info.collection.queries, *info.collection.documents)}
        return tuple(name for name in self.inputs if kinds & {name, "image+text"} and settings.uses_model)

    def predict(self, context: TaskContext, settings: ZeroshotRetrievalSettings) -> Prediction:
        """Embed images and texts, and rerank the top documents of a collection."""
        dataset, reranks = context.info.name, RERANKER in context.extra_models
        if reranks and context.info.kind != "collection":
            raise UsageError("{--reranker} does not apply to {dataset}: it is not a collection.", dataset=dataset)
        if reranks and "image" not in (card := context.open_extra_model(RERANKER).card).inputs:
            raise ModelError(
                "{name} scores pairs of texts, but {dataset} contains images.",
                advice="Use a reranker that takes images, or omit {--reranker}.",
                name=card.name,
                dataset=dataset,
            )
        if context.info.kind == "collection":
            found = predict_collection(context, settings)
            if not reranks:
                return found
            items, asked = found.collection.documents, found.collection.queries
            lists = ranked_queries.candidate_lists(found.collection, asked)
            if lists is None and found.queries is not None and found.documents is not None:
                lists = top_items(found.queries, found.documents, settings.top_k)
            assert lists is not None  # noqa: S101 - rankings of another tool are candidates
            return replace(found, reranked=(lists, *rerank(context, settings, items, asked, lists)))
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
