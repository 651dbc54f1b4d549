"""Where results go: the template of ``--output`` filled in, and places that cannot take a result refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

from eyechart.datasets.resolve import plain_name
from eyechart.errors import UsageError, nearest
from eyechart.types import Job, ModelSpec


def fill_output(template: str, model: ModelSpec, dataset: str, language: str, task: str) -> Path:
    """Fill the template of ``--output``; a slash inside a value never makes a folder."""
    pretrained = model.pretrained
    values = {
        "dataset": plain_name(dataset),
        "pretrained": Path(pretrained).name if os.path.exists(pretrained) else pretrained,  # noqa: PTH110 - may be ""
        "pretrained_full_path": pretrained,
        "model": model.name,
        "language": language,
        "task": task,
    }
    for name in re.findall(r"\{(.*?)\}", template):
        if name not in values:
            near = nearest(name, values)
            hint = f"Did you mean {{{near[0]}}}?" if near else f"Known: {', '.join(values)}."
            raise UsageError(f"--output: unknown placeholder {{{name}}}.", advice=hint)
    if "://" in template:
        raise UsageError(
            "--output must be a folder that this machine sees, not an address.",
            advice="Only vectors can be kept elsewhere: EYECHART_STORE=s3://... Copy results when the run is done.",
        )
    text = template
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value.strip("/").replace("/", "_").replace("\\", "_"))
    return Path(text)


def check_outputs(jobs: list[Job]) -> None:
    """Refuse two jobs with one output, unless it takes several, and folders that cannot be written."""
    seen: dict[str, Job] = {}
    for job in jobs:
        other = seen.setdefault(str(job.place).removesuffix(".json"), job)  # so are the records named
        if other is not job:
            raise UsageError(
                f"Two jobs would write {job.output}, or its records: {other.title} and {job.title}.",
                advice="Put {dataset}, {model}, {pretrained}, {language} or {task} into --output, or keep several "
                "results in one file: --append.",
            )
    saving = [job for job in jobs if job.settings.get("save_clf")]
    if len(saving) > 1:
        raise UsageError(
            f"{len(saving)} jobs would write {saving[0].settings['save_clf']}: {saving[0].title}, {saving[1].title}.",
            advice="--save_clf takes one classifier: name one model, dataset and language.",
        )
    for folder in dict.fromkeys(job.output.parent for job in jobs):
        _check_writable(folder)


def _check_writable(folder: Path) -> None:
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise UsageError(
            f"Cannot write results to {folder}.", advice=f"Check {existing}, or choose another place with --output."
        )
