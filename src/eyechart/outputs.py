"""Output paths: ``--output`` expanded for each job, and checks that results can be written."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from eyechart.datasets.resolve import plain_name
from eyechart.errors import ResultError, UsageError, did_you_mean
from eyechart.messages import UserMessage
from eyechart.results import read_result
from eyechart.types import Job, ModelSpec, digest_json

FOLDER = "results/"
"""Default output folder."""
LONGEST = 120
"""Maximum length of a generated file name, in characters."""
NAME_BYTES, SUFFIX_BYTES = 255, 24
"""Maximum length of a file name on common file systems, and room in it for the suffixes of records and predictions."""
USUAL_LANGUAGE = "en"
MODEL_FILES = (".json", ".onnx", ".pt", ".pth", ".bin", ".safetensors", ".ckpt")
CONFIG = Path("configs") / "task_config.yaml"
LOG = Path("logs") / "eval_log.log"
RESERVED = frozenset({"configs", "logs"})
"""Folders of a `RunFolder` that do not belong to a model."""


def place_of(
    template: str | None,
    model: ModelSpec,
    dataset: str,
    language: str,
    task: str,
    *,
    split: str = "test",
    usual_task: bool = False,
) -> Path:
    """Return the path of a job's result: ``--output`` with placeholders filled in, or a short name in that folder.

    The template is a file, or a folder if it exists or ends with a slash; None means `FOLDER`. The usual task for such
    data is omitted from the name.
    """
    path = _filled(template or FOLDER, model, dataset, language, task, split)
    if not (template or FOLDER).endswith(("/", os.sep)) and not os.path.isdir(path):  # noqa: PTH112 - False for a name that is too long
        return path
    # The name depends on the job alone, so that every run finds the same job's result and can skip it.
    parts = [_short(plain_name(dataset)), _without_suffix(_short(model.name))]
    if model.pretrained not in ("", model.name):
        parts.append(_without_suffix(_short(model.pretrained)))
    parts += [] if language == USUAL_LANGUAGE else [language]
    parts += [] if split == "test" else [_short(split)]
    parts += [] if usual_task else [_short(task)]
    name = re.sub(r"[^\w.+=@-]+", "_", "_".join(parts))
    return path / f"{name if len(name) <= LONGEST else f'{name[: LONGEST - 9]}-{digest_json(name)[:8]}'}.json"


def _short(name: str) -> str:
    """Return a name or relative path unchanged, and an absolute path as its last part with a short digest."""
    path = Path(name)
    if not path.is_absolute() and ".." not in path.parts:
        return str(path) if name else ""
    return f"{path.name or 'root'}-{digest_json(str(path.absolute()))[:6]}"


def _without_suffix(name: str) -> str:
    """Remove the suffix of a model's file, which would stand before that of the result."""
    return next((name.removesuffix(suffix) for suffix in MODEL_FILES if name.endswith(suffix)), name)


def _filled(template: str, model: ModelSpec, dataset: str, language: str, task: str, split: str) -> Path:
    """Fill in the placeholders; slashes in values never create folders."""
    pretrained = model.pretrained
    values = {
        "dataset": plain_name(dataset),
        "pretrained": Path(pretrained).name if os.path.exists(pretrained) else pretrained,  # noqa: PTH110 - may be ""
        "pretrained_full_path": pretrained,
        "model": model.name,
        "language": language,
        "task": task,
        "split": split,
    }
    for name in re.findall(r"\{(.*?)\}", template):
        if name not in values:
            known = [f"{{{value}}}" for value in values]
            hint = did_you_mean(f"{{{name}}}", known, UserMessage("Known: {names}.", names=", ".join(known)))
            raise UsageError("{--output}: unknown placeholder {{{name}}}.", advice=hint, name=name)
    if "://" in template:
        advice = "Only vectors can be stored remotely: EYECHART_STORE=s3://... Copy the results after the run."
        raise UsageError("{--output} must be a local path, not a URL.", advice=advice)
    for key, value in values.items():
        template = template.replace(f"{{{key}}}", value.strip("/").replace("/", "_").replace("\\", "_"))
    return Path(template).expanduser()  # the shell does not expand ~ in quotes or config files


