"""Metrics in other tools' files, which hold plain numbers only.

The only module that infers properties of a metric from its name, because such files hold nothing else.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from eyechart.io.safe_parse import is_number, plain
from eyechart.types import Fact, MeanOf, Metric, digest_json

LOWER_IS_BETTER = re.compile(r"(ece|adaptive_ece|nll|brier|accuracy_variance|.*_median_rank)(_worst_.*)?")
POINTS = re.compile(r"(nll|CIDEr|.*_median_rank)(_worst_.*)?")
"""Not fractions, even if they are small."""
PRIMARY = (
    "lp_acc1",
    "knn_acc1",
    "acc1",
    "mean_average_precision",
    r"(?:image|text)_retrieval_recall@(\d{1,9})",
    "acc",
    "accuracy",
    "Overall",
    "main_score",
    "ndcg_at_10",
    "nmi",
    "spearman",
    "CIDEr",
    "score",
)
"""The primary metric unless the file names another: the first of these that it has, at the smallest k."""
MEASURES: Mapping[str, str] = {
    "zeroshot_classification": "classification",
    "zeroshot_retrieval": "retrieval",
    "linear_probe": "probe",
    "logistic_probe": "probe",
    "knn": "probe",
    "visual_sts": "similarity",
    "image_caption_selection": "selection",
    "vlmevalkit": "questions",
}
"""What a task measures, if it differs from its name."""


def measures_of(task: str) -> str:
    """Return what a task measures, in a word."""
    return MEASURES.get(task, task.replace("_", " "))


def values_of(numbers: Mapping[str, float], body: Mapping[str, Any]) -> dict[str, Metric]:
    """Return the metrics of a file without ``metric_values``; ``intervals`` are those of a table."""
    intervals, counts = (body.get(key) or {} for key in ("intervals", "counts"))
    primary = _primary(numbers, (body.get("data") or {}).get("main_metric"))
    found = {}
    for name, value in numbers.items():
        ends: Any = (None, None) if intervals.get(name) is None else intervals[name]
        low, high = ends
        bounded = is_number(low) and is_number(high)
        found[name] = Metric(
            value,
            float(low) if bounded else None,
            float(high) if bounded else None,
            n=int(counts["scored"]) if is_number(counts.get("scored")) else None,
            lower_is_better=LOWER_IS_BETTER.fullmatch(name) is not None,
            primary=name in primary,
            points=POINTS.fullmatch(name) is not None,
        )
    return found


def _primary(numbers: Mapping[str, float], named: object) -> frozenset[str]:
    if named:
        return frozenset([named] if isinstance(named, str) else map(str, named))  # type: ignore[call-overload]
    for pattern in PRIMARY:
        present = {name: match for name in numbers if (match := re.fullmatch(pattern, name))}
        if present:
            ks = {name: int(match[1]) if match.groups() else 0 for name, match in present.items()}
            return frozenset(name for name, k in ks.items() if k == min(ks.values()))
    return frozenset(sorted(numbers)[:1])


# The fields of a result, and its JSON form.
#
# The first six keys of the object are those of CLIP_benchmark, with its values; the rest is ours. ``metrics`` holds
# plain numbers by name, as in every tool; ``metric_values`` holds everything known about each.


IDENTITY = ("dataset", "model", "pretrained", "task", "language")
"""The keys that name a result; with the split, they identify it."""
SCHEMA = 2
_PLAIN = {
    **{key: key for key in ("counts", "notices", "failures", "details", "model_card", "data", "provenance", "job")},
    "records": "record_info",
}
"""Keys of the file -> fields of a result."""
_LISTS = ("notices", "failures")
_MAPPINGS = tuple(key for key in _PLAIN if key not in _LISTS)
_TABLE = ("intervals",)
"""Keys of a row of a results table, in which ``metric_values`` are missing."""
_OURS = frozenset({"metrics", "metric_values", "facts", "schema", "checksum", *IDENTITY, *_PLAIN, *_TABLE})


@dataclass(frozen=True, repr=False)
class ResultFields:
    """Content of a result file: the metrics, and everything needed to trust and reproduce them."""

    dataset: str
    model: str
    pretrained: str
    task: str
    language: str
    values: Mapping[str, Metric]
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """Values a task reports that are not metrics (save_path, ...); in the file they are also among the metrics."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of samples listed, scored and failed."""
    notices: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Mapping[str, str], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    model_card: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """Dataset fingerprint, split, kind, source, digest of class names and templates; ``benchmark`` is the catalogue
    entry, "" for user data."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    """What was run: settings, digest, and the identities of model, data and code at that time."""
    record_info: Mapping[str, Any] = field(default_factory=dict)
    """File name (in the folder of the result), count, digest and form of the per-sample records."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of other tools' results, unchanged."""
    path: Path | None = field(default=None, compare=False)
    checksum: str = field(default="", compare=False)
    """Checksum in the file."""
    altered: bool = field(default=False, compare=False)
    """Whether the file was modified after it was written, so that its numbers cannot be trusted."""

    @property
    def metrics(self) -> dict[str, float]:
        """Plain numbers by name."""
        return {name: metric.value for name, metric in self.values.items()}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95 % intervals of the metrics that have one."""
        found = {name: (metric.low, metric.high) for name, metric in self.values.items()}
        return {name: (low, high) for name, (low, high) in found.items() if low is not None and high is not None}

    @property
    def chance(self) -> dict[str, float]:
        """Chance levels of the metrics that have one."""
        return {name: metric.chance for name, metric in self.values.items() if metric.chance is not None}

    @property
    def primary(self) -> tuple[str, ...]:
        """Names of the benchmark's primary metrics."""
        return tuple(name for name, metric in self.values.items() if metric.primary)

    @property
    def identity(self) -> tuple[str, ...]:
        """The values of `IDENTITY`."""
        return tuple(str(getattr(self, key)) for key in IDENTITY)


