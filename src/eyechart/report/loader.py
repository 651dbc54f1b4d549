"""Loading results: files or folders, ours and the tables that other tools write."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eyechart.errors import ResultError, UsageError
from eyechart.io.files import TEMPORARY
from eyechart.io.progress import PROGRESS_PREFIX
from eyechart.io.safe_parse import DAMAGED, is_number
from eyechart.io.text_tables import unguarded
from eyechart.results import IDENTITY, Result, parse_documents, result_from_dict

OURS = "eyechart"
PUBLISHED = "published"
SUFFIXES = (".csv", ".json", ".jsonl")


@dataclass(frozen=True)
class LoadedResult:
    """A result, the tool that wrote it, and the argument that led to it."""

    result: Result
    origin: str = OURS
    argument: str = ""


@dataclass(frozen=True)
class SkippedFile:
    """A file in a folder, or a line of a file, that could not be used, and the reason."""

    path: Path
    reason: str


@dataclass(frozen=True)
class LoadedResults:
    """All results of a command's arguments, and the skipped files."""

    found: tuple[LoadedResult, ...]
    skipped: tuple[SkippedFile, ...] = ()


Argument = str | Path | Result
"""A result file, a folder of result files, or a result in memory."""


def load_results(arguments: Argument | Sequence[Argument]) -> LoadedResults:
    """Read result files, and every result file below each folder; results in memory are used directly.

    A file given as an argument must be a result. In a folder, other files are skipped and listed in ``skipped``.

    Raises:
        ResultError: If a given file cannot be used, or no results were found at all.
    """
    found: list[LoadedResult] = []
    skipped: list[SkippedFile] = []
    seen: set[Path] = set()
    names: dict[str, object] = {}
    listed = [arguments] if isinstance(arguments, str | Path | Result) else list(arguments)
    for argument in listed:
        if isinstance(argument, Result):
            found.append(LoadedResult(argument, argument=str(argument.path or "")))
            continue
        path = Path(argument)
        for file in result_files(path):
            if file.resolve() in seen:
                continue
            seen.add(file.resolve())
            try:
                results, damaged = read_any(file)
                for result, origin in results:
                    # The class names of a dataset take most of the memory: results share them.
                    own = result.details.get("classnames")
                    known = names.setdefault(result.dataset, own)
                    shared = {**result.details, "classnames": known}
                    one = replace(result, details=shared) if own and own == known else result
                    found.append(LoadedResult(one, origin, str(argument)))
                skipped += [SkippedFile(file, reason) for reason in damaged]
            except ResultError as error:
                if not path.is_dir():
                    raise
                skipped.append(SkippedFile(file, error.message))
    if not found:
        shown = ", ".join(map(str, listed)) or "no argument"
        advice = "Other files checked: {n}. Pass result files, or folders that contain some."
        raise ResultError("No results in {path}.", advice=advice, path=shown, n=len(skipped))
    return LoadedResults(tuple(found), tuple(skipped))


