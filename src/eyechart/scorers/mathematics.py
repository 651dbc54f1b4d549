"""Mathematics: MathVista and MathVision. What a rule reads is taken, a judge extracts the rest.

A row has the columns of its TSV file, what was extracted (`res`), how (`log`) and its `score`. Percentages.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from eyechart.metrics.answers import infer_choice
from eyechart.metrics.cells import LETTERS, Row, as_score, as_text, text_list
from eyechart.metrics.texts.math_answers import math_equal
from eyechart.metrics.texts.math_text import boxed, plain_expression
from eyechart.scorers.judging.replies import NO_ANSWER
from eyechart.scorers.scorer import DIFFERENT, JUDGE, UNDECIDED, Score, Scorer
from eyechart.scorers.tables import Rows, need

PREFETCHED = "Prefetch succeed"
"""The `log` of a row whose answer was read by rule, without a judge."""

LONGEST_VALUE = 3
"""Words of an answer that is a value as it stands; a longer one is a solution, from which nobody has read anything."""
_BARE = re.compile(r"[-+]?\d+(?:\.\d*)?")
MathTable = list[dict[str, object]]


def _choices(row: Row) -> dict[str, object]:
    return dict(zip(LETTERS, text_list(row.get("choices")), strict=False))


def mathvista_read(row: Row, column: str = "prediction") -> str | float | None:
    """Read a MathVista answer by rule: an option's letter (right or wrong), or the target's value if it is that.

    None asks for a judge. `column` is "prediction" before judging and "res" after it.
    """
    response = row.get(column)
    if as_text(row.get("question_type")) == "multi_choice":
        return _option(response, _choices(row))
    convert = _MATHVISTA_TYPES.get(as_text(row.get("answer_type")), _plain)
    try:
        value, target = convert(response), convert(row.get("answer"))
    except ValueError:
        value, target = "", None
    if value == target:
        return value
    # A bare number of the other type, 14.0 for 14, is left to the judge, as VLMEvalKit does.
    written = not _BARE.fullmatch(as_text(response).strip())
    return as_text(row.get("answer")) if written and math_equal(response, row.get("answer")) else None


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


def mathvista(rows: Iterable[Row]) -> MathTable:
    """Return MathVista's table: tot, prefetch, hit, prefetch_rate and acc, overall, per task and per skill."""
    found = need(rows, "task")
    groups = [[as_text(row["task"]), *text_list(row.get("skills"))] for row in found]
    return _math_table("Task&Skill", found, groups)


def mathvision_read(row: Row, column: str = "prediction") -> str | None:
    """Read a MathVision answer by rule: an option's letter (right or wrong), or the answer if it is the target."""
    choices, response = _choices(row), row.get(column)
    if choices:
        return _option(response, choices)
    return as_text(response) if math_equal(response, row.get("answer")) else None


def _option(response: object, choices: dict[str, object]) -> str | None:
    r"""Read an option's letter, also from the last box: ``\boxed{\text{B}}``."""
    box = boxed(as_text(response))
    return infer_choice(response, choices) or (
        infer_choice(plain_expression(box[-1]).upper(), choices) if box else None
    )


def mathvision_hit(row: Row) -> bool:
    """Tell whether the extracted answer `res` is right."""
    found = mathvision_read(row, "res")
    return found is not None and math_equal(found, row.get("answer"))


def mathvision(rows: Iterable[Row]) -> MathTable:
    """Return MathVision's table: tot, prefetch, hit, prefetch_rate and acc, overall and per subject (`category`)."""
    found = need(rows, "category")
    return _math_table("Subject", found, [[as_text(row["category"])] for row in found])


def _math_table(title: str, rows: Rows, groups: Sequence[Sequence[str]]) -> MathTable:
    """Count rows, rows read by rule and right rows: over all, then in every group a row belongs to, sorted."""
    counts: dict[str, list[int]] = {}
    for row, names in zip(rows, groups, strict=True):
        facts = (1, as_text(row.get("log")) == PREFETCHED, bool(as_score(row["score"])))
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


@dataclass(frozen=True)
class MathScorer(Scorer):
    """Answers that are an option, a number or a few words."""

    read: Callable[[Row], Any] = mathvista_read
    hit: Callable[[Row], bool] = mathvista_hit

    form = "extract"

    def score(self, row: Row, answer: object) -> Score:
        """Read an option or the right value."""
        found = self.read({**row, "prediction": answer})
        if found is not None:
            return self._scored(row, as_text(found), PREFETCHED)
        value = as_text(answer).strip()
        if value and not _choices(row) and len(value.split()) <= LONGEST_VALUE:
            return Score(value, DIFFERENT, 0.0)
        return Score(None, UNDECIDED, 0.0)

    def judged(self, row: Row, verdict: str) -> Score:
        """Compare what the judge extracted; `NO_ANSWER` is wrong, whatever options it looks like."""
        return Score(verdict, JUDGE, 0.0) if verdict == NO_ANSWER else self._scored(row, verdict, JUDGE)

    def _scored(self, row: Row, found: str, rule: str) -> Score:
        return Score(found, rule, float(self.hit({**row, "res": found})))

    def columns(self, score: Score) -> dict[str, object]:
        """Give answer and rule under the original's names."""
        return {"res": score.extracted or "", "log": score.rule, "score": score.correct}


MATHVISTA = partial(MathScorer, read=mathvista_read, hit=mathvista_hit, arrange=mathvista)
MATHVISION = partial(MathScorer, read=mathvision_read, hit=mathvision_hit, arrange=mathvision)
