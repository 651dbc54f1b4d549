"""Results as other tools write them: the tables of CLIP_benchmark and VLMEvalKit, the JSON of EvalScope and MTEB."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eyechart.errors import ResultError
from eyechart.io.cells import unguarded
from eyechart.io.untrusted import is_number
from eyechart.results import IDENTITY, Result, result_from_dict

Row = Mapping[str, str]


def read_csv(path: Path, text: str) -> list[tuple[Result, str]]:
    """Read a table of results: one that ``build`` wrote, or one of VLMEvalKit's, recognised by its file name."""
    try:
        rows = _table_rows(text)
    except (csv.Error, ValueError) as error:
        raise ResultError(f"{path} is not a table ({error}).") from error
    columns = set(rows[0]) if rows else set()
    if {"dataset", "model", "task"} <= columns:
        return [(_from_table_row(row, path), "CLIP_benchmark") for row in rows]
    if rows and _VLM_FILE.search(path.stem):
        return [(_from_vlm_table(rows, path), "VLMEvalKit")]
    raise ResultError(
        f"{path} is not a table of results.",
        advice="It needs the columns dataset, model and task, or a name like VLMEvalKit's MODEL_DATASET_acc.csv.",
    )


def _table_rows(text: str) -> list[Row]:
    """Read the rows by the names in the header; columns without a name, as pandas writes its index, are left out."""
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


# ----------------------------------------------------------------------------------------- CLIP_benchmark


_SPOILT = re.compile(r"\s*[-+]?(\d+,\d+|\d+([.,]\d+)?\s*%)\s*")
"""Numbers as a spreadsheet writes them: with a decimal comma, or in per cent."""


def _from_table_row(row: Row, path: Path) -> Result:
    """One line of ``benchmark.csv``: numbers that are not identity are metrics; ``x_low``, ``x_high`` bound ``x``."""
    texts = {*IDENTITY, "model_fullname"}
    cells = {key: text for key, text in row.items() if key not in texts}
    spoilt = [f"{key} is {text!r}" for key, text in cells.items() if _SPOILT.fullmatch(text)]
    if spoilt:
        raise ResultError(f"{path}: {spoilt[0]}, which is not how numbers are written here: 0.885.")
    numbers = {key: value for key, text in cells.items() if (value := _number(text)) is not None}
    bounded = sorted(key for key in numbers if f"{key}_low" in numbers and f"{key}_high" in numbers)
    bounds = {f"{key}_{end}" for key in bounded for end in ("low", "high")}
    body: dict[str, Any] = {key: row[key] for key in IDENTITY if row.get(key)}
    truths = {key: text == "True" for key, text in cells.items() if text in ("True", "False")}
    body["metrics"] = {key: value for key, value in numbers.items() if key not in bounds} | truths
    body["intervals"] = {key: (numbers[f"{key}_low"], numbers[f"{key}_high"]) for key in bounded}
    return result_from_dict(body, path)


# ---------------------------------------------------------------------------------------------- EvalScope


def _from_evalscope_report(body: Mapping[str, Any], path: Path) -> Result:
    """A report of EvalScope's native backend: named metrics, each with categories."""
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
    """A result of MTEB, also as EvalScope runs it: the scores of the first split; curves of abstention are left out.

    Where there are several subsets (languages), the scores are their means, as in MTEB's own tables.
    """
    splits = body["scores"]
    split = "test" if "test" in splits else next(iter(splits), "")
    rows = splits.get(split) or [{}]
    names = [key for key in rows[0] if not key.startswith("nauc_") and all(is_number(row.get(key)) for row in rows)]
    kept = {key: math.fsum(row[key] for row in rows) / len(rows) for key in names}
    if len(rows) > 1 and "main_score" in kept:
        kept |= {f"{row.get('hf_subset')}|main_score": row["main_score"] for row in rows}
    revision_folder = path.parent
    model = revision_folder.parent.name.removeprefix("eval__").replace("__", "/")
    data = {"split": split, "main_metric": "main_score"}
    return _result(body["task_name"], model, "mteb", kept, path, data=data)


def _result(dataset: str, model: str, task: str, metrics: Mapping[str, float], path: Path, **known: Any) -> Result:
    return result_from_dict({"dataset": dataset, "model": model, "task": task, "metrics": metrics, **known}, path)


OBJECTS: Sequence[tuple[frozenset[str], str, Callable[[Mapping[str, Any], Path], Result]]] = (
    (frozenset({"dataset_name", "model_name", "metrics"}), "EvalScope", _from_evalscope_report),
    (frozenset({"task_name", "scores", "mteb_version"}), "MTEB", _from_mteb),
)
"""JSON objects of other tools: the keys that tell them, the tool, the reader."""


# --------------------------------------------------------------------------------------------- VLMEvalKit

_VLM_FILE = re.compile(r"_(acc|score)$")
_WHOLE = ("", "none", "overall", "all", "test", "validation", "val", "dev")
"""Row names that stand for the whole dataset, not for a part of it. Of several splits the first of these is quoted."""


def _from_vlm_table(rows: Sequence[Row], path: Path) -> Result:
    """``MODEL_DATASET_acc.csv``: text columns name the row, the others are metrics, as fractions or as per cent."""
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
    model, dataset = _vlm_names(path)
    data = {"split": split} if split else {}
    return _result(dataset, model, "vlmevalkit", _as_fractions(metrics), path, data=data)


def _vlm_names(path: Path) -> tuple[str, str]:
    """Split ``MODEL_DATASET``: the model names one of the folders above, or ends at the first ``_``."""
    stem = _VLM_FILE.sub("", path.stem)
    for folder in path.parents:
        if folder.name and stem.startswith(f"{folder.name}_"):
            return folder.name, stem[len(folder.name) + 1 :]
    model, _, dataset = stem.partition("_")
    return (model, dataset) if dataset else ("", stem)


def _as_fractions(metrics: Mapping[str, float]) -> dict[str, float]:
    """Per cent become fractions. Some tables hold points (MME goes up to 2000): those are left as they are."""
    largest = max(metrics.values(), default=0.0)
    scale = 100.0 if 1 < largest <= 100 else 1.0
    return {key: value / scale for key, value in metrics.items()}


def _number(text: object) -> float | None:
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
