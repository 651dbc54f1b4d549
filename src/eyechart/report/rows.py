"""Which row of a table a result belongs to: one model, however it was called, run in one way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eyechart.report.load import OURS, Found
from eyechart.results import Result
from eyechart.types import digest_json


@dataclass(frozen=True)
class ModelRow:
    """A row: a model run in one way, by one tool."""

    name: str
    pretrained: str
    origin: str = OURS
    suffix: str = ""
    """Tells it from other rows of the same model."""

    @property
    def label(self) -> str:
        """Name the row in one line."""
        pretrained = "" if self.pretrained == self.name else self.pretrained
        return " ".join(part for part in (self.name, pretrained, self.suffix) if part)


@dataclass(frozen=True)
class NamedRows:
    """The row of each result, in their order, and which models are called by several names."""

    rows: list[ModelRow]
    notices: list[str]


def name_rows(found: Sequence[Found], benchmarks: Sequence[Hashable]) -> NamedRows:
    """Give each result its row.

    A model that was loaded under several names is one row. Where runs of one model meet in a benchmark, they are told
    apart by the folders that were given, else by the settings in which they differ from the usual ones, else by the
    files that were given.
    """
    names = _one_name_each(found)
    models = [(item.origin, *name) for item, name in zip(found, names, strict=True)]
    folders = _where_they_meet(models, benchmarks, [_folder(item) for item in found])
    runs: list[tuple[str, ...]] = [(*model, *folder) for model, folder in zip(models, folders, strict=True)]
    settings = _what_differs(runs, found, benchmarks)
    runs = [(*run, *differs) for run, differs in zip(runs, settings, strict=True)]
    files = _where_they_meet(runs, benchmarks, [item.argument for item in found])
    rows = []
    for (origin, name, pretrained), *parts in zip(models, folders, settings, files, strict=True):
        words = [*([] if origin == OURS else [origin]), *(word for part in parts for word in part)]
        rows.append(ModelRow(name, pretrained, origin, f"[{', '.join(words)}]" if words else ""))
    return NamedRows(rows, _spellings(found, names))


def _where_they_meet(
    runs: Sequence[tuple[str, ...]], benchmarks: Sequence[Hashable], sources: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return the source of each result whose run has, in any benchmark, results of several sources."""
    given: dict[tuple[tuple[str, ...], Hashable], set[str]] = {}
    for run, benchmark, source in zip(runs, benchmarks, sources, strict=True):
        given.setdefault((run, benchmark), set()).add(source)
    clashing = {run for (run, _), several in given.items() if len(several) > 1}
    return [(source,) if source and run in clashing else () for run, source in zip(runs, sources, strict=True)]


def _folder(item: Found) -> str:
    """Return the folder that was given; nothing if it was the file itself."""
    return "" if item.argument == str(item.result.path) else item.argument


# ------------------------------------------------------------------------------------ one model under several names

Name = tuple[str, str]


def _one_name_each(found: Sequence[Found]) -> list[Name]:
    """Return the name and weights of each result; of names that stand for one model, the shortest."""
    groups: dict[Name, set[Name]] = {}
    by_model: dict[str, Name] = {}
    for item in found:
        name = (item.result.model, item.result.pretrained)
        group = groups.setdefault(name, {name})
        model = _model_alone(item)
        if model is None:
            continue
        other = groups[by_model.setdefault(model, name)]
        if other is not group:
            other |= group
            groups.update(dict.fromkeys(group, other))
    short = {name: min(group, key=lambda n: (len(ModelRow(*n).label), n)) for name, group in groups.items()}
    return [short[item.result.model, item.result.pretrained] for item in found]


def _model_alone(item: Found) -> str | None:
    """Return what decides every vector or answer of a model; None if the result is of more, or of a control.

    Where a result does not say under which name the model was loaded, its own name may stand for several models that
    worked together: such names are never joined.
    """
    result = item.result
    alone = item.origin == OURS and result.job.get("model") == result.model and not result.job.get("others")
    return (str(result.model_card.get("fingerprint") or "") or None) if alone else None


