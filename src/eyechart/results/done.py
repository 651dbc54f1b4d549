"""Whether a job's result is there already. What is not known to be the same is not the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from eyechart.errors import ResultError
from eyechart.io.untrusted import parse_json
from eyechart.results.files import find_result, read_documents, read_result, records_file
from eyechart.results.lines import identity_of
from eyechart.results.result import Result
from eyechart.types import Job, digest_json

WORDS = {
    "settings": "other settings",
    "model": "another model",
    "data": "other data",
    "code": "another version of Eyechart",
}
"""What a result is made from, in words for people."""


def is_done(job: Job, now: Mapping[str, str | None]) -> tuple[Result | None, str]:
    """Return the job's result if its output holds it and it would come out the same today; if not, why not.

    Args:
        job: What is to be done.
        now: What the job would be made from now: the identities of settings, model, data and code.
    """
    try:
        result = find_result(job.output, job.names) if job.append else read_result(job.output)
    except ResultError as error:
        return None, error.message
    if result is None:
        return None, ""
    why = _why_not(result, job, now)
    return (None, f"{job.output} {why}") if why else (result, "")


def _why_not(result: Result, job: Job, now: Mapping[str, str | None]) -> str:
    """Say why a result does not stand for a job of today; empty if it does."""
    if result.altered:
        return "was changed after it was written"
    records = records_file(result)
    if records is not None and (not records.is_file() or records.stat().st_size != result.record_info.get("bytes")):
        return "has not the records that were written with it"
    then = result.job.get("identity")
    if not isinstance(then, Mapping):
        return "does not say what it was made from"
    unknown = [word for part, word in WORDS.items() if now.get(part) is None]
    other = [word for part, word in WORDS.items() if then.get(part) != now.get(part)]
    if unknown:
        return f"may have been made with {unknown[0]}: that is not known without a run"
    if not other:
        return ""
    known = _other_settings(result, job) if other[0] == WORDS["settings"] else ""
    return f"was made with {other[0]}{known}"


def _other_settings(result: Result, job: Job) -> str:
    """Name the settings that differ, as far as a result says them in plain."""
    then = {**result.job.get("settings", {}), **{name: result.job.get(name) for name in ("limit", "on_error")}}
    now = {**job.settings, "limit": job.dataset.limit, "on_error": job.on_error}
    then["split"], now["split"] = result.data.get("split"), job.dataset.split
    names = [name for name in {**then, **now} if digest_json(then.get(name)) != digest_json(now.get(name))]
    changes = [f"{name} {_brief(then.get(name))}, now {_brief(now.get(name))}" for name in names]
    return f" ({'; '.join(changes)})" if changes else ""


def _brief(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 30 else f"{text[:30]}..."


def check_owner(job: Job) -> None:
    """Refuse to write over the result of another model, dataset, task or language, or over what is no result at all.

    Raises:
        ResultError: If the output holds such a thing.
    """
    if job.output.is_dir():
        raise ResultError(
            f"{job.output} is a folder, where a result file would be.",
            advice="Move it, or choose another --output.",
        )
    try:
        found = read_documents(job.output)
    except ResultError:
        if job.output.is_file() and _is_foreign(job.output.read_bytes()):
            raise _foreign(job) from None
        return  # none there, or one that is damaged
    if not all(isinstance(body, dict) and {"dataset", "metrics"} <= body.keys() for body in found.bodies):
        raise _foreign(job)
    if job.append:
        if not found.by_line:
            raise ResultError(
                f"{job.output} holds a result over several lines: none can be added.",
                advice="Choose another --output, or move that file.",
            )
        return
    others = [names for body in found.bodies if _by_path(names := identity_of(body)) != _by_path(job.names)]
    if others:
        raise ResultError(
            f"{job.output} holds the result of {' '.join(filter(None, others[0]))}, not of {job.title}, and is not "
            "written over.",
            advice="Put {dataset}, {model}, {pretrained}, {language} or {task} into --output, name a folder "
            "(--output FOLDER/), move that file, or keep several results in one file: --append.",
        )


def _by_path(names: tuple[str, ...]) -> tuple[str, ...]:
    """Write the dataset as a path is written: ``./photos/`` is ``photos``."""
    return str(PurePath(names[0])), *names[1:]


def _foreign(job: Job) -> ResultError:
    return ResultError(
        f"{job.output} is no result of {job.title}, and is not written over.",
        advice="Choose another --output, or move that file.",
    )


def _is_foreign(content: bytes) -> bool:
    """Tell whether what cannot be read as a result is something else: neither a damaged one, nor half of one."""
    for text in (content, content.partition(b"\n")[0]):  # other tools put several results into one file, line by line
        try:
            body = parse_json(text)
        except ValueError:
            continue
        return not (isinstance(body, dict) and "checksum" in body)
    return not content.lstrip().startswith(b"{") and bool(content.strip())
