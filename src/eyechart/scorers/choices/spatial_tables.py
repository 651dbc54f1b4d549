"""The tables of benchmarks of space: percentages by task, corrected for guessing, F1 and mean relative accuracy."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from eyechart.metrics.cells import Row, as_score, as_text, literal_list
from eyechart.scorers.tables import Rows, grouped, mean, need

Summary = dict[str, object]


def tabulated(numbers: Mapping[str, float]) -> Summary:
    """Return numbers with two lines of text that hold them again, as VLMEvalKit prints them."""
    keys, values = ", ".join(numbers), ", ".join(f"{value:.3f}" for value in numbers.values())
    return {**numbers, "tabulated_keys": keys, "tabulated_results": values}


def _members(rows: Rows, column: str) -> dict[str, list[Row]]:
    return grouped([row for row in rows if as_text(row.get(column))], lambda row: as_text(row[column]))


def tasks(rows: Iterable[Row], show: Sequence[tuple[str, Sequence[str]]], others: bool = False) -> Summary:
    """Return `overall` and the accuracy of each value of some columns, in per cent.

    ``show`` lists columns with their values in the order of the table; ``others`` adds the first column's other values.
    """
    found = need(rows, "hit")
    numbers = {"overall": 100 * mean(found, "hit")}
    for position, (column, names) in enumerate(show):
        groups = _members(found, column)
        more = [name for name in groups if name not in names] if others and not position else []
        for name in (*names, *more):
            if name in groups:
                numbers[f"{name}_accuracy"] = 100 * mean(groups[name], "hit")
    return tabulated(numbers)


def chance_adjusted(rows: Iterable[Row], categories: Sequence[str]) -> Summary:
    """Return SITE-Bench's accuracy and its accuracy above guessing (CAA), overall and by category, in per cent."""
    found = need(rows, "hit")
    groups = _members(found, "category")
    numbers = {"overall_accuracy": 100 * mean(found, "hit"), "overall_caa": 100 * _above_guessing(found)}
    for name in categories:
        if name in groups:
            numbers[f"{name}_accuracy"] = 100 * mean(groups[name], "hit")
            numbers[f"{name}_caa"] = 100 * _above_guessing(groups[name])
    return tabulated(numbers)


def _above_guessing(rows: Rows) -> float:
    guessed = sum(1 / _count(row) for row in rows)
    right = sum(as_score(row["hit"]) for row in rows)
    return (right - guessed) / (len(rows) - guessed) if len(rows) != guessed else 0.0


def _count(row: Row) -> int:
    """Return how many options a row lists; four if it lists none."""
    column = "candidates" if "candidates" in row else "options"
    return len(literal_list(as_text(row.get(column))) or ()) or 4


STARE_LETTERS = ("2d_trans", "2d_trans_vsim", "3d_trans", "3d_trans_vsim", "temporal", "perspective")
STARE_YES_NO = ("folding_nets", "folding_nets_vsim", "tangram_puzzle", "tangram_puzzle_vsim")
STARE_TERMS = (
    ("2d_trans", "2d_trans_vsim"),
    ("3d_trans", "3d_trans_vsim"),
    ("folding_nets", "folding_nets_vsim"),
    ("tangram_puzzle", "tangram_puzzle_vsim"),
    ("temporal",),
    ("perspective",),
)


def stare(rows: Iterable[Row]) -> Summary:
    """Return STARE's accuracy by category, F1 for its yes/no questions, and the mean of six tasks (`macro`).

    A category without rows counts as 0, as in VLMEvalKit; an F1 that cannot be computed is left out of the mean.
    """
    found = need(rows, "hit")
    column = "category_agg" if any("category_agg" in row for row in found) else "category"
    groups = grouped(found, lambda row: as_text(row.get(column)).strip().lower())
    numbers, terms = {"overall_accuracy": 100 * mean(found, "hit")}, dict[str, float | None]()
    for name in (*STARE_LETTERS, *STARE_YES_NO):
        members = groups.get(name, [])
        terms[name] = mean(members, "hit") if members else 0.0
        numbers[f"{name}_accuracy"] = 100 * (terms[name] or 0.0)
        if name in STARE_YES_NO:
            terms[name] = f1 = _yes_f1(members)
            numbers |= {} if f1 is None else {f"{name}_f1": 100 * f1}
    known = ([value for name in names if (value := terms[name]) is not None] for names in STARE_TERMS)
    means = [fmean(values) for values in known if values]
    return tabulated({**numbers, "macro": 100 * fmean(means)})


_YES_OR_NO = re.compile(r"([A-F])\s{0,9}[.:\uff1a)\uff09]?\s{0,9}(yes|no)", re.IGNORECASE)


def _yes_f1(rows: Rows) -> float | None:
    """Return the F1 of yes, by what the letters mean in each question; None where no row says that.

    An answer that cannot be read counts as the wrong word (VLMEvalKit leaves it out, which may raise the number).
    """
    pairs = list(_meant(rows))
    if not pairs:
        return None
    hits = sum(right == said == "yes" for right, said in pairs)
    total = sum(word == "yes" for pair in pairs for word in pair)
    return 2 * hits / total if total else 0.0


def _meant(rows: Rows) -> Iterator[tuple[str, str]]:
    for row in rows:
        meaning = {letter.upper(): word.lower() for letter, word in _YES_OR_NO.findall(as_text(row.get("question")))}
        right = meaning.get(as_text(row["answer"]))
        if right:
            yield right, meaning.get(as_text(row["choice"]), "no" if right == "yes" else "yes")


VSI_TYPES = (
    "object_counting",
    "object_abs_distance",
    "object_size_estimation",
    "room_size_estimation",
    "object_rel_distance",
    "object_rel_direction",
    "route_planning",
    "obj_appearance_order",
)


def by_question_type(rows: Iterable[Row], numeric: Sequence[str]) -> Summary:
    """Return the mean score of each type of question and their plain mean `overall`, in per cent (VSI-Bench, SPBench).

    Letters are right or wrong; the types in ``numeric`` have a mean relative accuracy.
    """
    groups = _members(need(rows, "hit", "question_type"), "question_type")
    ends = {name: "MRA:.5:.95:.05" if name in numeric else "accuracy" for name in groups}
    scores = {name: mean(members, "hit") for name, members in groups.items()}
    numbers = {"overall": 100 * fmean(scores.values())}
    order = [*(name for name in VSI_TYPES if name in scores), *(name for name in scores if name not in VSI_TYPES)]
    return tabulated(numbers | {f"{name}_{ends[name]}": 100 * scores[name] for name in order})