def read_any(path: Path) -> tuple[list[tuple[Result, str]], tuple[str, ...]]:
    """Read all results of one file with the name of the tool that wrote it, and messages about damaged lines.

    Raises:
        ResultError: If it is not a result file of a known format.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        advice = "Supported file types: {names}."
        raise ResultError("{path} is not a result file.", advice=advice, path=path, names=", ".join(SUFFIXES))
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:  # keeps line ends inside cells
            text = stream.read()
    except OSError as error:
        raise ResultError("Cannot read {path} ({reason}).", path=path, reason=error.strerror) from error
    except UnicodeDecodeError as error:
        raise ResultError("{path} is not a text file ({reason}).", path=path, reason=error.reason) from error
    if suffix == ".csv":
        results, damaged = _read_csv(path, text), tuple[str, ...]()
    else:  # one JSON object, or several, one per line
        found = parse_documents(text, path)
        results, damaged = [_from_object(body, path) for body in found.bodies], found.damaged
    if not results:
        raise ResultError("{path} contains no results.", path=path)
    return results, damaged


def result_files(path: Path) -> Iterator[Path]:
    """Yield the file itself, or the files below a folder that may be results, in a fixed order."""
    if not path.exists():
        raise UsageError(
            "There is no file or folder {path}.", advice="Pass result files, or folders of them.", path=path
        )
    listed = [path] if path.is_file() else (file for file in sorted(path.rglob("*")) if file.suffix.lower() in SUFFIXES)
    for file in listed:
        # Files that belong to a result rather than being one: ``out/*`` in a shell matches those, too.
        lines = file.suffix == ".jsonl" and (file.stem.endswith(".records") or file.with_suffix(".json").exists())
        if file.is_file() and not lines and not file.name.startswith((TEMPORARY, PROGRESS_PREFIX)):
            yield file


def _from_object(body: Any, path: Path) -> tuple[Result, str]:
    """Recognise the format of one JSON object by its keys."""
    if not isinstance(body, dict):
        raise ResultError("{path} is not a result file.", path=path)
    if "dataset" in body and isinstance(body.get("metrics"), dict):
        origin = OURS if "schema" in body else "CLIP_benchmark" if "pretrained" in body else "EvalScope"
        return result_from_dict(body, path), origin
    for keys, origin, read in PEER_OBJECTS:
        if keys <= body.keys():
            try:
                return read(body, path), origin
            except DAMAGED as error:
                raise ResultError(
                    "{path} is damaged: {reason!r}.", advice="Leave it out.", path=path, reason=error
                ) from error
    if "dataset" in body and "metrics" in body:
        raise ResultError("{path} has no metrics: the run that wrote it produced no numbers.", path=path)
    raise ResultError(
        "{path} is not a result file.", advice="A result has the keys dataset, model, task, metrics.", path=path
    )


# Results of other tools: the tables of CLIP_benchmark and VLMEvalKit, the JSON of EvalScope and MTEB.


Row = Mapping[str, str]


def _read_csv(path: Path, text: str) -> list[tuple[Result, str]]:
    """Read a table of results: one written by ``build``, or one of VLMEvalKit's, recognised by its file name."""
    try:
        rows = _table_rows(text)
    except (csv.Error, ValueError) as error:
        raise ResultError("{path} is not a table ({reason}).", path=path, reason=error) from error
    columns = set(rows[0]) if rows else set()
    if {"dataset", "model", "task"} <= columns:
        return [(_from_table_row(row, path), "CLIP_benchmark") for row in rows]
    if rows and _VLM_FILE.search(path.stem):
        return [(_from_vlm_table(rows, path), "VLMEvalKit")]
    raise ResultError(
        "{path} is not a table of results.",
        advice="It needs the columns dataset, model and task, or a name like VLMEvalKit's MODEL_DATASET_acc.csv.",
        path=path,
    )


def _table_rows(text: str) -> list[Row]:
    """Read the rows as mappings; unnamed columns, such as pandas' index, are dropped."""
    lines = csv.reader(io.StringIO(text, newline=""))
    header = [unguarded(name) for name in next(lines, ())]
    names = [name for name in header if name and not name.startswith("Unnamed:")]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the column {twice[0]!r} occurs twice")
    rows: list[Row] = []
    for cells in filter(None, lines):
        if any(cells[len(header) :]):
            raise ValueError(f"line {lines.line_num} has more cells than the header")
        full = [*map(unguarded, cells), *[""] * (len(header) - len(cells))]
        found = dict(zip(header, full, strict=False))
        rows.append({name: found[name] for name in names})
    return rows


_SPOILT = re.compile(r"\s*[-+]?(\d+,\d+|\d+([.,]\d+)?\s*%)\s*")
"""Numbers as spreadsheets write them: with a decimal comma, or in per cent."""


def _from_table_row(row: Row, path: Path) -> Result:
    """Read a line of ``benchmark.csv``: numbers outside the identity are metrics; ``x_low``, ``x_high`` bound ``x``."""
    texts = {*IDENTITY, "model_fullname"}
    cells = {key: text for key, text in row.items() if key not in texts}
    spoilt = [f"{key} is {text!r}" for key, text in cells.items() if _SPOILT.fullmatch(text)]
    if spoilt:
        raise ResultError("{path}: {first}, but numbers must be written like 0.885.", path=path, first=spoilt[0])
    numbers = {key: value for key, text in cells.items() if (value := _number(text)) is not None}
    bounded = sorted(key for key in numbers if f"{key}_low" in numbers and f"{key}_high" in numbers)
    bounds = {f"{key}_{end}" for key in bounded for end in ("low", "high")}
    body: dict[str, Any] = {key: row[key] for key in IDENTITY if row.get(key)}
    truths = {key: text == "True" for key, text in cells.items() if text in ("True", "False")}
    body["metrics"] = {key: value for key, value in numbers.items() if key not in bounds} | truths
    body["intervals"] = {key: (numbers[f"{key}_low"], numbers[f"{key}_high"]) for key in bounded}
    return result_from_dict(body, path)


