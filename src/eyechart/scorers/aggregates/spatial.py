"""Tables of spatial benchmarks: by task, chance-adjusted, F1, relative accuracy, measures and lists."""

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from eyechart.metrics.cell_values import Row, as_score, as_text, literal_list
from eyechart.scorers.aggregates.means import (
    Rows,
    Table,
    all_right,
    by_column,
    by_value,
    grouped,
    hit,
    mean,
    means,
    need,
    reports,
)

Summary = dict[str, object]


def tabulated(numbers: Mapping[str, float]) -> Summary:
    """Add two lines of text that repeat the numbers, as VLMEvalKit prints them."""
    keys, values = ", ".join(numbers), ", ".join(f"{value:.3f}" for value in numbers.values())
    return {**numbers, "tabulated_keys": keys, "tabulated_results": values}


def _members(rows: Rows, column: str) -> dict[str, list[Row]]:
    return by_value([row for row in rows if as_text(row.get(column))], column)


def tasks(rows: Iterable[Row], show: Sequence[tuple[str, Sequence[str]]], others: bool = False) -> Summary:
    """Return `overall` and the accuracy of each value of some columns, in percent.

    ``show`` lists columns with their values in the order of the table; ``others`` adds the first column's other values.
    """
    found = need(rows)
    numbers = {"overall": 100 * mean(found)}
    for position, (column, names) in enumerate(show):
        groups = _members(found, column)
        more = [name for name in groups if name not in names] if others and not position else []
        for name in (*names, *more):
            if name in groups:
                numbers[f"{name}_accuracy"] = 100 * mean(groups[name])
    return tabulated(numbers)


@reports("overall_caa", points=True)
def chance_adjusted(rows: Iterable[Row], categories: Sequence[str]) -> Summary:
    """Return SITE-Bench's accuracy and chance-adjusted accuracy (CAA), overall and by category, in percent."""
    found = need(rows)
    groups = _members(found, "category")
    numbers = {"overall_accuracy": 100 * mean(found), "overall_caa": 100 * _above_guessing(found)}
    for name in categories:
        if name in groups:
            numbers[f"{name}_accuracy"] = 100 * mean(groups[name])
            numbers[f"{name}_caa"] = 100 * _above_guessing(groups[name])
    return tabulated(numbers)


def _above_guessing(rows: Rows) -> float:
    lists = [literal_list(as_text(row.get("candidates" if "candidates" in row else "options"))) for row in rows]
    guessed = sum(1 / (len(options or ()) or 4) for options in lists)  # four options if a row lists none
    right = sum(as_score(row["score"]) for row in rows)
    return (right - guessed) / (len(rows) - guessed) if len(rows) != guessed else 0.0


STARE_LETTERS = ("2d_trans", "2d_trans_vsim", "3d_trans", "3d_trans_vsim", "temporal", "perspective")
STARE_YES_NO = ("folding_nets", "folding_nets_vsim", "tangram_puzzle", "tangram_puzzle_vsim")
_YES_OR_NO = re.compile(r"([A-F])\s{0,9}[.:\uff1a)\uff09]?\s{0,9}(yes|no)", re.IGNORECASE)


@reports("macro", points=True)
def stare(rows: Iterable[Row]) -> Summary:
    """Return STARE's accuracy by category, F1 for its yes/no questions, and the mean of six tasks (`macro`).

    A category without rows counts as 0, as in VLMEvalKit; an F1 that cannot be computed is omitted from the mean.
    """
    found = need(rows)
    column = "category_agg" if any("category_agg" in row for row in found) else "category"
    groups = grouped(found, lambda row: as_text(row.get(column)).strip().lower())
    numbers, tasks = {"overall_accuracy": 100 * mean(found)}, dict[str, list[float]]()
    for name in (*STARE_LETTERS, *STARE_YES_NO):
        members = groups.get(name, [])
        score: float | None = mean(members) if members else 0.0
        numbers[f"{name}_accuracy"] = 100 * (score or 0.0)
        if name in STARE_YES_NO:
            score = _yes_f1(members)
            numbers |= {} if score is None else {f"{name}_f1": 100 * score}
        if score is not None:
            tasks.setdefault(name.removesuffix("_vsim"), []).append(score)
    return tabulated({**numbers, "macro": 100 * fmean(map(fmean, tasks.values()))})


