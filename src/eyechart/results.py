"""Result files: one JSON with the numbers and where they came from, one JSON-lines file with a record per sample.

The first six keys are those that CLIP_benchmark writes, with its values; the rest is ours. Everything that people
look at later (tables, intervals, comparisons, the report) is made from these files.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eyechart.errors import ResultError
from eyechart.io.files import atomic_file, write_atomic
from eyechart.io.untrusted import json_lines, parse_json
from eyechart.types import Job

SCHEMA = 1
IDENTITY = ("dataset", "model", "pretrained", "task", "language")
"""The keys that say what a result is of."""


@dataclass(frozen=True)
class Result:
    """One evaluation: identity, metrics and everything needed to trust and repeat them."""

    dataset: str
    model: str
    pretrained: str
    task: str
    language: str
    metrics: Mapping[str, float]
    facts: Mapping[str, str | bool] = field(default_factory=dict)
    """What a task reports that is no number (save_path, ...); in the file it stands among the metrics."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    chance: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many samples were listed, scored and failed, and the n behind each metric where it differs."""
    notices: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Mapping[str, str], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    model_card: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """Dataset fingerprint, split, kind, source, digest of class names and templates."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    records: Mapping[str, Any] = field(default_factory=dict)
    """File name (beside the result), count and digest of the per-sample records."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of other tools' results, kept as they are."""
    path: Path | None = field(default=None, compare=False)

    @property
    def identity(self) -> tuple[str, ...]:
        """Return the values that say what this is a result of."""
        return tuple(str(getattr(self, key)) for key in IDENTITY)

    def iter_records(self) -> Iterator[dict[str, Any]]:
        """Stream the per-sample records; none if the result has no records file."""
        if self.path is None or not self.records:
            return
        # Only the name: a result file from elsewhere must not make us read outside its own folder.
        yield from read_json_lines(self.path.parent / Path(str(self.records["file"])).name)


def records_path(output: Path) -> Path:
    """Return where the per-sample records of a result go: beside it."""
    return output.with_name(f"{output.stem}.records.jsonl")


