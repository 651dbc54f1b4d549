"""Results to JSON objects and back.

The first six keys are those that CLIP_benchmark writes, with its values; the rest is ours. ``metrics`` holds plain
numbers by name, as every tool has them; ``metric_values`` beside it holds all that is known of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eyechart.errors import ResultError
from eyechart.io.json_text import plain
from eyechart.io.untrusted import DAMAGED, is_number
from eyechart.results.lines import identity_of
from eyechart.results.older import as_values, form_of, measures_of
from eyechart.results.result import IDENTITY, Result
from eyechart.types import Fact, MeanOf, Metric, digest_json

SCHEMA = 2
_PLAIN = {
    **{key: key for key in ("counts", "notices", "failures", "details", "model_card", "data", "provenance", "job")},
    "records": "record_info",
}
"""Keys of the file, and the fields of a result that hold them."""
_LISTS = ("notices", "failures")
_MAPPINGS = tuple(key for key in _PLAIN if key not in _LISTS)
_OLD = ("intervals", "chance")
"""Keys of version 0.1, which ``metric_values`` replace."""
_OURS = frozenset({"metrics", "metric_values", "facts", "schema", "checksum", *IDENTITY, *_PLAIN, *_OLD})


def result_to_dict(result: Result) -> dict[str, Any]:
    """Return the object of a result file."""
    body: dict[str, Any] = {
        "dataset": result.dataset,
        "model": result.model,
        "pretrained": result.pretrained,
        "task": result.task,
        "metrics": {**result.facts, **result.metrics},
        "language": result.language,
        **result.extra,
        "metric_values": {name: metric_to_dict(metric) for name, metric in result.values.items()},
        **({"facts": dict(result.facts)} if result.facts else {}),
        **{key: getattr(result, field) for key, field in _PLAIN.items()},
        "schema": SCHEMA,
    }
    cleaned: dict[str, Any] = plain(body)
    return cleaned


def checksum(body: Mapping[str, Any]) -> str:
    """Return the digest of everything that a result file says, but for the digest itself."""
    return digest_json({key: value for key, value in body.items() if key != "checksum"})


def result_from_dict(body: Mapping[str, Any], path: Path) -> Result:
    """Make a result of the object in a result file: ours of any version, or another tool's.

    Unknown keys are kept in ``extra``.

    Raises:
        ResultError: If a part is of another kind than ours are: whoever reads the result later relies on that.
    """
    wrong = [key for key in (*_MAPPINGS, *_OLD, "metric_values", "facts") if not isinstance(body.get(key, {}), Mapping)]
    wrong += [key for key in _LISTS if not _is_list_of_mappings(body.get(key, []))]
    try:
        if wrong:
            raise TypeError(f"{', '.join(wrong)}: of another kind than expected")
        return _from_dict(body, path)
    except DAMAGED as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ResultError(f"{path} is damaged: {what}.", advice="Write it again, or leave it out.") from error


def _from_dict(body: Mapping[str, Any], path: Path) -> Result:
    names: dict[str, Any] = dict(zip(IDENTITY, identity_of(body), strict=True))
    plain = {key: body[key] for key in _PLAIN if key in body}
    for key in _LISTS:
        plain[key] = tuple(body.get(key, ()))
    plain["counts"] = {name: value for name, value in body.get("counts", {}).items() if is_number(value)}
    if "metric_values" not in body:
        plain["data"] = {"measures": measures_of(names["task"]), **plain.get("data", {})}
        if plain.get("records"):
            plain["records"] = {**plain["records"], "form": form_of(body)}
    return Result(
        **names,
        values=_values(body),
        facts=_facts(body),
        **{_PLAIN[key]: value for key, value in plain.items()},
        extra={key: value for key, value in body.items() if key not in _OURS},
        path=path,
        altered="metric_values" in body and body.get("checksum") != checksum(body),
    )


def _facts(body: Mapping[str, Any]) -> dict[str, Fact]:
    """Read what stands among the metrics and is none; what is no number cannot be one."""
    named = body.get("facts", {})
    return {key: value for key, value in body["metrics"].items() if key in named or isinstance(value, bool | str)}


def _values(body: Mapping[str, Any]) -> dict[str, Metric]:
    """Read the metrics; the plain numbers are what counts, should somebody have changed one of the two by hand."""
    facts = _facts(body)
    found = {key: value for key, value in body["metrics"].items() if key not in facts}
    given = {str(key): float(value) for key, value in found.items() if type(value) in (int, float)}
    numbers = {key: value for key, value in given.items() if math.isfinite(value)}
    if "metric_values" not in body:
        return as_values(numbers, body)
    known = {name: metric_from_dict(fields) for name, fields in body["metric_values"].items()}
    differing = sorted(
        name for name in {*known, *numbers} if name not in known or known[name].value != numbers.get(name)
    )
    if differing:
        raise ValueError(f"metrics and metric_values differ in {', '.join(differing)}")
    return known


_LEVELS = ("low", "high", "chance", "best", "if_wrong", "if_right")


def metric_to_dict(metric: Metric) -> dict[str, Any]:
    """Write a metric with what is known of it; what is not known is left out."""
    fields: dict[str, Any] = {
        "value": metric.value,
        "low": metric.low,
        "high": metric.high,
        "chance": metric.chance,
        "best": metric.best,
        "if_wrong": metric.if_wrong,
        "if_right": metric.if_right,
        "n": metric.n,
        "direction": "lower" if metric.lower_is_better else "higher",
        "primary": metric.primary,
        "points": metric.points or None,
        "function": metric.function or None,
        "mean_of": _mean_of_to_dict(metric.mean_of) if metric.mean_of else None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _mean_of_to_dict(mean_of: MeanOf) -> dict[str, Any]:
    fields = {key: getattr(mean_of, key) for key in MeanOf.__dataclass_fields__}
    return {key: value for key, value in fields.items() if value not in (None, "", {})}


def metric_from_dict(fields: Mapping[str, Any]) -> Metric:
    """Read a metric."""
    numbers = {key: float(fields[key]) for key in _LEVELS if is_number(fields.get(key))}
    if ("low" in numbers) != ("high" in numbers) or not is_number(fields["value"]):
        raise ValueError(f"{fields} is not a metric")
    mean_of = fields.get("mean_of")
    return Metric(
        value=float(fields["value"]),
        **numbers,
        n=int(fields["n"]) if is_number(fields.get("n")) else None,
        lower_is_better=fields.get("direction") == "lower",
        primary=fields.get("primary") is True,
        points=fields.get("points") is True,
        function=str(fields.get("function", "")),
        mean_of=MeanOf(**{**mean_of, "where": dict(mean_of.get("where", {}))}) if mean_of else None,
    )


def _is_list_of_mappings(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value)
