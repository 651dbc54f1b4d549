"""The tables of benchmarks scored by a rule: means of scores over groups of rows, in the form that each has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from eyechart.metrics.cells import Row, as_score, as_text, text_list
from eyechart.scorers.tables import Rows, all_right, by_column, grouped, mean, need

Table = Any


def groups(
    rows: Iterable[Row],
    *,
    overall: str = "Overall",
    groups: Mapping[str, str] | None = None,
    scale: float = 1,
    digits: int | None = None,
    fixed: Sequence[str] = (),
    column: str = "score",
) -> Table:
    """Return the mean over all rows, and over those of each value of some columns, as ``column: name of a group``.

    ``fixed`` names the groups that are in the table in any case, empty ones with nothing.
    """
    found = need(rows)
    table = dict.fromkeys(fixed)
    for name, form in (groups or {}).items():
        for value, members in by_column(found, name):
            table[form.format(value)] = _number(members, scale, digits, column)
    return ({overall: _number(found, scale, digits, column)} if overall else {}) | table


def _number(rows: Rows, scale: float, digits: int | None, column: str) -> Any:
    value = scale * mean(rows, column)
    return value if digits is None else round(value, digits)


def records(
    rows: Iterable[Row],
    *,
    names: Sequence[str],
    groups: Mapping[str, str] | None = None,
    overall: str = "Overall",
    last: bool = False,
    scale: float = 1,
    fill: Mapping[str, str] | None = None,
) -> Table:
    """Return one line per group: its name, the mean and how many rows, under these names; ``fill`` is in each line."""
    found = need(rows)
    lines = [
        (form.format(value), members)
        for name, form in (groups or {}).items()
        for value, members in by_column(found, name)
    ]
    whole: list[tuple[str, Rows]] = [(overall, found)]
    ordered = [*lines, *whole] if last else [*whole, *lines]
    return [
        dict(zip(names, (name, scale * mean(members), len(members)), strict=False)) | dict(fill or {})
        for name, members in ordered
    ]


def per_group(rows: Iterable[Row], *, by: str, overall: str, inside: str) -> Table:
    """Return the mean over all, and in a part of its own the mean of each value of a column."""
    found = need(rows)
    return {overall: mean(found), inside: {name: mean(members) for name, members in by_column(found, by)}}


def counted(rows: Iterable[Row], *, name: str, total: str) -> Table:
    """Return the mean, and how many rows there are."""
    found = need(rows)
    return {name: mean(found), total: len(found)}


def whole_groups(
    rows: Iterable[Row], *, by: str, key: str, overall: str = "", scale: float = 1, average: str = "groups"
) -> Table:
    """Return, for each value of a column, the part of its groups (rows with the same key) that are all right.

    The overall number is the mean of those.
    """
    found = need(rows, by, key)
    table = {}
    for name, members in by_column(found, by):
        right = [all_right(group) or 0.0 for group in grouped(members, lambda row: as_text(row[key])).values()]
        table[name] = scale * sum(right) / len(right)
    return table | ({overall: sum(table.values()) / len(table)} if overall else {})


def in_fours(rows: Iterable[Row], *, fixed: Sequence[str], total: str = "total", size: int = 4) -> Table:
    """Return the part of groups of rows, four in a row, that are all right: per category of the last, and of all."""
    found = need(rows, "category")
    if len(found) % size:
        raise ValueError(f"questions are asked in groups of {size}, but there are {len(found)} rows")
    fours = [found[i : i + size] for i in range(0, len(found), size)]
    hits: dict[str, list[float]] = {name: [] for name in (*fixed, total)}
    for four in fours:
        right = all_right(four) or 0.0
        hits.setdefault(as_text(four[-1]["category"]), []).append(right)
        hits[total].append(right)
    return {name: sum(values) / len(values) if values else None for name, values in hits.items()}


def biases(rows: Iterable[Row], *, by: str = "topic") -> Table:
    """Return how often answers are right, and how often they are what a model expects: of all, and per topic."""
    found = need(rows, by)
    topics = dict(by_column(found, by))
    right, bias = ({name: mean(rows, column) for name, rows in topics.items()} for column in ("score", "bias"))
    return {
        "overall_acc": mean(found),
        "macro_acc": fmean(right.values()),
        "overall_bias_ratio": mean(found, "bias"),
        "macro_bias_ratio": fmean(bias.values()),
        "bias": bias,
        "acc": right,
    }


def scored_parts(rows: Iterable[Row], *, parts: Sequence[str], by: str = "split") -> Table:
    """Return the mean of each part, and the mean of exact answers beside it where there is one (TableVQABench)."""
    found = need(rows, by)
    lines = []
    for part in parts:
        members = [row for row in found if as_text(row[by]) == part]
        columns = [name for name in ("score", "exact") if members and name in members[0]]
        if members:
            lines.append({"split": part, "average_scores": [100 * mean(members, column) for column in columns]})
    return lines


def photographed(rows: Iterable[Row]) -> Table:
    """Return the mean and the part of pages with all four photos right, per benchmark that WildDoc is made of.

    The tables' numbers are the means over their parts. An answer by ANLS is right above one half.
    """
    found = need(rows)
    numbers: dict[str, tuple[float, float]] = {}
    for task, members in grouped(found, lambda row: as_text(row["task"])).items():
        by_part = grouped(members, lambda row: as_text(row["part"]) if as_text(row["task"]) == "TableVQA" else "")
        pairs = [(100 * mean(part), _all_four(part)) for part in by_part.values()]
        numbers[task] = fmean(a for a, _ in pairs), fmean(b for _, b in pairs)
    numbers["WildDoc"] = fmean(a for a, _ in numbers.values()), fmean(b for _, b in numbers.values())
    return [
        {"Task": task, "Metric": name, "Score": score}
        for task, pair in numbers.items()
        for name, score in zip(("Overall", "Consistency"), pair, strict=True)
    ]


def _all_four(rows: Rows) -> float:
    pages = grouped(rows, lambda row: (as_text(row["part"]), as_text(row["page"])))
    right = [
        sum(as_score(row["score"]) > (0.5 if as_text(row["task"]) == "DocVQA" else 0.999) for row in page)
        for page in pages.values()
    ]
    return 100 * sum(count == 4 for count in right) / (len(rows) / 4)


_SCIENCES = {
    "02": "Arts", "03": "Soc. Sci.", "04": "Bus.", "05": "Nat. Sci.", "06": "ICTs", "07": "Eng.", "08": "Agri.", "09": "Health",
}  # fmt: skip


def with_reasoning(rows: Iterable[Row]) -> Table:
    """Return the means with and without chain of thought, and with it per language and science (BMMR)."""
    found = need(rows, "cot", "language", "category_id")
    reasoned = [row for row in found if _true(row["cot"])]
    plain = [row for row in found if not _true(row["cot"])]
    table = {"CoT": mean(reasoned)} | ({"no_CoT": mean(plain)} if plain else {})
    for language, members in by_column(reasoned, "language"):
        table[language.capitalize()] = mean(members)
    sciences: dict[str, list[Row]] = {}
    for row in reasoned:
        for name in text_list(row["category_id"]):
            sciences.setdefault(name[:2], []).append(row)
    return table | {_SCIENCES[name]: mean(sciences[name]) for name in sorted(sciences) if name in _SCIENCES}


def _true(value: object) -> bool:
    return as_text(value).lower() in {"true", "1", "1.0"}


def worst_case(rows: Iterable[Row], *, by: Mapping[str, str], key: str = "qid", variant: str = "varid") -> Table:
    """Return the means of all answers, and those of questions of which every variant is right (DynaMath)."""
    found = need(rows, key, variant)
    right = {name: all_right(members) or 0.0 for name, members in grouped(found, lambda r: as_text(r[key])).items()}
    first = [{**row, "score": right[as_text(row[key])]} for row in found if as_text(row[variant]) in {"1", "1.0"}]
    return [
        {"Setting": name} | groups(members, groups=by)
        for name, members in (("Average", found), ("Worst Case", first))
        if members
    ]


_SOURCES = tuple(
    f"OE_{modality}_{part}"
    for modality in ("MM", "TO")
    for part in ("maths_en_COMP", "maths_zh_CEE", "maths_zh_COMP", "physics_en_COMP", "physics_zh_CEE")
)


def competitions(rows: Iterable[Row]) -> Table:
    """Return the percentage per source, per language and subject, per subject, and of all (OlympiadBench)."""
    found = need(rows, "source")
    parts = [*((name,) for name in _SOURCES), *((a, b) for a in ("zh", "en") for b in ("maths", "physics"))]
    table = {}
    for words in (*parts, ("maths",), ("physics",)):
        members = [row for row in found if all(word in as_text(row["source"]) for word in words)]
        if members:
            table["_".join(words)] = 100 * mean(members)
    return table | {"AVG": 100 * mean(found)}


def levels(rows: Iterable[Row], *, levels: Sequence[str]) -> Table:
    """Return counts, scores and all answers of Spatial457."""
    found = need(rows, "category")
    table: dict[str, Any] = {
        "correct": sum(map(_hit, found)),
        "total": len(found),
        "answers": [
            {
                "index": row["index"],
                "correct": bool(_hit(row)),
                "answers": as_text(row["answer"]),
                "predict": as_text(row["extracted"]),
                "reasoning": as_text(row["reasoning"]),
                "objects": [],
            }
            for row in found
        ],
        "format_error": sum(int(as_score(row["format_error"])) for row in found),
        "score": mean(found),
    }
    for level in levels:
        members = [row for row in found if as_text(row["category"]) == level]
        right = sum(map(_hit, members))
        table |= {
            level: len(members),
            f"{level}_correct": right,
            f"{level}_score": right / len(members) if members else 0,
        }
    return table


def _hit(row: Row) -> int:
    return int(as_score(row["score"]) > 0)


def pairs_and_counts(rows: Iterable[Row]) -> Table:
    """Return the percentage of each task; T-or-F questions count in pairs, whose index differs in its last part."""
    found = need(rows, "category")
    table = {}
    for name, members in by_column(found, "category"):
        if name.endswith(("-cnt", "-grp")):
            table[name] = 100 * mean(members)
        else:
            pairs = grouped(members, lambda row: as_text(row["index"]).rpartition("_")[0]).values()
            table[name] = 100 * fmean(float(len(pair) > 1 and bool(all_right(pair))) for pair in pairs)
    return table


SHAPES: dict[str, Callable[..., Table]] = {
    "groups": groups,
    "records": records,
    "per_group": per_group,
    "counted": counted,
    "whole_groups": whole_groups,
    "in_fours": in_fours,
    "biases": biases,
    "scored_parts": scored_parts,
    "photographed": photographed,
    "with_reasoning": with_reasoning,
    "worst_case": worst_case,
    "competitions": competitions,
    "levels": levels,
    "pairs_and_counts": pairs_and_counts,
}
"""Forms of tables by name."""
