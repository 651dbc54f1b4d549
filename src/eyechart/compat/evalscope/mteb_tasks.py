"""MTEB's own tasks, through the ``mteb`` library: it reads the data and scores, our encoders give the vectors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eyechart.compat.evalscope.context import Context
from eyechart.compat.evalscope.layout import Layout, result_path
from eyechart.compat.evalscope.schema import MtebEval
from eyechart.compat.evalscope.text_models import PlannedText
from eyechart.errors import DataError, EyechartError, UsageError, missing_extra, unknown_name
from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.provenance import provenance
from eyechart.results import Result, is_done, read_result, write_result
from eyechart.run import JobReport
from eyechart.types import DatasetSpec, Job, Metric


@dataclass(frozen=True)
class MtebStep:
    """One encoder on MTEB's tasks."""

    model: PlannedText
    jobs: tuple[Job, ...]
    skip_existing: bool = False

    def probe(self, context: Context) -> None:  # noqa: ARG002 - the protocol's signature
        """See that a remote model is there."""
        self.model.probe()

    def run(self, context: Context) -> Iterator[JobReport]:
        """Run one task after the other."""
        embeddings = self.model.embeddings(context)
        for job in self.jobs:
            if self.skip_existing and is_done(job)[0]:
                yield JobReport(job, result=read_result(job.output), skipped=True)
                continue
            try:
                yield JobReport(job, result=self._evaluate(job, embeddings))
            except EyechartError as error:
                yield JobReport(job, error=error)

    def _evaluate(self, job: Job, embeddings: StoredEmbeddings) -> Result:
        import mteb

        start = time.perf_counter()
        encoder = _encoder_class()(self.model, embeddings)
        [task] = find_tasks([job.dataset.name], job.settings)
        try:
            found = mteb.evaluate(encoder, task, cache=None, co2_tracker=False, show_progress_bar=False)
        except (OSError, ConnectionError) as error:
            raise DataError(
                f"MTEB cannot read the data of {job.dataset.name} ({error}).",
                advice="Its datasets come from the Hugging Face hub: check the network, or HF_HOME for a local copy.",
            ) from error
        [scores] = [result.to_dict() for result in found.task_results]
        card = embeddings.card
        result = Result(
            dataset=job.dataset.name,
            model=job.model.name,
            pretrained="",
            task=job.task,
            language=job.dataset.language,
            values={name: Metric(value) for name, value in flat_scores(scores["scores"]).items()},
            notices=tuple(asdict(notice) for notice in embeddings.notices()),
            details={"mteb": scores},
            model_card=asdict(card) | {"fingerprint": card.fingerprint},
            data={"kind": "mteb", "fingerprint": scores.get("dataset_revision", "")},
            provenance=provenance() | {"seconds": round(time.perf_counter() - start, 3), "precision": card.precision},
            job={"digest": job.digest, "settings": dict(job.settings), "model_type": job.model.family},
        )
        return write_result(result, (), job.output)


def mteb_steps(settings: MtebEval, encoders: Sequence[PlannedText], layout: Layout) -> list[MtebStep]:
    """Plan every encoder on every task; an unknown task is refused here."""
    if find_spec("mteb") is None:
        raise missing_extra("mteb", "mteb")
    if settings.limit is not None:
        raise UsageError(
            "limits does not apply to MTEB's own tasks: a part of one is another task.",
            advice="Remove limits, or use custom_tasks.",
        )
    chosen = {"languages": settings.languages, "splits": settings.splits, "mteb_version": version("mteb")}
    tasks = find_tasks(settings.task_names, chosen, settings.task_types)
    steps = []
    for model in encoders:
        folder = layout.model_folder([model.name], [model.spec, model.prompts])
        jobs = tuple(
            Job(
                model=model.spec,
                dataset=DatasetSpec(task.metadata.name, "mteb", task.metadata.name),
                task=f"mteb_{task.metadata.type}",
                settings={**chosen, "prompts": model.prompts},
                output=result_path(folder, task.metadata.name, f"mteb_{task.metadata.type}"),
            )
            for task in tasks
        )
        steps.append(MtebStep(model, jobs, settings.skip_existing or not settings.overwrite_results))
    return steps


def find_tasks(names: Sequence[str], chosen: Mapping[str, Any], types: Sequence[str] = ()) -> list[Any]:
    """Return MTEB's tasks by name, or all of some types."""
    import mteb

    options = {"languages": chosen["languages"] or None, "eval_splits": chosen["splits"] or None}
    if not names:
        return list(mteb.get_tasks(task_types=list(types) or None, **options))
    found = []
    for name in names:
        try:
            found.append(mteb.get_task(name, **options))
        except KeyError as error:
            # Manifest all of them takes seconds, so only whoever mistypes waits for it.
            raise unknown_name("MTEB task", name, [task.metadata.name for task in mteb.get_tasks()]) from error
    return found


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


@cache
def _encoder_class() -> Any:
    """Make the class that MTEB asks for vectors; a function, because the library is imported only when it is used."""
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta

    class OurEncoder(AbsEncoder):  # type: ignore[misc]  # the library has no types
        """One of our text encoders, behind the embedding store."""

        def __init__(self, model: PlannedText, embeddings: StoredEmbeddings) -> None:
            self.planned, self.embeddings = model, embeddings
            name = f"eyechart/{Path(model.name).name}"
            self.mteb_model_meta = ModelMeta.create_empty(overwrites={"name": name, "revision": "local"})

        def encode(self, inputs: Any, *, prompt_type: Any = None, **others: Any) -> Any:  # noqa: ARG002
            texts = [text for batch in inputs for text in batch["text"]]
            role = getattr(prompt_type, "value", "")
            return self.embeddings.texts(self.planned.with_prompt(role, texts))

    return OurEncoder
