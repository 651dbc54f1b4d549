"""Ratings over what was extracted or judged before: MathVista, MathVision, MMVet, LLaVABench, MMDU.

A row has the columns of its TSV file and what an extraction or judging step added: `res` and `log`
(MathVista, MathVision) or `score`. Percentages. A row that could not be judged is left out and counted,
never taken for 0.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from eyechart.metrics.answers import infer_choice
from eyechart.metrics.cells import LETTERS, Row, as_score, as_text, is_missing, text_list
from eyechart.metrics.choice_ratings import Table
from eyechart.metrics.math_answers import math_equal
from eyechart.metrics.tables import Rows, by_column, grouped, mean, need

PREFETCHED = "Prefetch succeed"
"""The `log` of a row whose answer was read by rule, without a judge."""

MMVET_CAPABILITIES = ("rec", "ocr", "know", "gen", "spat", "math")


def _choices(row: Row) -> dict[str, object]:
    return dict(zip(LETTERS, text_list(row.get("choices")), strict=False))


def mathvista_read(row: Row, column: str = "prediction") -> str | float | None:
    """Read a MathVista answer by rule: an option's letter (right or wrong), or the target's value if it is that.

    None asks for a judge. `column` is "prediction" before judging and "res" after it.
    """
    response = row.get(column)
    if as_text(row.get("question_type")) == "multi_choice":
        return infer_choice(response, _choices(row))
    convert = _MATHVISTA_TYPES.get(as_text(row.get("answer_type")), _plain)
    try:
        value, target = convert(response), convert(row.get("answer"))
    except ValueError:
        return None
    return value if value == target else None


def _integer(value: object) -> int:
    if isinstance(value, float) and value.is_integer():  # a spreadsheet's way to store 14
        return int(value)
    return int(as_text(value))


def _float(value: object) -> float:
    return float(as_text(value))


def _plain(value: object) -> str:
    return ", ".join(" ".join(text.split()) for text in text_list(value))


_MATHVISTA_TYPES: dict[str, Callable[[object], str | float]] = {"integer": _integer, "float": _float}


def mathvista_hit(row: Row) -> bool:
    """Tell whether the extracted answer `res` is right.

    Texts and lists are compared as texts; VLMEvalKit compares the word None instead, so they never match
    there.
    """
    found = mathvista_read(row, "res")
    if as_text(row.get("question_type")) == "multi_choice":
        return found == as_text(row.get("answer_option"))
    return found is not None


def mathvista(rows: Iterable[Row]) -> Table:
    """Return MathVista's table: tot, prefetch, hit, prefetch_rate and acc, overall, per task and per skill."""
    found = need(rows, "task")
    groups = [[as_text(row["task"]), *text_list(row.get("skills"))] for row in found]
    return _math_table("Task&Skill", found, groups, mathvista_hit)


def mathvision_read(row: Row, column: str = "prediction") -> str | None:
    """Read a MathVision answer by rule: an option's letter (right or wrong), or the answer if it is the target."""
    choices, response = _choices(row), row.get(column)
    if choices:
        return infer_choice(response, choices)
    return as_text(response) if math_equal(response, row.get("answer")) else None


def mathvision_hit(row: Row) -> bool:
    """Tell whether the extracted answer `res` is right."""
    found = mathvision_read(row, "res")
    return found is not None and math_equal(found, row.get("answer"))


def mathvision(rows: Iterable[Row]) -> Table:
    """Return MathVision's table: tot, prefetch, hit, prefetch_rate and acc, overall and per subject (`category`)."""
    found = need(rows, "category")
    return _math_table("Subject", found, [[as_text(row["category"])] for row in found], mathvision_hit)


def _math_table(title: str, rows: Rows, groups: Sequence[Sequence[str]], is_right: Callable[[Row], bool]) -> Table:
    """Count rows, rows read by rule and right rows: over all, then in every group a row belongs to, sorted."""
    counts: dict[str, list[int]] = {}
    for row, names in zip(rows, groups, strict=True):
        facts = (1, as_text(row.get("log")) == PREFETCHED, is_right(row))
        for name in ("Overall", *names):
            line = counts.setdefault(name, [0, 0, 0])
            line[:] = map(sum, zip(line, facts, strict=True))
    order = sorted(counts, key=lambda name: (name != "Overall", name))
    return [_math_line(title, name, *counts[name]) for name in order]


