"""MTEB's own tasks, through the ``mteb`` library: it reads the data and scores, our encoders give the vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from eyechart.datasets.libraries.mteb import MtebDataset
from eyechart.errors import DataError, UsageError
from eyechart.metrics.vectors import unit
from eyechart.models.rerankers.reranker import Shortlist
from eyechart.tasks.base import Material, Prediction, Task
from eyechart.tasks.retrieval.text_prompts import UNIT, given_prompts, prompt_settings, prompts_of, with_prompt
from eyechart.tasks.retrieval.text_retrieval import RERANKER, as_its_library, reranker_of, second_stage
from eyechart.types import Metric, ModelSpec, Notice, Outcome

RETRIEVAL, RERANKING = "Retrieval", "Reranking"
WITH_RERANKER = frozenset({RETRIEVAL, RERANKING})
"""Types of tasks in which a reranker has something to do."""


@dataclass(frozen=True)
class MtebPrediction(Prediction):
    """What the library found: the object that it would write to a file."""

    found: Mapping[str, Any]
    notices: tuple[Notice, ...] = ()


class Mteb(Task):
    """The scores that the library computes, under its names; ``main_score`` is the one that it quotes."""

    name = "mteb"
    version = 2
    kinds = frozenset({"external"})
    roles = {RERANKER: "reranker"}  # noqa: RUF012 - declared as ClassVar above

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick the prompts and, with a reranker, how many documents it reads."""
        return {**prompt_settings(options), **second_stage(options)}

    def others(self, options: Mapping[str, Any]) -> dict[str, ModelSpec]:
        """Take the reranker."""
        return reranker_of(options)

    def model_options(self, family: str) -> dict[str, Any]:
        """Put prompts in front of texts here, by role, and nowhere else."""
        return given_prompts(family)

    def predict(self, material: Material, settings: Mapping[str, Any]) -> MtebPrediction:
        """Let the library evaluate our encoder; it scores as it goes, so there is nothing to keep in between."""
        dataset = material.manifest.dataset
        if not isinstance(dataset, MtebDataset):
            raise UsageError(f"{material.info.name} is no task of MTEB.", advice="Name it mteb/NAME.")
        try:
            found = _evaluate(material, settings, dataset)
        except (OSError, ConnectionError) as error:
            raise DataError(
                f"MTEB cannot read the data of {material.info.name} ({error}).",
                advice="Its datasets come from a hub: check the network, HF_HOME for a local copy, or give "
                "--dataset_root: a folder with one folder for each task.",
            ) from error
        [scores] = found.task_results
        notices = list(dataset.notices)
        if dataset.limit is not None:
            text = f"Only the first {dataset.limit} queries or rows count: this is not the published benchmark."
            notices.append(Notice("limited", dataset.limit, text))
        kind = {"type": dataset.task.metadata.type}
        return MtebPrediction(material.info, (), (), scores.to_dict() | kind, tuple(notices))

    def score(self, prediction: MtebPrediction, settings: Mapping[str, Any]) -> Outcome:  # noqa: ARG002 - none
        """Flatten what the library found."""
        numbers = flat_scores(prediction.found["scores"])
        metrics = {name: Metric(value, primary=name == "main_score") for name, value in numbers.items()}
        return Outcome(metrics, records=(), details={"mteb": prediction.found}, notices=prediction.notices)


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


def _evaluate(material: Material, settings: Mapping[str, Any], dataset: MtebDataset) -> Any:
    """Let the library evaluate the encoder; with a reranker, what the encoder finds first is what that one orders."""
    import mteb

    run = partial(mteb.evaluate, cache=None, co2_tracker=False, show_progress_bar=False)
    task = dataset.loaded()
    if RERANKER in material.others and dataset.task.metadata.type == RERANKING:
        return run(_reranker_class()(material, settings), task)
    encoder = _encoder_class()(material, prompts_of(material, settings), normalize=UNIT in settings)
    if RERANKER not in material.others:
        return run(encoder, task)
    with TemporaryDirectory() as folder:
        run(encoder, task, prediction_folder=folder)
        second = dataset.loaded().convert_to_reranking(folder, top_k=settings["top_k"])
        return run(_reranker_class()(material, settings), second)


@cache
def _reranker_class() -> Any:
    """Make the class that MTEB asks to score pairs of a query and a document."""
    from mteb.models.model_meta import ModelMeta

    class PairScorer:
        """One of our rerankers, behind the store of answers."""

        def __init__(self, material: Material, settings: Mapping[str, Any]) -> None:
            self.reranker = material.open_other(RERANKER)
            self.prompt = settings["reranker_prompt"]
            meta = {"name": f"eyechart/{Path(self.reranker.card.name).name}", "revision": "local"}
            self.mteb_model_meta = ModelMeta.create_empty(overwrites=meta | {"model_type": ["cross-encoder"]})

        def predict(self, inputs1: Any, inputs2: Any, **others: Any) -> Any:  # noqa: ARG002
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
            return as_its_library(scores, self.reranker.card)

    return PairScorer


@cache
def _encoder_class() -> Any:
    """Make the class that MTEB asks for vectors; a function, because the library is imported only when it is used."""
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction

    class StoredEncoder(AbsEncoder):  # type: ignore[misc]  # the library has no types
        """One of our encoders, behind the embedding store."""

        def __init__(self, material: Material, prompts: Mapping[str, str], *, normalize: bool) -> None:
            self.normalize = normalize
            self.embed = partial(material.encoder.texts, language=material.language)
            self.prompts = prompts
            card = material.encoder.card
            meta: dict[str, Any] = {"name": f"eyechart/{Path(card.name).name}", "revision": "local"}
            meta["similarity_fn_name"] = ScoringFunction(card.similarity)
            self.mteb_model_meta = ModelMeta.create_empty(overwrites=meta)

        def encode(self, inputs: Any, *, prompt_type: Any = None, **others: Any) -> Any:  # noqa: ARG002
            texts = [text for batch in inputs for text in batch["text"]]
            vectors = self.embed(with_prompt(self.prompts, getattr(prompt_type, "value", ""), texts))
            return unit(vectors) if self.normalize else vectors

    return StoredEncoder
