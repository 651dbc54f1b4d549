"""Yes/no questions, and NaturalBench's choices between two words."""

import re

from eyechart.datasets.questions.benchmarks import IGNORE_CASE
from eyechart.metrics.answers import YES_NO_EXTRACTORS
from eyechart.metrics.cell_values import Row, as_text, text_list
from eyechart.scorers.rule import JUDGE, UNDECIDED, BoundRule, RuleResult, rule


def _correct(row: Row, found: str, *, metric: str = "", ignore_case: bool = False) -> float:
    answer = as_text(row.get("answer"))
    if metric == IGNORE_CASE:  # a user table may also contain "Yes " or "['Yes']"
        [answer] = text_list(answer)
    if ignore_case or metric == IGNORE_CASE:
        return float(answer.strip().lower() == found.lower())
    return float(answer == found)


def _assumed_word(bound: BoundRule, row: Row, right: bool) -> RuleResult:
    """The right word or the other one: tables count "Unknown" as No, which would sometimes be right."""
    says_yes = any(_correct(row, yes, **bound.options) for yes in ("Yes", "yes")) == right
    return RuleResult("Yes" if says_yes else "No", float(right))


@rule(
    assume=_assumed_word,
    judged=lambda bound, row, verdict: RuleResult(verdict, _correct(row, verdict, **bound.options), rule=JUDGE),
    chance=lambda _bound, _rows: 0.5,
    judge_form="yes_no",
    aggregate="aggregates.means:percentages",
    extractors=tuple(YES_NO_EXTRACTORS),
    binary=True,
)
def yes_no(
    row: Row, text: str, *, extractor: str = "vlmeval", metric: str = "", ignore_case: bool = False
) -> RuleResult:
    """Extract yes or no; with ``ignore_case``, as for user tables, the key is compared case-insensitively."""
    found = YES_NO_EXTRACTORS[extractor](text)
    score = _correct(row, found, metric=metric, ignore_case=ignore_case)
    return RuleResult(found, score, rule=UNDECIDED if found == "Unknown" else extractor)


NATURALBENCH_WORDS = {
    "yes_no": re.compile(r"\b(?:(yes)|no)\b", re.IGNORECASE),
    "multiple_choice": re.compile(r"\b(?:(A)|B)\b", re.IGNORECASE),
}


def naturalbench_answer(text: object, kind: str = "yes_no") -> int:
    """Return 1 if yes (or A) comes first, 0 if no (or B) does, -1 if neither word occurs."""
    first = NATURALBENCH_WORDS[kind].search(as_text(text))
    return -1 if first is None else int(first[1] is not None)


def _assumed_first(bound: BoundRule, row: Row, right: bool) -> RuleResult:
    kind = as_text(row.get("type")) or "yes_no"
    return RuleResult(str(naturalbench_answer(row.get("answer"), kind)) if right else "-1", float(right))


@rule(assume=_assumed_first, chance=lambda _bound, _rows: 0.5, binary=True)
def first_word(row: Row, text: str) -> RuleResult:
    """Extract which of two words comes first; the row's ``type`` selects the words (NaturalBench)."""
    kind = as_text(row.get("type")) or "yes_no"
    if kind not in NATURALBENCH_WORDS:
        raise ValueError(f"{kind!r} is not a type of NaturalBench: expected {', '.join(NATURALBENCH_WORDS)}")
    found = naturalbench_answer(text, kind)
    score = float(found == naturalbench_answer(row.get("answer"), kind))
    return RuleResult(str(found), score, rule=UNDECIDED if found < 0 else "first word")