def check_outputs(jobs: list[Job]) -> None:
    """Reject jobs that would overwrite each other's output, and folders that cannot be written."""
    seen: dict[str, Job] = {}
    for job in jobs:
        *folders, stem = (len(os.fsencode(part)) for part in (*job.place.parent.parts, job.place.stem))
        if max(stem + SUFFIX_BYTES, *folders, 0) > NAME_BYTES:
            advice = "Use at most {n} bytes in {--output}: records and predictions have the same name with suffixes."
            most = NAME_BYTES - SUFFIX_BYTES
            raise UsageError("The output name is too long: {path}.", advice=advice, path=job.place, n=most)
        other = seen.setdefault(str(job.place).removesuffix(".json"), job)  # the records have the same stem
        if other is not job:
            text = "Two jobs would write {path}, or its records: {first} and {second}."
            advice = (
                "Use {{dataset}}, {{model}}, {{pretrained}}, {{language}}, {{task}} or {{split}} in {--output}, "
                "end it with / to make it a folder, or append to one file with {--append}."
            )
            raise UsageError(text, advice=advice, path=job.output, first=other.title, second=job.title)
    saving = [job for job in jobs if job.settings.get("save_clf")]
    if len(saving) > 1:
        text = "{n} jobs would write {save_clf}: {title}, {saving_title}."
        advice = "{--save_clf} saves one classifier: select one model, dataset and language."
        one, other, *_ = saving
        path = one.settings["save_clf"]
        raise UsageError(text, advice=advice, n=len(saving), save_clf=path, title=one.title, saving_title=other.title)
    for folder in dict.fromkeys(job.output.parent for job in jobs):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK):
            advice = "Check {existing}, or choose another folder with {--output}."
            raise UsageError("Cannot write results to {path}.", advice=advice, path=folder, existing=existing)


class RunFolder:
    """The folder of a run with one subfolder per model: ``<root>/<model>/<dataset>_<task>.json``.

    Two models never share a subfolder, even if their names end alike.
    """

    def __init__(self, root: Path, *, timestamp: bool = False) -> None:
        self.root = root / datetime.now().astimezone().strftime("%Y%m%d_%H%M%S") if timestamp else root
        self._owners: dict[str, str] = {}

    def model_folder(
        self, names: Sequence[str], identity: object, taken: Callable[[Path], bool] = lambda _: False
    ) -> Path:
        """Return the subfolder of a model: the last part of its name, with a digest if that is taken.

        Models that work together have several names. The identity (precision, prompt, ...) distinguishes models of the
        same name; ``taken`` tells whether a folder contains results that must not be overwritten.
        """
        own = digest_json([names, identity])
        base = "+".join(file_name(name.rstrip("/\\").replace("\\", "/").split("/")[-1]) or "model" for name in names)
        for folder in (base, f"{base}-{own[:8]}"):
            path = self.root / folder
            free = folder not in RESERVED and self._owners.get(folder, own) == own
            if free and all(model == label(names) for model in _models_in(path)) and not taken(path):
                self._owners[folder] = own
                return path
        return self.root / f"{base}-{own}"


def _models_in(folder: Path) -> Iterator[str]:
    for path in folder.glob("*.json"):
        with suppress(ResultError):  # not a result, so nothing that a run would overwrite
            yield read_result(path).model


def holds_other_captions(output: Path, made_with: str) -> bool:
    """Whether a result describes captions made with other settings, whose folder must not be overwritten."""
    try:
        return bool(read_result(output).details.get("made_with", made_with) != made_with)
    except ResultError:
        return False


def label(names: Sequence[str]) -> str:
    """Return the name in results of one or several models."""
    return " + ".join(names)


def result_path(folder: Path, dataset: str, task: str, language: str = USUAL_LANGUAGE) -> Path:
    """Return the path of a model's result."""
    tail = "" if language == USUAL_LANGUAGE else f"_{file_name(language)}"
    return folder / f"{file_name(plain_name(dataset))}_{file_name(task)}{tail}.json"


def file_name(text: str) -> str:
    """Convert any name to a plain file name: no folders, no leading dot."""
    return re.sub(r"[/\\:\0]+", "_", text.strip().strip("/")).lstrip(".")
