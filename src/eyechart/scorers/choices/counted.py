"""Tables that count: hits of so many questions, by category; percentages or fractions as each benchmark has them."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from eyechart.metrics.cells import Row, as_score, as_text
from eyechart.scorers.choices.accuracy import Table
from eyechart.scorers.tables import Rows, by_column, grouped, mean, need

Line = dict[str, object]


def counts(rows: Rows) -> Line:
    """Return the number of rows, the hits and their share in per cent."""
    hits = round(sum(as_score(row["hit"]) for row in rows))
    return {"tot": len(rows), "hit": hits, "acc": 100 * hits / len(rows)}


def counted(
    rows: Iterable[Row],
    names: Sequence[str],
    overall: str = "Overall",
    column: str = "category",
    title: str = "category",
) -> Table:
    """Return a line for all rows and one for each of the named categories that has rows: tot, hit and acc."""
    found = need(rows, "hit")
    groups = {**dict(by_column(found, column)), overall: found}
    return [{title: name, **counts(groups[name])} for name in (overall, *names) if name in groups]


def visual_puzzles(rows: Iterable[Row], categories: Sequence[str], levels: Sequence[str]) -> Table:
    """Return VisualPuzzles' counts by category and by difficulty."""
    found = need(rows, "hit")
    kinds = counted(found, categories, "overall", "category", "group")
    first, *others = counted(found, levels, "overall", "difficulty", "group")
    return [
        *({**line, "type": "category"} for line in kinds),
        *({**line, "type": "level"} for line in (*others, first)),
    ]


def holding(rows: Iterable[Row], names: Sequence[str]) -> Table:
    """Return tot and acc of the rows whose category holds a name, and of all (MMOral); each row counts once.

    VLMEvalKit counts a row three times where the name is the whole category.
    """
    found = need(rows, "hit")
    groups = {name: [row for row in found if name in as_text(row.get("category"))] for name in names}
    lines = {name: counts(members) for name, members in {**groups, "Overall": found}.items() if members}
    return [{"Category": name, "tot": lines[name]["tot"], "acc": lines[name]["acc"]} for name in sorted(lines)]


def rounded(rows: Iterable[Row], columns: Mapping[str, str]) -> dict[str, float]:
    """Return per cent with two decimals: `Overall`, and each value of some columns after the column's prefix."""
    found = need(rows, "hit")
    table = {"Overall": mean(found, "hit")}
    for column, prefix in columns.items():
        table |= {f"{prefix}{name}": mean(members, "hit") for name, members in by_column(found, column)}
    return {name: round(100 * value, 2) for name, value in table.items()}


def fractions(rows: Iterable[Row], columns: Mapping[str, str], overall: str = "Overall") -> dict[str, float]:
    """Return the accuracy as a fraction: of all, and of each value of some columns in the column's words (``{}``)."""
    found = need(rows, "hit")
    table = {overall: mean(found, "hit")} if overall else {}
    for column, words in columns.items():
        table |= {words.format(name): mean(members, "hit") for name, members in by_column(found, column)}
    return table


def degraded(rows: Iterable[Row], columns: Mapping[str, str]) -> dict[str, float]:
    """Return `fractions` with the number of rows (MedQ-DEG)."""
    found = need(rows, "hit")
    first, *others = fractions(found, columns).items()
    return dict([first, ("Total", len(found)), *others])


def medical(rows: Iterable[Row]) -> dict[str, float]:
    """Return MedQ-Bench's accuracy with its counts, and by modality."""
    found = need(rows, "hit")
    correct = sum(as_score(row["hit"]) for row in found)
    counts = {"overall_accuracy": correct / len(found), "correct": correct, "total": len(found)}
    return counts | fractions(found, {"modality": "{}_accuracy"}, overall="")


def percent(rows: Iterable[Row], name: str = "acc", times: float = 100) -> dict[str, float]:
    """Return one number: the accuracy."""
    return {name: times * mean(need(rows, "hit"), "hit")}


def paths(rows: Iterable[Row], columns: Sequence[str], spheres: bool = False) -> dict[str, float]:
    """Return the accuracy of each path of categories ("Perception/x"), their mean and that of all rows.

    With ``spheres`` the mean of each first step, too, and the first mean is over those as well, as in VLMEvalKit.
    """
    found = need(rows, "hit")
    groups = grouped(found, lambda row: "/".join(as_text(row.get(column)) for column in columns))
    table = {name: mean(groups[name], "hit") for name in sorted(groups)}
    if spheres:
        tops = grouped([{"name": name} for name in table], lambda one: as_text(one["name"]).partition("/")[0])
        table |= {
            f"Sphere macro: {top}": fmean(table[as_text(one["name"])] for one in ones) for top, ones in tops.items()
        }
    return table | {"Overall macro": fmean(table.values()), "Overall micro": mean(found, "hit")}


def vmcbench(rows: Iterable[Row], groups: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return VMCBench's accuracy in per cent: overall, the plain mean of each group of sources, and each source."""
    found = need(rows, "hit", "category")
    each = {name: mean(members, "hit") for name, members in by_column(found, "category")}
    known = {group: {name: each[name] for name in names if name in each} for group, names in groups.items()}
    table = {"Overall": mean(found, "hit")} | {name: fmean(values.values()) for name, values in known.items() if values}
    for values in known.values():
        table |= values
    return {name: round(100 * value, 2) for name, value in table.items()}


def realworld(rows: Iterable[Row], subtasks: Sequence[str]) -> dict[str, object]:
    """Return MME-RealWorld's accuracy: by task, subtask and attribute, each with the average over its rows.

    A row's `category` is "task/subtask"; an `l2-category` with an attribute keeps its first step only.
    """
    found = need(rows, "hit", "category", "l2-category")
    tasks: dict[str, object] = {}
    for task in ("Reasoning", "Perception"):
        members = [row for row in found if as_text(row["category"]).partition("/")[0] == task]
        parts = grouped(members, lambda row: as_text(row["category"]).split("/")[1])
        named = {
            name: _attributes(parts.get(name, [])) for name in (*subtasks, *(n for n in parts if n not in subtasks))
        }
        tasks[task] = {**named, "Avg": mean(members, "hit") if members else 0}
    return {"Overall": mean(found, "hit"), **tasks}


def _attributes(rows: Rows) -> dict[str, float]:
    groups = grouped(rows, lambda row: _attribute(as_text(row["l2-category"]).lower()))
    return {name: mean(members, "hit") for name, members in groups.items()} | {"Avg": mean(rows, "hit") if rows else 0}


def _attribute(name: str) -> str:
    return f"{name.partition('/')[0]}/attribute" if "attribute" in name else name
