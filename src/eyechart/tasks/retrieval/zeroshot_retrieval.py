"""Zero-shot retrieval: find the image for a caption, and the captions for an image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from eyechart.errors import UsageError
from eyechart.tasks.base import Material, Prediction, Task, need_samples
from eyechart.tasks.encoded import encode_images, encode_own_texts
from eyechart.tasks.labelled import wants_full
from eyechart.tasks.retrieval import collection_retrieval
from eyechart.tasks.retrieval.caption_metrics import DISTINCT, full_metrics, mean_recall, recalls, with_repeats
from eyechart.tasks.retrieval.caption_records import search_records
from eyechart.tasks.retrieval.caption_search import RetrievalPrediction, Search, search, shared_pairs
from eyechart.tasks.retrieval.collection_retrieval import CollectionPrediction
from eyechart.types import Notice, Outcome

MEAN_RECALL = re.compile(r"mean_recall@(\d+)")


class ZeroshotRetrieval(Task):
    """image_retrieval_recall@k (caption to image) and text_retrieval_recall@k (image to caption).

    Both are hit rates, as everywhere in the CLIP literature: at least one right answer among the first k. Where
    captions repeat, ``..._distinct_texts`` are the same with equal captions as one; in ``image_queries.jsonl`` any
    image that has the text is right. With ``--metrics full`` also, for both directions: true recall
    (``true_recall@k``: the share of right answers among the first k), MRR, nDCG and MAP at 10, the median rank, and
    mean_recall@k over both directions. A collection (texts, images or both on either side, graded relevance) gets the
    metrics of text retrieval.
    """

    name = "zeroshot_retrieval"
    version = 3
    kinds = frozenset({"retrieval", "collection"})
    measures = "retrieval"
    records = "ranking"

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick and check the values of k."""
        ks = set(options.get("recall_k") or [5])
        main = MEAN_RECALL.fullmatch(str(options.get("main_metric")))
        if main:
            ks.add(int(main[1]))
        if min(ks) < 1:
            raise UsageError(f"recall_k must be 1 or more, not {min(ks)}.")
        return {
            "recall_k": sorted(ks),
            "metrics": options.get("metrics", "default"),
            **({"main_metric": main[0]} if main else {}),
        }

    def predict(self, material: Material, settings: Mapping[str, Any]) -> Prediction:  # noqa: ARG002
        """Embed images and texts."""
        if material.info.kind == "collection":
            return collection_retrieval.predict(material)
        images = encode_images(material)
        texts, owner, notices = encode_own_texts(material, images.entries)
        return RetrievalPrediction(
            info=material.info,
            entries=images.entries,
            failures=images.failures,
            images=images.vectors,
            texts=texts,
            owner=owner,
            asked=np.arange(len(images.entries)),
            notices=(*images.notices, *notices),
        )

    def score(self, prediction: Prediction, settings: Mapping[str, Any]) -> Outcome:
        """Rank in both directions and count hits at each k."""
        need_samples(prediction)
        if isinstance(prediction, CollectionPrediction):
            return collection_retrieval.score(prediction, settings)
        return _score_captions(cast("RetrievalPrediction", prediction), settings)


def _score_captions(prediction: RetrievalPrediction, settings: Mapping[str, Any]) -> Outcome:
    ks, number = settings["recall_k"], prediction.text_numbers
    shared = shared_pairs(prediction) if prediction.info.shared_texts else None
    found, _ = search(prediction, np.arange(len(number)), shared)
    repeats = len(number) - len(np.unique(number)) if shared is None else 0
    metrics = recalls(found, ks)
    image_fields: dict[str, Mapping[int, float]] = {}
    text_fields: dict[str, Mapping[int, float]] = {}
    if repeats:
        metrics = with_repeats(metrics, prediction, number, ks)
    metrics |= {f"mean_recall@{k}": mean_recall(k, metrics) for k in _ks_of_means(settings)}
    if wants_full(settings):
        for (way, ranks), fields in zip(found.both, (text_fields, image_fields), strict=True):
            more, values = full_metrics(way, ranks, ks, repeats=bool(repeats) and way is found.to_text)
            metrics |= more
            fields |= {name: dict(enumerate(np.round(column, 12).tolist())) for name, column in values.items()}
    if repeats:
        distinct, first = search(prediction, number)
        metrics |= recalls(distinct, ks, DISTINCT)
        image_fields[f"rank{DISTINCT}"] = dict(enumerate(distinct.text_ranks.ranks.tolist()))
        places = np.searchsorted(prediction.asked_captions, first)
        text_fields[f"rank{DISTINCT}"] = dict(zip(places.tolist(), distinct.image_ranks.ranks.tolist(), strict=True))
    return Outcome(
        metrics=metrics,
        records=search_records(prediction, found, image_fields, text_fields),
        notices=[*prediction.notices, *_notices(prediction, ks, found, repeats)],
        details={"captions": len(prediction.texts), "images": len(prediction.images)},
    )


def _ks_of_means(settings: Mapping[str, Any]) -> Sequence[int]:
    """Return the k at which the mean of both directions is wanted: all, or the one that the catalogue names."""
    main = MEAN_RECALL.fullmatch(settings.get("main_metric", ""))
    if wants_full(settings):
        ks: Sequence[int] = settings["recall_k"]
        return ks
    return [int(main[1])] if main else []


def _notices(prediction: RetrievalPrediction, ks: Sequence[int], found: Search, repeats: int) -> Iterator[Notice]:
    for gallery, size in (("images", len(prediction.images)), ("captions", len(prediction.texts))):
        trivial = [k for k in ks if k >= size]
        if trivial:
            yield Notice(
                "k_covers_gallery",
                len(trivial),
                f"With {size} {gallery}, recall@{trivial[0]} is 1 whatever the model does: use a smaller k.",
            )
    if repeats:
        yield Notice(
            "repeated_texts",
            repeats,
            f"{repeats} of {len(prediction.texts)} captions repeat another one. By the published convention an image "
            "must find its own copy; the metrics that end in _distinct_texts count equal captions as one.",
        )
    several = int((found.to_image.positives.counts() > 1).sum())
    if several:
        yield Notice(
            "shared_texts",
            several,
            f"{several} texts belong to more than one image: whichever of these is found counts as right.",
        )
    tied = sum(int(ranks.tied.sum()) for _, ranks in found.both)
    if tied:
        yield Notice("ties", tied, f"{tied} queries tie with a wrong answer; ties count against the right one.")