def _from_evalscope_report(body: Mapping[str, Any], path: Path) -> Result:
    """Read a report of EvalScope's native backend: named metrics, each with categories."""
    metrics: dict[str, float] = {}
    counts: dict[str, int] = {}
    for metric in body["metrics"]:
        name = str(metric.get("name") or "score")
        if is_number(metric.get("score")):
            metrics[name] = metric["score"]
            counts |= {name: int(metric["num"])} if metric.get("num") else {}
        for category in metric.get("categories") or ():
            label = category.get("name")
            label = "/".join(map(str, label)) if isinstance(label, list | tuple) else str(label)
            if is_number(category.get("score")) and label != "default":
                metrics[f"{name}|{label}"] = category["score"]
    return _result(body["dataset_name"], body["model_name"], "evalscope", metrics, path, counts=counts)


def _from_mteb(body: Mapping[str, Any], path: Path) -> Result:
    """Read a result of MTEB, also as run by EvalScope: the scores of the test split; abstention curves are left out.

    Several subsets (languages) are averaged, as in MTEB's own tables.
    """
    splits = body["scores"]
    split = "test" if "test" in splits else next(iter(splits), "")
    rows = splits.get(split) or [{}]
    names = [key for key in rows[0] if not key.startswith("nauc_") and all(is_number(row.get(key)) for row in rows)]
    kept = {key: math.fsum(row[key] for row in rows) / len(rows) for key in names}
    if len(rows) > 1 and "main_score" in kept:
        kept |= {f"{row.get('hf_subset')}|main_score": row["main_score"] for row in rows}
    model = path.parent.parent.name.removeprefix("eval__").replace("__", "/")  # above the folder of the revision
    data = {"split": split, "main_metric": "main_score"}
    return _result(body["task_name"], model, "mteb", kept, path, data=data)


def _result(dataset: str, model: str, task: str, metrics: Mapping[str, float], path: Path, **known: Any) -> Result:
    return result_from_dict({"dataset": dataset, "model": model, "task": task, "metrics": metrics, **known}, path)


PEER_OBJECTS: Sequence[tuple[frozenset[str], str, Callable[[Mapping[str, Any], Path], Result]]] = (
    (frozenset({"dataset_name", "model_name", "metrics"}), "EvalScope", _from_evalscope_report),
    (frozenset({"task_name", "scores", "mteb_version"}), "MTEB", _from_mteb),
)
"""JSON objects of other tools: the keys that identify them, the tool, the reader."""


_VLM_FILE = re.compile(r"_(acc|score)$")
_WHOLE = ("", "none", "overall", "all", "test", "validation", "val", "dev")
"""Row names for the whole dataset. Of several splits the first of these is quoted."""


def _from_vlm_table(rows: Sequence[Row], path: Path) -> Result:
    """Read ``MODEL_DATASET_acc.csv``: text columns name the row, the others are metrics, as fractions or per cent."""
    metrics: dict[str, float] = {}
    splits = [row["split"] for row in rows if row.get("split") in _WHOLE]
    split = min(splits, key=_WHOLE.index, default="")
    for row in rows:
        names = [value for value in row.values() if value and _number(value) is None]
        part = "/".join(name for name in names if name.lower() not in _WHOLE or (name in splits and name != split))
        for column, text in row.items():
            value = _number(text)
            if value is not None:
                metrics[f"{part}|{column}" if part else column] = value
    # Per cent become fractions; tables of points (MME goes up to 2000) are left unchanged.
    scale = 100.0 if 1 < max(metrics.values(), default=0.0) <= 100 else 1.0
    fractions = {key: value / scale for key, value in metrics.items()}
    # In MODEL_DATASET the model is the name of a folder above, or ends at the first underscore.
    stem = _VLM_FILE.sub("", path.stem)
    model, _, dataset = stem.partition("_")
    model, dataset = (model, dataset) if dataset else ("", stem)
    for name in reversed([folder.name for folder in path.parents if folder.name]):
        if stem.startswith(f"{name}_"):
            model, dataset = name, stem[len(name) + 1 :]
    return _result(dataset, model, "vlmevalkit", fractions, path, data={"split": split} if split else {})


def _number(text: object) -> float | None:
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