def _spellings(found: Sequence[Found], names: Sequence[Name]) -> list[str]:
    spelled: dict[Name, set[Name]] = {}
    for item, name in zip(found, names, strict=True):
        spelled.setdefault(name, set()).add((item.result.model, item.result.pretrained))
    return [
        f"{' and '.join(sorted(ModelRow(*n).label for n in several))} are the same model "
        f"(weights, transform and precision): one row, {ModelRow(*name).label}."
        for name, several in spelled.items()
        if len(several) > 1
    ]


# ------------------------------------------------------------------------------------- one model in several settings

ADDITIONS = frozenset({"metrics", "prompt_sensitivity", "save_clf"})
"""Settings that add to what is reported and change none of it."""
FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "data": ("split", "limit", "reader"),
    "weights": ("model type", "precision"),
    "transform": ("model type", "precision", "weights"),
    "prompts": ("templates",),
}
"""What is bound to differ if one of the others does, and then goes without saying."""
_DIGEST = re.compile(r"[0-9a-f]{32,64}")
_LONGEST = 40


def _what_differs(
    rows: Sequence[Hashable], found: Sequence[Found], benchmarks: Sequence[Hashable]
) -> list[tuple[str, ...]]:
    """Say of each result in which settings it differs from the usual run of its model on its benchmark."""
    cells: dict[Hashable, list[int]] = {}
    models: dict[Hashable, list[int]] = {}
    for i, (row, benchmark) in enumerate(zip(rows, benchmarks, strict=True)):
        cells.setdefault((row, benchmark), []).append(i)
        models.setdefault(row, []).append(i)
    said: list[tuple[str, ...]] = [()] * len(found)
    usual: dict[Hashable, Counter[tuple[str, str]]] = {}
    for members in cells.values():
        if len(members) == 1:
            continue
        row = rows[members[0]]
        if row not in usual:
            usual[row] = Counter(pair for i in models[row] for pair in settings_of(found[i].result).items())
        own = {i: settings_of(found[i].result) for i in members if found[i].result.job}
        if own:
            base = max(own, key=lambda i: (_usual(own[i], usual[row]), not own[i]["limit"], _date(found[i])))
            for i, settings in own.items():
                said[i] = _differences(own[base], settings)
    return said


def _usual(settings: Mapping[str, str], counts: Mapping[tuple[str, str], int]) -> int:
    return sum(counts[pair] for pair in settings.items())


def settings_of(result: Result) -> dict[str, str]:
    """List how a number was made, as short texts: what may differ between two runs of a model on a benchmark."""
    job, card, data = result.job, result.model_card, result.data
    settings = job.get("settings")
    others = job.get("others")
    known: dict[str, Any] = {
        "model type": job.get("model_type"),
        "precision": card.get("precision"),
        "weights": card.get("weights_digest"),
        "transform": card.get("transform"),
        "split": data.get("split"),
        "limit": job.get("limit"),
        "reader": job.get("reader"),
        "data": data.get("fingerprint"),
        "caption cleaning": job.get("caption_cleaning"),
        "templates": result.details.get("templates"),
        **{
            str(name).replace("_", " "): value
            for name, value in (settings.items() if isinstance(settings, Mapping) else ())
            if name not in ADDITIONS
        },
        **{str(part): what for part, what in (others.items() if isinstance(others, Mapping) else ())},
    }
    return {name: _short(value) for name, value in known.items()}


def _differences(base: Mapping[str, str], own: Mapping[str, str]) -> tuple[str, ...]:
    differ = [name for name in dict.fromkeys((*base, *own)) if base.get(name, "") != own.get(name, "")]
    told = [name for name in differ if not any(cause in differ for cause in FOLLOWS.get(name, ()))]
    return tuple(f"{name} {own[name]}" if own.get(name) else f"no {name}" for name in told)


def _short(value: Any) -> str:
    """Write a setting so that it fits into a label; what is long is told by its digest."""
    if value is None or value is False:
        return ""
    if value is True:
        return "on"
    several = list(map(str, value)) if isinstance(value, list | tuple) else []
    text = " ".join(" ".join(several or [str(value)]).split()) if not isinstance(value, Mapping) else ""
    if _DIGEST.fullmatch(text):
        return text[:8]
    if text and len(text) <= _LONGEST:
        return text
    first = f"{several[0]} and {len(several) - 1} more, " if several and len(several[0]) <= _LONGEST else ""
    return first + digest_json(value)[:8]


def _date(item: Found) -> str:
    return str(item.result.provenance.get("date", ""))
