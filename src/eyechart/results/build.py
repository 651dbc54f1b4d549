"""A finished job as a result: the one place where results are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from eyechart.provenance import provenance, without_secret_values
from eyechart.results.result import Result
from eyechart.types import DatasetInfo, Job, Metric, ModelCard, Notice, Outcome, RecordForm


@dataclass(frozen=True)
class Done:
    """What is known of a job when it is done."""

    job: Job
    info: DatasetInfo
    fingerprint: str
    """Of the samples that were read."""
    other_splits: Mapping[str, str]
    """The same of further splits, such as the one that was learnt from."""
    card: ModelCard | None
    """Of the model; None if it was never needed and is not known."""
    outcome: Outcome
    counts: Mapping[str, int]
    notices: Sequence[Notice]
    failures: Sequence[Mapping[str, str]]
    profile: Mapping[str, float]
    measures: str
    records: RecordForm
    identity: Mapping[str, str | None]
    """What the job was made from: settings, model, data and code, as they were when it began."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """More of the circumstances: device, throughput, what was asked of an API."""


def make_result(done: Done) -> Result:
    """Put everything that is known about a finished job into a result."""
    job, info, card, outcome = done.job, done.info, done.card, done.outcome
    failed = done.counts.get("failed", 0)
    return Result(
        dataset=job.dataset.name,
        model=job.label or job.model.name,
        pretrained=job.model.pretrained,
        task=job.task,
        language=job.dataset.language,
        values=_with_primary(outcome.metrics, job.dataset.options.get("metric")),
        facts=outcome.facts,
        counts={**done.counts, "failed": failed},
        notices=tuple(asdict(notice) for notice in done.notices),
        failures=tuple(done.failures),
        details=outcome.details,
        model_card=asdict(card) | {"fingerprint": card.fingerprint} if card else {},
        data={
            "fingerprint": done.fingerprint,
            "split": info.split,
            **({"other_splits": dict(done.other_splits)} if done.other_splits else {}),
            "kind": info.kind,
            "measures": done.measures,
            "source": info.source,
            "benchmark": job.dataset.options.get("entry", ""),
            "prompts_digest": job.settings.get("prompts"),
            "n_classes": len(info.classnames) or None,
        },
        provenance=provenance()
        | {"precision": card.precision if card else None, "seconds": done.profile["total"]}
        | {"profile": dict(done.profile)}
        | dict(done.known),
        job={
            "digest": job.digest,
            "identity": dict(done.identity),
            "settings": dict(job.settings),
            "others": {part: without_secret_values(spec.what) for part, spec in job.others.items()},
            "on_error": job.on_error,
            "model": job.model.name,
            "model_type": job.model.family,
            **({"objects": objects} if (objects := _objects(job)) else {}),
            "reader": job.dataset.reader,
            "limit": job.dataset.limit,
            "caption_cleaning": job.dataset.options.get("caption_cleaning"),
        },
        record_info={"form": done.records},
        extra=_dumps(job, info),
    )


def _objects(job: Job) -> dict[str, str]:
    """Name the classes of what was handed over as an object: nobody can open it again by its name."""
    parts = {"model": job.model.given, "dataset": job.dataset.given}
    return {part: given.kind for part, given in parts.items() if given}


def _with_primary(metrics: Mapping[str, Metric], named: object) -> dict[str, Metric]:
    """Mark the metric that the catalogue quotes for this dataset as the primary one, if this task has it."""
    if named not in metrics:
        return dict(metrics)
    return {name: replace(metric, primary=name == named) for name, metric in metrics.items()}


def _dumps(job: Job, info: DatasetInfo) -> dict[str, Any]:
    """Add class names and templates where CLIP_benchmark puts them, if asked to."""
    found = {
        "classnames": list(info.classnames),
        "templates": dict(info.class_prompts) or list(info.templates),
    }
    return {key: found[key] for key in job.dump}
