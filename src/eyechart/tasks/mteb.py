"""MTEB's own tasks through the ``mteb`` library, which reads the data and scores our encoders' vectors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from eyechart.datasets.mteb import MtebDataset, image_column, without_progress_bars
from eyechart.errors import DataError, EyechartError, ModelError, UsageError, first_line
from eyechart.manifest import read_manifest
from eyechart.metrics.maxsim import maxsim
from eyechart.metrics.vectors import MultiVectors, unit
from eyechart.models.rerankers import Shortlist
from eyechart.settings.tasks import TextSearchSettings
from eyechart.tasks.base import Prediction, TaskContext, counted, prompts_of
from eyechart.tasks.mteb_records import Parts, combine
from eyechart.tasks.text_retrieval import GIVEN_PROMPTS, RERANKER, RerankingTask, library_scores
from eyechart.types import DatasetInfo, Input, Metric, Outcome, RecordForm

RETRIEVAL, RERANKING = "Retrieval", "Reranking"
WITH_RERANKER = frozenset({RETRIEVAL, RERANKING})
"""Task types that can use a reranker."""
FORMS: Mapping[str, RecordForm] = {
    "ZeroShotClassification": "label",
    "ImageClassification": "",
    "ImageClustering": "question",
    "Compositionality": "question",
    "VisualSTS(eng)": "",
    "VisualSTS(multi)": "",
}
"""Form of the records by type of a task with images; the other types rank documents."""


@dataclass(frozen=True)
class MtebPrediction(Prediction):
    """The library's result object, and the outcomes of the subsets of a task with images."""

    found: Mapping[str, Any]
    parts: Mapping[str, Outcome] = field(default_factory=dict)


class Mteb(RerankingTask):
    """The scores that the library computes, under its names; ``main_score`` is the one it reports.

    For tasks with images, the primary metric is computed by our own rules: it has an interval, chance level and
    records, and ties count as wrong. It equals the library's main score unless a tie decides.
    """

    name = "mteb"
    version = 3
    kinds = frozenset({"external"})
    model_options = GIVEN_PROMPTS
    Settings = TextSearchSettings

    def predict(self, context: TaskContext, settings: TextSearchSettings) -> MtebPrediction:
        """Run the library's evaluation, which predicts and scores in one go."""
        dataset = context.manifest.dataset
        if not isinstance(dataset, MtebDataset):
            raise UsageError("{name} is not an MTEB task.", advice="Use mteb/NAME.", name=context.info.name)
        card = context.encoder.card
        if card.multi_vector and not hasattr(dataset.task, "convert_to_reranking"):
            raise ModelError(
                "{model} returns several vectors per input, which {name} does not support.",
                advice="Use it for retrieval and reranking.",
                model=card.name,
                name=context.info.name,
            )
        try:
            with without_progress_bars():
                task = dataset.loaded()
                found, parts = _evaluate(context, settings, dataset, task)
        except EyechartError:
            raise
        except OSError as error:
            raise DataError(
                "MTEB cannot read the data of {name} ({reason}).",
                advice="Its datasets come from a hub: check the network or the local copy in HF_HOME, or use "
                "{--dataset_root}, a folder with one subfolder per task.",
                name=context.info.name,
                reason=first_line(error),
            ) from error
        except Exception as error:  # the rules and loaders of some 2,000 tasks
            raise DataError(
                "MTEB cannot evaluate {name} ({kind}: {reason}).",
                advice="Check that the data have the layout of the task's repository.",
                name=context.info.name,
                kind=type(error).__name__,
                reason=first_line(error),
            ) from error
        [scores] = found.task_results
        limited = "Only the first {n} queries or rows are scored: this is not the published benchmark."
        return MtebPrediction(
            context.info,
            (),
            (),
            scores.to_dict() | {"type": dataset.task.metadata.type},
            parts.found,
            counts=dict.fromkeys(("listed", "scored"), sum(len(part.records) for part in parts.found.values()))
            | {"encoded": parts.encoded},
            notices=(*dataset.notices, *dict.fromkeys(parts.notices), *counted("limited", dataset.limit or 0, limited)),
        )

    def score(self, prediction: MtebPrediction, settings: TextSearchSettings) -> Outcome:  # noqa: ARG002 - none
        """Flatten the library's scores; undefined ones, such as AP with more than two classes, are left out."""
        numbers = flat_scores(prediction.found["scores"])
        undefined = [name for name, value in numbers.items() if not math.isfinite(value)]
        own = combine(prediction.parts) if prediction.parts else Outcome({}, ())
        if not prediction.parts and not math.isfinite(numbers.get("main_score", math.nan)):
            raise DataError(
                "MTEB's main score of {name} is undefined (NaN).",
                advice="Check the data: a split may have too few rows or a single class.",
                name=prediction.info.name,
            )
        text = "{n} metrics of MTEB {n:is|are} undefined (NaN) and left out, such as {first}."
        notes = counted("undefined_metrics", len(undefined), text, first=next(iter(undefined), ""))
        metrics = {
            name: Metric(value, primary=name == "main_score" and not own.metrics)
            for name, value in numbers.items()
            if name not in undefined
        }
        return replace(
            own,
            metrics={**own.metrics, **{name: metric for name, metric in metrics.items() if name not in own.metrics}},
            details={**own.details, "mteb": prediction.found},
            notices=(*prediction.notices, *own.notices, *notes),
        )

    def inputs_of(self, info: DatasetInfo, settings: TextSearchSettings) -> tuple[Input, ...]:  # noqa: ARG002
        """Return what the task encodes."""
        return info.inputs

    def record_form(self, info: DatasetInfo) -> RecordForm:
        """Return the form of a task type's records."""
        return FORMS.get(info.measures, "ranking") if info.measures else ""


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


