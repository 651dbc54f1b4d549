"""Where results go: what ``--output`` means for each job, and places that cannot take a result refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

from eyechart.datasets.resolve import plain_name
from eyechart.errors import UsageError, nearest
from eyechart.types import Job, ModelSpec, digest_json

FOLDER = "results/"
"""Where results go unless the user says otherwise."""
LONGEST = 120
"""Characters of a file's name; what is added for records and predictions must fit beside it."""
USUAL_LANGUAGE = "en"


def place_of(
    template: str | None, model: ModelSpec, dataset: str, language: str, task: str, *, usual_task: bool = False
) -> Path:
    """Return the file of a job's result: the template of ``--output`` filled in; in a folder, its short name.

    Args:
        template: What the user gave: a file, or a folder if it ends with a slash or is one. None: `FOLDER`.
        model: As it is called in the result.
        dataset: As the user wrote it.
        language: Of class names and captions.
        task: As the user wrote it.
        usual_task: Whether it is the one that such data are read by if nobody names one.
    """
    path = _filled(template or FOLDER, model, dataset, language, task)
    if not (template or FOLDER).endswith(("/", os.sep)) and not path.is_dir():
        return path
    # A name depends on its own job alone: the same job has the same name in every run, so that it can be skipped.
    parts = [_short(plain_name(dataset)), _short(model.name)]
    if model.pretrained not in ("", model.name):
        parts.append(_short(model.pretrained))
    parts += [] if language == USUAL_LANGUAGE else [language]
    parts += [] if usual_task else [_short(task)]
    name = re.sub(r"[^\w.+=@-]+", "_", "_".join(parts))
    return path / f"{name if len(name) <= LONGEST else f'{name[: LONGEST - 9]}-{digest_json(name)[:8]}'}.json"


def _short(name: str) -> str:
    """Write a name, or a path from here; one from elsewhere by its last part and a few digits that tell it apart."""
    path = Path(name)
    if not path.is_absolute() and ".." not in path.parts:
        return str(path) if name else ""
    return f"{path.name or 'root'}-{digest_json(str(path.absolute()))[:6]}"


def _filled(template: str, model: ModelSpec, dataset: str, language: str, task: str) -> Path:
    """Fill a template; a slash inside a value never makes a folder."""
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
    return Path(text).expanduser()  # no shell does it within quotes, or in a file of settings


def check_outputs(jobs: list[Job]) -> None:
    """Refuse two jobs with one output, unless it takes several, and folders that cannot be written."""
    seen: dict[str, Job] = {}
    for job in jobs:
        other = seen.setdefault(str(job.place).removesuffix(".json"), job)  # so are the records named
        if other is not job:
            raise UsageError(
                f"Two jobs would write {job.output}, or its records: {other.title} and {job.title}.",
                advice="Put {dataset}, {model}, {pretrained}, {language} or {task} into --output, end it "
                "with / to name a folder, or keep several results in one file: --append.",
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