def body_of(result: ResultFields) -> dict[str, Any]:
    """Return the JSON object of a result file, without the checksum."""
    body = {
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
    return cast("dict[str, Any]", plain(body))


def checksum(body: Mapping[str, Any]) -> str:
    """Return the digest of a result file, excluding the digest itself."""
    return digest_json({key: value for key, value in body.items() if key != "checksum"})


def identity_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of `IDENTITY` of a JSON object."""
    return tuple(str(body.get(key, "en" if key == "language" else "")) for key in IDENTITY)


def key_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what identifies a result: the values of `IDENTITY` and the split."""
    parts = (part for key in ("job", "data") if isinstance(part := body.get(key), Mapping))
    return (*identity_of(body), str(next((part["split"] for part in parts if part.get("split")), "test")))


def fields_of(body: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the fields of a result from the JSON object of a result file: ours, or another tool's.

    Unknown keys are kept in ``extra``. A part of an unexpected type raises one of `eyechart.io.safe_parse.DAMAGED`.
    """
    wrong = [
        key for key in (*_MAPPINGS, *_TABLE, "metric_values", "facts") if not isinstance(body.get(key, {}), Mapping)
    ]
    for key in _LISTS:
        value = body.get(key, [])
        if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
            wrong.append(key)
    if wrong:
        raise TypeError(f"unexpected type of {', '.join(wrong)}")
    names = dict(zip(IDENTITY, identity_of(body), strict=True))
    plain: dict[str, Any] = {key: body[key] for key in _PLAIN if key in body}
    plain |= {key: tuple(body.get(key, ())) for key in _LISTS}
    plain["counts"] = {name: value for name, value in body.get("counts", {}).items() if is_number(value)}
    # Entries of ``metrics`` that are not metrics: those listed as facts, and texts and truth values.
    facts, numbers = dict[str, Fact](), dict[str, float]()
    for key, value in body["metrics"].items():
        if key in body.get("facts", {}) or isinstance(value, bool | str):
            facts[key] = value
        elif type(value) in (int, float) and math.isfinite(value):
            numbers[str(key)] = float(value)
    if "metric_values" in body:
        values = {name: metric_from_dict(fields) for name, fields in body["metric_values"].items()}
        differing = {name for name, metric in values.items() if numbers.get(name) != metric.value}
        differing |= numbers.keys() - values.keys()
        if differing:
            raise ValueError(f"metrics and metric_values differ in {', '.join(sorted(differing))}")
    else:
        values = values_of(numbers, body)
        plain["data"] = {"measures": measures_of(names["task"]), **plain.get("data", {})}
    # Written by `body_of`, even if keys were removed since.
    ours = bool({"metric_values", "checksum"} & body.keys()) or "identity" in body.get("job", ())
    return {
        **names,
        "values": values,
        "facts": facts,
        **{_PLAIN[key]: value for key, value in plain.items()},
        "extra": {key: value for key, value in body.items() if key not in _OURS},
        "path": path,
        "checksum": str(body.get("checksum", "")),
        "altered": ours and ("metric_values" not in body or body.get("checksum") != checksum(body)),
    }


_LEVELS = {name: name for name in ("low", "high", "chance", "best")} | {
    "if_wrong": "worst_case",
    "if_right": "best_case",
}
"""Keys in files -> numbers of a metric."""


def metric_to_dict(metric: Metric) -> dict[str, Any]:
    """Return a metric as a JSON object without empty fields."""
    mean_of = metric.mean_of and {
        key: value
        for key in MeanOf.__dataclass_fields__
        if (value := getattr(metric.mean_of, key)) not in (None, "", {}, ())
    }
    fields: dict[str, Any] = {
        "value": metric.value,
        **{key: getattr(metric, name) for key, name in _LEVELS.items()},
        "n": metric.n,
        "direction": "lower" if metric.lower_is_better else "higher",
        "primary": metric.primary,
        "points": metric.points or None,
        "function": metric.function or None,
        "covers": list(metric.covers) or None,
        "mean_of": mean_of,
    }
    return {key: value for key, value in fields.items() if value is not None}


def metric_from_dict(fields: Mapping[str, Any]) -> Metric:
    """Parse a metric."""
    numbers = {name: float(fields[key]) for key, name in _LEVELS.items() if is_number(fields.get(key))}
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
        covers=tuple(map(str, fields.get("covers", ()))),
        mean_of=MeanOf(
            **{**mean_of, "where": dict(mean_of.get("where", {})), "draws": tuple(map(str, mean_of.get("draws", ())))}
        )
        if mean_of
        else None,
    )
