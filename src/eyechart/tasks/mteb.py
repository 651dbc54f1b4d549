"""MTEB's own tasks through the ``mteb`` library, which reads the data and scores our encoders' vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from eyechart.datasets.mteb import MtebDataset
from eyechart.errors import DataError, UsageError
from eyechart.metrics.vectors import unit
from eyechart.models.rerankers import Shortlist
from eyechart.settings.tasks import TextSearchSettings
from eyechart.tasks.base import Prediction, Task, TaskContext, counted, prompts_of
from eyechart.tasks.text_retrieval import GIVEN_PROMPTS, RERANKER, library_scores, reranker_of
from eyechart.types import Metric, ModelSpec, Outcome

RETRIEVAL, RERANKING = "Retrieval", "Reranking"
WITH_RERANKER = frozenset({RETRIEVAL, RERANKING})
"""Task types that can use a reranker."""


@dataclass(frozen=True)
class MtebPrediction(Prediction):
    """The library's result object."""

    found: Mapping[str, Any]


class Mteb(Task):
    """The scores that the library computes, under its names; ``main_score`` is the one it reports."""

    name = "mteb"
    version = 2
    kinds = frozenset({"external"})
    roles = {RERANKER: "reranker"}  # noqa: RUF012 - declared as ClassVar above
    model_options = GIVEN_PROMPTS
    Settings = TextSearchSettings

    def extra_models(self, settings: TextSearchSettings) -> dict[str, ModelSpec]:
        """Return the reranker."""
        return reranker_of(settings)

    def predict(self, context: TaskContext, settings: TextSearchSettings) -> MtebPrediction:
        """Run the library's evaluation, which predicts and scores in one go."""
        dataset = context.manifest.dataset
        if not isinstance(dataset, MtebDataset):
            raise UsageError("{name} is not an MTEB task.", advice="Use mteb/NAME.", name=context.info.name)
        try:
            found = _evaluate(context, settings, dataset)
        except (OSError, ConnectionError) as error:
            raise DataError(
                "MTEB cannot read the data of {name} ({reason}).",
                advice="Its datasets come from a hub: check the network or the local copy in HF_HOME, or use "
                "{--dataset_root}, a folder with one subfolder per task.",
                name=context.info.name,
                reason=error,
            ) from error
        [scores] = found.task_results
        limited = "Only the first {n} queries or rows are scored: this is not the published benchmark."
        return MtebPrediction(
            context.info,
            (),
            (),
            scores.to_dict() | {"type": dataset.task.metadata.type},
            notices=(*dataset.notices, *counted("limited", dataset.limit or 0, limited)),
        )

    def score(self, prediction: MtebPrediction, settings: TextSearchSettings) -> Outcome:  # noqa: ARG002 - none
        """Flatten the library's scores; undefined ones, such as AP with more than two classes, are left out."""
        numbers = flat_scores(prediction.found["scores"])
        undefined = [name for name, value in numbers.items() if not math.isfinite(value)]
        if not math.isfinite(numbers.get("main_score", math.nan)):
            raise DataError(
                "MTEB's main score of {name} is undefined (NaN).",
                advice="Check the data: a split may have too few rows or a single class.",
                name=prediction.info.name,
            )
        text = "{n} metrics of MTEB are undefined (NaN) and left out, such as {first}."
        notes = counted("undefined_metrics", len(undefined), text, first=next(iter(undefined), ""))
        metrics = {
            name: Metric(value, primary=name == "main_score")
            for name, value in numbers.items()
            if name not in undefined
        }
        return Outcome(metrics, records=(), details={"mteb": prediction.found}, notices=(*prediction.notices, *notes))


def flat_scores(scores: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Flatten MTEB's scores: plain names if there is one split and one subset, else ``split/subset/name``."""
    parts = [(split, entry) for split, entries in scores.items() for entry in entries]
    flat: dict[str, float] = {}
    for split, entry in parts:
        prefix = "" if len(parts) == 1 else f"{split}/{entry.get('hf_subset', 'default')}/"
        numbers = {key: value for key, value in entry.items() if isinstance(value, int | float)}
        flat |= {f"{prefix}{key}": float(value) for key, value in numbers.items() if not key.startswith("nauc_")}
    if len(parts) > 1:
        means = [float(entry["main_score"]) for _, entry in parts]
        flat["main_score"] = sum(means) / len(means)
    return flat


def _evaluate(context: TaskContext, settings: TextSearchSettings, dataset: MtebDataset) -> Any:
    """Run the library's evaluation; a reranker reorders the encoder's top results."""
    import mteb

    run = partial(mteb.evaluate, cache=None, co2_tracker=False, show_progress_bar=False)
    task = dataset.loaded()
    if RERANKER in context.extra_models and dataset.task.metadata.type == RERANKING:
        return run(PairScorer(context, settings), task)
    encoder = _encoder_class()(context, prompts_of(context, settings), normalize=settings.normalize_embeddings)
    if RERANKER not in context.extra_models:
        return run(encoder, task)
    with TemporaryDirectory() as folder:
        run(encoder, task, prediction_folder=folder)
        second = dataset.loaded().convert_to_reranking(folder, top_k=settings.top_k)
        return run(PairScorer(context, settings), second)


class PairScorer:
    """One of our rerankers with its answer cache, as a cross-encoder for MTEB."""

    def __init__(self, context: TaskContext, settings: TextSearchSettings) -> None:
        from mteb.models.model_meta import ModelMeta

        self.reranker = context.open_extra_model(RERANKER)
        self.prompt = settings.reranker_prompt
        meta = {"name": f"eyechart/{Path(self.reranker.card.name).name}", "revision": "local"}
        self.mteb_model_meta = ModelMeta.create_empty(overwrites=meta | {"model_type": ["cross-encoder"]})

    def predict(self, inputs1: Any, inputs2: Any, **others: Any) -> Any:  # noqa: ARG002
        """Score pairs of a query and a document."""
        queries, documents = ([text for batch in part for text in batch["text"]] for part in (inputs1, inputs2))
        places: dict[str, list[int]] = {}
        for place, query in enumerate(queries):
            places.setdefault(query, []).append(place)
        lists = [
            Shortlist(query, self.prompt + query, tuple(documents[i] for i in own)) for query, own in places.items()
        ]
        scores = np.empty(len(queries))
        for query, row in self.reranker.score(lists):
            scores[places[query]] = row
        return library_scores(scores, self.reranker.card)


@cache
def _encoder_class() -> Any:
    """Create an encoder class for MTEB; a function because the library is imported on first use."""
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction

    class StoredEncoder(AbsEncoder):  # type: ignore[misc]  # the library has no types
        """One of our encoders with its embedding cache."""

        def __init__(self, context: TaskContext, prompts: Mapping[str, str], *, normalize: bool) -> None:
            self.normalize = normalize
            self.embed = partial(context.encoder.texts, language=context.info.language)
            self.prompts = prompts
            card = context.encoder.card
            meta: dict[str, Any] = {"name": f"eyechart/{Path(card.name).name}", "revision": "local"}
            meta["similarity_fn_name"] = ScoringFunction(card.similarity)
            self.mteb_model_meta = ModelMeta.create_empty(overwrites=meta)

        def encode(self, inputs: Any, *, prompt_type: Any = None, **others: Any) -> Any:  # noqa: ARG002
            texts = [text for batch in inputs for text in batch["text"]]
            role = getattr(prompt_type, "value", "")
            vectors = self.embed(texts, role=role, prompt=self.prompts.get(role, ""))
            return unit(vectors) if self.normalize else vectors

    return StoredEncoder
