"""Tables of space, measures and lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from eyechart.metrics.cells import Row, as_score, as_text
from eyechart.scorers.tables import Table, all_right, by_column, grouped, hit, mean, need


def levels(rows: Iterable[Row], *, levels: Sequence[str]) -> Table:
    """Return counts, scores and all answers of Spatial457."""
    found = need(rows, "category")
    table: dict[str, Any] = {
        "correct": sum(map(hit, found)),
        "total": len(found),
        "answers": [
            {
                "index": row["index"],
                "correct": bool(hit(row)),
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
        right = sum(map(hit, members))
        table |= {
            level: len(members),
            f"{level}_correct": right,
            f"{level}_score": right / len(members) if members else 0,
        }
    return table


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


def rankings(rows: Iterable[Row]) -> Table:
    """Return the percentages of whole orders and of pairs: of all, per category and task (SSI-Bench)."""
    found = need(rows)
    lines = []
    for name, column in (("task_acc", "score"), ("pairwise_acc", "pairs")):
        line: dict[str, Any] = {"acc_type": name, "overall": 100 * mean(found, column)}
        line |= {f"category/{key}": 100 * mean(members, column) for key, members in by_column(found, "category")}
        line |= {key: 100 * mean(members, column) for key, members in by_column(found, "task")}
        lines.append(line)
    return lines


def observations(rows: Iterable[Row]) -> Table:
    """Return the mean of each type of question, under the names that OST-Bench gives them."""
    found = need(rows, "type")
    return {
        _observation(name): mean(members)
        for name, members in grouped(found, lambda row: as_text(row["type"])).items()
        if name != "A_room-size(float)"
    }


def _observation(name: str) -> str:
    shown = name.replace("float", "Estimation").replace("int", "Counting" if "quantity" in name else "Temporal-loc")
    shown = shown.replace("option", "Judgement").replace("A_object-", "Agent_visible_info-")
    return shown.replace("AO_", "Agent_object_spatial-").replace("A_", "Agent_state-")


def weighted(rows: Iterable[Row], *, by: str) -> Table:
    """Return the mean and the mean weighted by difficulty: of all, and per value of a column (ReasonMap-Plus)."""
    found = need(rows, by)
    lines = []
    for name, members in [("", found), *((f"[{name}]", members) for name, members in by_column(found, by))]:
        total = sum(as_score(row["weight"]) for row in members)
        right = sum(as_score(row["score"]) * as_score(row["weight"]) for row in members)
        lines.append({"metric": f"accuracy{name}", "value": mean(members), "n": len(members)})
        lines.append({"metric": f"weighted_accuracy{name}", "value": right / total, "n": len(members)})
    return lines


_GRAPH_PROBLEMS = {
    "constraint": ("NpGcpD", "NpFeedbackVertexSet"),
    "covering": ("NpVertexCover", "NpDominatingSet"),
    "partitioning": ("NpMinimumCut", "NpMaximumCut"),
    "subgraph": ("NpMaximumCliqueProblem", "NpMaximumSet"),
    "path": ("NpTsp", "NpHamiltonianCycle"),
}


def graph_groups(rows: Iterable[Row]) -> Table:
    """Return how often answers are valid, and the mean ratio to the best: per group of problems, and of groups."""
    found = grouped(need(rows), lambda row: as_text(row["task"]))
    table: dict[str, float] = {}
    every: list[tuple[float, float]] = []
    for name, tasks in _GRAPH_PROBLEMS.items():
        members = [found[task] for task in tasks if task in found]
        if members:
            pair = fmean(mean(rows, "valid") for rows in members), fmean(mean(rows) for rows in members)
            every.append(pair)
            table |= {f"{name}_success_rate": round(100 * pair[0], 1), f"{name}_avg_ratio": round(100 * pair[1], 1)}
    shown = [round(100 * fmean(column), 1) for column in zip(*every, strict=True)]
    return table | dict(zip(("SR", "AR"), shown, strict=True))


def typed(rows: Iterable[Row]) -> Table:
    """Return the mean of four types of answers (Omni3D-Bench)."""
    found = grouped(need(rows), lambda row: as_text(row["part"]))
    names = {
        "yes_no": "Yes/No Accuracy",
        "choice": "Multiple Choice Accuracy",
        "count": "Numeric (count) Accuracy",
        "other": "Numeric (other) Mean Relative Accuracy",
    }
    return {shown: mean(found[name]) if name in found else None for name, shown in names.items()}


def spar_levels(rows: Iterable[Row], *, levels: Mapping[str, Sequence[str]]) -> Table:
    """Return the mean of each task, of the tasks of each level, and of all tasks (SPAR-Bench)."""
    found = need(rows, "task")
    tasks = {
        name: (f"{name}_{members[0]['metric']}", mean(members))
        for name, members in grouped(found, lambda row: as_text(row["task"])).items()
    }
    table = {"overall": fmean(value for _, value in tasks.values())}
    for level, names in levels.items():
        values = [tasks[name][1] for name in names if name in tasks]
        table[level] = fmean(values) if values else 0.0
    return table | dict(tasks[name] for names in levels.values() for name in names if name in tasks)