def _evaluate(context: TaskContext, settings: TextSearchSettings, dataset: MtebDataset, task: Any) -> tuple[Any, Parts]:
    """Run the library's evaluation; a reranker reorders the encoder's top results."""
    import mteb

    run = partial(mteb.evaluate, cache=None, co2_tracker=False, show_progress_bar=False)
    parts = Parts(context.info)
    if RERANKER in context.extra_models and dataset.task.metadata.type == RERANKING:
        return run(PairScorer(context, settings), task), parts
    encoder = _encoder_class()(context, prompts_of(context, settings), parts, normalize=settings.normalize_embeddings)
    if RERANKER not in context.extra_models:
        inner = task.metadata.tasks if task.is_aggregate else [task]
        several = sum(len(one.eval_splits) * len(one.hf_subsets) for one in inner) > 1
        for one in inner:
            parts.watch(one, several=several)
        return run(encoder, task), parts
    with TemporaryDirectory() as folder:
        run(encoder, task, prediction_folder=folder)
        second = dataset.loaded().convert_to_reranking(folder, top_k=settings.top_k)
        return run(PairScorer(context, settings), second), parts


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

        def __init__(self, context: TaskContext, prompts: Mapping[str, str], parts: Parts, *, normalize: bool) -> None:
            self.normalize = normalize
            self.context = context
            self.prompts = prompts
            self.parts = parts
            card = context.encoder.card
            meta: dict[str, Any] = {"name": f"eyechart/{Path(card.name).name}", "revision": "local"}
            meta["similarity_fn_name"] = ScoringFunction("MaxSim" if card.multi_vector else card.similarity)
            meta["modalities"] = [name for name in ("text", "image") if name in card.inputs]
            self.mteb_model_meta = ModelMeta.create_empty(overwrites=meta)

        def encode(self, inputs: Any, *, task_metadata: Any, prompt_type: Any = None, **others: Any) -> Any:  # noqa: ARG002
            role = getattr(prompt_type, "value", "")
            vectors = encode_rows(self.context, inputs.dataset, role, self.prompts.get(role, ""))
            vectors = unit(vectors) if self.normalize else vectors
            if "image" in task_metadata.modalities:
                vectors = self.parts.take(vectors, role)
            self.parts.encoded += len(vectors)
            # As the library passes several vectors per item: a list of arrays.
            return vectors.arrays if isinstance(vectors, MultiVectors) else vectors

        def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
            """Compare by MaxSim without padding, which the library's own does with zeros."""
            if not self.context.encoder.card.multi_vector:
                return super().similarity(embeddings1, embeddings2)
            queries, documents = (MultiVectors.of([*map(np.asarray, some)]) for some in (embeddings1, embeddings2))
            return maxsim(queries, documents)

    return StoredEncoder


def encode_rows(context: TaskContext, rows: Any, role: str, prompt: str) -> Any:
    """Encode rows with an image, a text or both; both are one joint input, or the sum of the vectors.

    MTEB's wrappers of dual encoders sum the vectors as the model returns them, before any normalisation; those of
    late-interaction models join the vectors of both.
    """
    encoder, told = context.encoder, {"role": role, "prompt": prompt}
    texts = [text or "" for text in rows["text"]] if "text" in rows.features else []
    if "image" not in rows.features:
        return encoder.texts(texts, language=context.info.language, **told)
    manifest = read_manifest(image_column(context.info, rows), progress=context.progress)
    with_image = [int(entry.id) for entry in manifest.entries]
    joint = bool(texts) and "image+text" in encoder.card.inputs
    embedded = (
        encoder.joint(manifest, [texts[i] for i in with_image], **told) if joint else encoder.images(manifest, **told)
    )
    if embedded.failures:
        raise DataError(
            "{name}: {n} images cannot be read, such as row {id} ({reason}).",
            advice="MTEB has no rule for missing images.",
            name=context.info.name,
            n=len(embedded.failures),
            id=embedded.failures[0].id,
            reason=embedded.failures[0].reason,
        )
    if not texts or (joint and len(with_image) == len(texts)):
        return embedded.vectors
    vectors = encoder.texts(texts, language=context.info.language, **told)
    if isinstance(vectors, MultiVectors):
        own, seen = dict(enumerate(vectors.arrays)), zip(with_image, embedded.vectors.arrays, strict=True)
        own |= {i: rows if joint else np.concatenate([own[i], rows]) for i, rows in seen}
        return MultiVectors.of(list(own.values()))
    vectors = vectors.copy()
    vectors[with_image] = embedded.vectors if joint else vectors[with_image] + embedded.vectors
    return vectors