def write_result(result: Result, records: Iterable[Mapping[str, Any]], output: Path) -> Result:
    """Write the records, then the result that names them; each file appears whole or not at all."""
    target = records_path(output)
    digest, count = hashlib.sha256(), 0
    try:
        with atomic_file(target) as stream:
            for record in records:
                line = to_json(record).encode("utf-8", "backslashreplace") + b"\n"
                digest.update(line)
                stream.write(line)
                count += 1
            _retire(output, digest.hexdigest())
        body = _to_dict(result)
        body["records"] = {"file": target.name, "count": count, "sha256": digest.hexdigest()}
        write_atomic(output, (to_json(body, indent=1) + "\n").encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ResultError(
            f"Cannot write the result {output} ({error.strerror}).",
            advice="Embeddings are kept: run the same command again when the folder can be written.",
        ) from error
    return result_from_dict(body, output)


def _retire(output: Path, digest: str) -> None:
    """Remove an older result just before its records are replaced by others.

    Otherwise a run that is killed between the two files would leave a result beside records that it was not made of.
    """
    try:
        records = read_result(output).records
    except ResultError:
        return  # none there, or half of another tool's: nothing names the records
    if isinstance(records, Mapping) and records.get("sha256", digest) != digest:
        output.unlink(missing_ok=True)


def read_result(path: Path) -> Result:
    """Read one result file: ours, or one that CLIP_benchmark or EvalScope wrote.

    Raises:
        ResultError: If it is not valid JSON (a half-written file) or not a result.
    """
    try:
        body = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultError(f"Cannot read {path} ({error.strerror}).") from error
    except ValueError as error:
        raise ResultError(
            f"{path} is not valid JSON ({error}).", advice="It may be half-written: delete it and run again."
        ) from error
    if not isinstance(body, dict) or not isinstance(body.get("metrics"), dict) or "dataset" not in body:
        raise ResultError(
            f"{path} is not a result file.", advice="A result has the keys dataset, model, task, metrics."
        )
    return result_from_dict(body, path)


def is_done(job: Job) -> tuple[Result | None, str]:
    """Return the job's result if its output already holds it, and if not, why not.

    A file of ours must have been made by the very same job. A file of another tool has no job in it: there, the
    names must agree. A half-written or foreign file is not done.
    """
    if not job.output.exists():
        return None, "no result yet"
    try:
        result = read_result(job.output)
    except ResultError as error:
        return None, error.message
    if result.job:
        same = result.job.get("digest") == job.digest
        return (result, "") if same else (None, f"{job.output} was made with other settings")
    names = (job.dataset.name, job.model.name, job.model.pretrained, job.task, job.dataset.language)
    return (result, "") if result.identity == names else (None, f"{job.output} is a result of something else")


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Stream a JSON-lines file; a bad line is an error that names its number."""
    for number, row in json_lines(path, ResultError):
        if not isinstance(row, dict):
            raise ResultError(f"{path}, line {number}: not a JSON object.")
        yield row


def to_json(value: object, indent: int | None = None) -> str:
    """Serialise to valid JSON: a float that is not a number becomes null."""
    return json.dumps(_clean(value), ensure_ascii=False, indent=indent, allow_nan=False)


def _clean(value: Any) -> Any:
    """Turn numpy scalars, tuples, paths and non-finite floats into what JSON knows."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int | bool) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(item) for item in value]
    if hasattr(value, "tolist"):
        return _clean(value.tolist())
    return str(value)


def _to_dict(result: Result) -> dict[str, Any]:
    body: dict[str, Any] = {
        "dataset": result.dataset,
        "model": result.model,
        "pretrained": result.pretrained,
        "task": result.task,
        "metrics": {**result.facts, **result.metrics},
        "language": result.language,
    }
    body.update(result.extra)
    ours = (
        "intervals",
        "chance",
        "counts",
        "notices",
        "failures",
        "details",
        "model_card",
        "data",
        "provenance",
        "job",
    )
    body.update({key: getattr(result, key) for key in ours})
    body["schema"] = SCHEMA
    cleaned: dict[str, Any] = _clean(body)
    return cleaned


_OUR_KEYS = frozenset(Result.__dataclass_fields__) - {"extra", "facts", "path"}


_MAPPINGS = ("chance", "counts", "details", "model_card", "data", "provenance", "job", "records")
_LISTS = ("notices", "failures")


def result_from_dict(body: Mapping[str, Any], path: Path) -> Result:
    """Make a result of the object in a result file; unknown keys are kept in ``extra``.

    Raises:
        ResultError: If a part is of another kind than ours are: whoever reads the result later relies on that.
    """
    wrong = [key for key in _MAPPINGS if not isinstance(body.get(key, {}), Mapping)]
    wrong += [key for key in _LISTS if not _is_list_of_mappings(body.get(key, []))]
    try:
        if wrong:
            raise TypeError(f"{', '.join(wrong)}: of another kind than expected")
        return _from_dict(body, path)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ResultError(f"{path} is damaged: {error!r}.", advice="Write it again, or leave it out.") from error


def _is_list_of_mappings(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _from_dict(body: Mapping[str, Any], path: Path) -> Result:
    numbers = {key: value for key, value in body["metrics"].items() if not isinstance(value, bool | str)}
    metrics = {str(key): float(value) for key, value in numbers.items() if isinstance(value, int | float)}
    known = {key: body[key] for key in _OUR_KEYS if key in body}
    known["metrics"] = {key: value for key, value in metrics.items() if math.isfinite(value)}
    known["facts"] = {key: value for key, value in body["metrics"].items() if key not in numbers}
    intervals = {key: (pair[0], pair[1]) for key, pair in body.get("intervals", {}).items()}
    known["intervals"] = {key: pair for key, pair in intervals.items() if all(map(_is_number, pair))}
    for key in ("chance", "counts"):
        known[key] = {name: value for name, value in body.get(key, {}).items() if _is_number(value)}
    for key in ("notices", "failures"):
        known[key] = tuple(body.get(key, ()))
    for key in IDENTITY:
        known[key] = str(body.get(key, "en" if key == "language" else ""))
    extra = {key: value for key, value in body.items() if key not in _OUR_KEYS and key != "schema"}
    return Result(**known, extra=extra, path=path)