def _math_line(title: str, name: str, total: int, prefetched: int, hits: int) -> dict[str, object]:
    return {
        title: name,
        "tot": total,
        "prefetch": prefetched,
        "hit": hits,
        "prefetch_rate": 100 * prefetched / total,
        "acc": 100 * hits / total,
    }


def mmvet(rows: Iterable[Row]) -> dict[str, dict[str, list[float]]]:
    """Return MM-Vet's [number of rows, mean score] per capability (`score`) and per combination of them (`fine`).

    A row without a score is left out and counted under `unscored`. A question of one capability counts once
    for it (VLMEvalKit counts it twice).
    """
    found = need(rows, "category")
    scored = [row for row in found if not is_missing(row.get("score"))]
    abilities = {
        name: [row for row in scored if name in as_text(row["category"]).split(",")] for name in MMVET_CAPABILITIES
    }
    combined = grouped(scored, lambda row: as_text(row["category"]).replace(",", "_"))
    lost = len(found) - len(scored)
    return {
        "score": _mmvet_lines({**abilities, "Overall": scored}, lost),
        "fine": _mmvet_lines({**{str(name): members for name, members in combined.items()}, "Overall": scored}, lost),
    }


def _mmvet_lines(groups: Mapping[str, Rows], lost: int) -> dict[str, list[float]]:
    lines: dict[str, list[float]] = {name: [len(rows), 100 * mean(rows)] for name, rows in groups.items() if rows}
    return lines | ({"unscored": [lost]} if lost else {})


def llavabench_pair(review: object) -> tuple[float, float] | None:
    """Read a judge's two scores from the first line of its review ("8 9" or "8,9"); None when they are not there."""
    parts = as_text(review).split("\n")[0].replace(",", " ").split(" ")
    try:
        first, second = map(float, parts)
    except ValueError:
        return None
    return (first, second) if math.isfinite(first) and math.isfinite(second) else None


def llavabench(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Return LLaVABench's numbers, overall and per category: the model's score relative to GPT-4's, and both times 10.

    Rounded to one decimal. A row without both scores (or with -1, VLMEvalKit's mark for an unreadable
    review) is left out and counted under `unscored`.
    """
    found = need(rows, "category")
    scored = [row for row in found if _is_rated(row.get("score")) and _is_rated(row.get("gpt4_score"))]
    groups: list[tuple[str, Rows]] = [("overall", scored), *by_column(scored, "category")] if scored else []
    table = {name: _llavabench_numbers(members) for name, members in groups}
    return table | ({"unscored": {"rows": len(found) - len(scored)}} if len(scored) < len(found) else {})


def _is_rated(value: object) -> bool:
    return not is_missing(value) and as_score(value) >= 0


def _llavabench_numbers(rows: Rows) -> dict[str, float]:
    own, other = mean(rows), mean(rows, lambda row: as_score(row["gpt4_score"]))
    relative = {"Relative Score (main)": round(100 * own / other, 1)} if other else {}
    return relative | {"VLM Score": round(10 * own, 1), "GPT4 Score": round(10 * other, 1)}


def mmdu(dialogues: Iterable[Sequence[Mapping[str, object]]]) -> dict[str, dict[str, float]]:
    """Return MMDU's mean per dimension, times 10: over `all` turns (a missing score is 0) and over `valid` ones.

    Each dialogue is a list of turns, each turn the judge's scores from 0 to 10 by dimension; others are cut
    to that.
    """
    turns = [turn for dialogue in dialogues for turn in dialogue]
    names = list(dict.fromkeys(name for turn in turns for name in turn))
    table: dict[str, dict[str, float]] = {"all": {}, "valid": {}}
    for name in names:
        scores = [min(10.0, max(0.0, as_score(turn[name]))) for turn in turns if not is_missing(turn.get(name))]
        table["all"][name] = 10 * sum(scores) / len(turns)
        if scores:
            table["valid"][name] = 10 * fmean(scores)
    return table
