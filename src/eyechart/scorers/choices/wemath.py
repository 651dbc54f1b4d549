"""WeMath: problems of two or three steps, each step also asked alone: what is known, what is learnt by heart."""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from statistics import fmean

from eyechart.metrics.cells import Row, as_score, as_text
from eyechart.scorers.tables import grouped, need

Steps = Sequence[bool]
KINDS: Mapping[str, Mapping[str, Callable[[Steps, bool], bool]]] = {
    "Strict": {
        "InsufficientKnowledge": lambda steps, whole: not all(steps) and not whole,
        "InadequateGeneralization": lambda steps, whole: all(steps) and not whole,
        "CompleteMastery": lambda steps, whole: all(steps) and whole,
        "RoteMemorization": lambda steps, whole: not all(steps) and whole,
    },
    "Loose": {
        "InsufficientKnowledge": lambda steps, whole: not all(steps) and not whole,
        "InadequateGeneralization": lambda steps, whole: all(steps) and not whole,
        "CompleteMastery": lambda steps, whole: any(steps) and whole,
        "RoteMemorization": lambda steps, whole: not any(steps) and whole,
    },
}
"""What the steps of a problem and the whole of it say about a model."""


@cache
def concepts() -> Mapping[str, Sequence[str]]:
    """Return the concepts of each field."""
    return tomllib.loads(files(__package__).joinpath("wemath.toml").read_text(encoding="utf-8"))


def wemath(rows: Iterable[Row]) -> dict[str, str]:
    """Return WeMath's table: scores and kinds of problems, strict and loose, steps, and concepts by field.

    Rates are over the problems that are there (VLMEvalKit divides by 525, the number in the published set, whatever is
    there). A problem lacks a kind while one of its steps lacks a verdict.
    """
    found = need(rows, "key", "ID")
    problems = [one for one in map(_problem, grouped(found, lambda row: as_text(row["ID"])).values()) if one]
    if not problems:
        raise ValueError("there is no problem with all of its steps")
    table: dict[str, str] = {}
    for mode, kinds in KINDS.items():
        counts = {name: sum(kind(steps, whole) for steps, whole in problems) for name, kind in kinds.items()}
        table |= {f"{name} ({mode})": text for name, text in _lines(counts, len(problems)).items()}
    hits = {key: [as_score(row["hit"]) for row in members] for key, members in _by_step(found).items()}
    table |= {name: _per_cent(fmean(hits[key])) for name, key in STEPS.items() if key in hits}
    singles = [row for row in found if not as_text(row["key"]).endswith("multi")]
    known = grouped(singles, lambda row: as_text(row.get("knowledge concept")))
    for field, names in concepts().items():
        each = [fmean(as_score(row["hit"]) for row in known[name]) for name in names if name in known]
        table |= {field: _per_cent(fmean(each))} if each else {}
    return table


STEPS = {"One-step(S1)": "one", "Two-step(S2)": "2steps_multi", "Three-step(S3)": "3steps_multi"}


def _by_step(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return grouped(rows, lambda row: key if (key := as_text(row["key"])).endswith("multi") else "one")


def _problem(rows: Sequence[Row]) -> tuple[Steps, bool] | None:
    """Return whether each step and the whole were right; None if one of them is missing."""
    hits = {as_text(row["key"]): bool(as_score(row["hit"])) for row in rows}
    size = 2 if any(key.startswith("2steps") for key in hits) else 3
    keys = [f"{size}steps_{step}" for step in (*range(1, size + 1), "multi")]
    if any(key not in hits for key in keys):
        return None
    *steps, whole = (hits[key] for key in keys)
    return steps, whole


def _lines(counts: Mapping[str, int], total: int) -> dict[str, str]:
    lost = 0.5 * counts["InadequateGeneralization"] + counts["RoteMemorization"] + counts["InsufficientKnowledge"]
    solved = counts["CompleteMastery"] + counts["RoteMemorization"]
    rates = {name: count / total for name, count in counts.items()}
    rates["RoteMemorization"] = counts["RoteMemorization"] / solved if solved else 0.0
    return {"Score": _per_cent(1 - lost / total)} | {
        name: f"{_per_cent(rate)} ({counts[name]})" for name, rate in rates.items()
    }


def _per_cent(value: float) -> str:
    return f"{value:.2%}"


def scores(table: Mapping[str, str]) -> dict[str, float]:
    """Return the two scores as fractions."""
    names = {"score_strict": "Score (Strict)", "score_loose": "Score (Loose)"}
    return {name: float(table[title].rstrip("%")) / 100 for name, title in names.items() if title in table}