def _yes_f1(rows: Rows) -> float | None:
    """Return the F1 of yes, by the meaning of the letters in each question; None if no row defines it.

    An unreadable answer counts as the wrong word (VLMEvalKit omits it, which may raise the number).
    """
    pairs = []
    for row in rows:
        meaning = {letter.upper(): word.lower() for letter, word in _YES_OR_NO.findall(as_text(row.get("question")))}
        right = meaning.get(as_text(row["answer"]))
        if right:
            pairs.append((right, meaning.get(as_text(row["choice"]), "no" if right == "yes" else "yes")))
    if not pairs:
        return None
    hits = sum(right == said == "yes" for right, said in pairs)
    total = sum(word == "yes" for pair in pairs for word in pair)
    return 2 * hits / total if total else 0.0


VSI_TYPES = (
    "object_counting", "object_abs_distance", "object_size_estimation", "room_size_estimation", "object_rel_distance",
    "object_rel_direction", "route_planning", "obj_appearance_order",
)  # fmt: skip


@reports("overall", points=True)
def by_question_type(rows: Iterable[Row], numeric: Sequence[str]) -> Summary:
    """Return the mean score of each type of question and their plain mean `overall`, in percent (VSI-Bench, SPBench).

    Letters are right or wrong; the types in ``numeric`` have a mean relative accuracy.
    """
    groups = _members(need(rows, "question_type"), "question_type")
    ends = {name: "MRA:.5:.95:.05" if name in numeric else "accuracy" for name in groups}
    scores = {name: mean(members) for name, members in groups.items()}
    numbers = {"overall": 100 * fmean(scores.values())}
    order = [*(name for name in VSI_TYPES if name in scores), *(name for name in scores if name not in VSI_TYPES)]
    return tabulated(numbers | {f"{name}_{ends[name]}": 100 * scores[name] for name in order})


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
        table |= {level: len(members), f"{level}_correct": right}
        table[f"{level}_score"] = right / len(members) if members else 0
    return table


def pairs_and_counts(rows: Iterable[Row]) -> Table:
    """Return the percentage of each task; T-or-F questions count in pairs, which differ in the index's last part."""
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
    """Return the percentages of complete orders and of pairs: overall, per category and per task (SSI-Bench)."""
    found, groups = need(rows), {"category": "category/{}", "task": "{}"}
    columns = {"task_acc": "score", "pairwise_acc": "pairs"}
    return [
        {"acc_type": name} | means(found, groups=groups, overall="overall", scale=100, column=column)
        for name, column in columns.items()
    ]


def observations(rows: Iterable[Row]) -> Table:
    """Return the mean of each type of question, under OST-Bench's names."""
    table = {}
    for name, members in by_value(need(rows, "type"), "type").items():
        if name != "A_room-size(float)":
            shown = name.replace("float", "Estimation").replace("option", "Judgement")
            shown = shown.replace("int", "Counting" if "quantity" in name else "Temporal-loc")
            shown = shown.replace("A_object-", "Agent_visible_info-").replace("AO_", "Agent_object_spatial-")
            table[shown.replace("A_", "Agent_state-")] = mean(members)
    return table


def weighted(rows: Iterable[Row]) -> Table:
    """Return the mean and the mean weighted by difficulty: overall, and per type (ReasonMap-Plus)."""
    found = need(rows, "type")
    lines = []
    for name, members in [("", found), *((f"[{name}]", members) for name, members in by_column(found, "type"))]:
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


@reports("AR", points=True, primary="AR")
def graph_groups(rows: Iterable[Row]) -> Table:
    """Return the rate of valid answers and the mean ratio to the optimum: per group of problems, and over groups."""
    found = by_value(need(rows), "task")
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
    found = by_value(need(rows), "part")
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
        name: (f"{name}_{members[0]['metric']}", mean(members)) for name, members in by_value(found, "task").items()
    }
    table = {"overall": fmean(value for _, value in tasks.values())}
    known = {level: [tasks[name][1] for name in names if name in tasks] for level, names in levels.items()}
    table |= {level: fmean(values) if values else 0.0 for level, values in known.items()}
    return table | dict(tasks[name] for names in levels.values() for name in names if name in tasks)


def whole_groups(rows: Iterable[Row]) -> Table:
    """Return the share of groups of questions that are all right: per category, and its mean (VisFactor)."""
    found = need(rows, "category_id", "eval_index")
    table = {
        name: fmean(map(all_right, by_value(members, "eval_index").values()))
        for name, members in by_column(found, "category_id")
    }
    return table | {"ALL": fmean(table.values())}
