"""Golden scores of every scored VLM benchmark: stored rows with predictions, a judge double, and what is compared.

``tests/data/golden/vlm_rows.jsonl`` holds the rows, one line per set of rows and the benchmarks that share it. Each
benchmark is scored in several ways (`cases_of`). ``vlm_edge_rows.jsonl`` holds edge cases of rules and aggregates:
values at a limit, partly right answers, unusual notation, incomplete groups. Each set is scored once, by a benchmark
that uses the rule; its column ``reply`` holds the judge's replies. Only `outcome_of` knows how scoring is called.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "data" / "golden"
ROWS = FOLDER / "vlm_rows.jsonl"
EDGE_ROWS = FOLDER / "vlm_edge_rows.jsonl"
SCORES = FOLDER / "vlm_scores.jsonl"
RAMBLE = "where is it, in all this?! " * 30
LETTERS = "ABCDEFGHIJ"
PHRASES = (
    "{0}", "{1}", "({0})", "The answer is {0}.", "The correct answer is option {1}", "Answer: {0}", "answer: ({1})",
    r"\boxed{{{0}}}", r"so \boxed{{\text{{{1}}}}}", "<answer>{0}</answer>", "{0}. {text}", "{text}", "['{0}']",
    "I think that {1} fits, not {0}", "**{0}**", "Option {0}: {text}", "{0}, {1}", "it is {text} indeed",
    "First {1}.\nAnswer: {0}", "{lower}", "{0}:", "Final Answer {1}", "hmm, well, who knows", "",
)  # fmt: skip
"""Ways to name an option: {0} the right one, {1} the next one, {text} the right option's text."""
DIMENSIONS = (
    "Creativity", "Richness", "Visual Perception", "Logical Coherence", "Answer Accuracy",
    "Image Relationship Understanding", "Overall Score",
)  # fmt: skip


def _grades(*values: float) -> str:
    return json.dumps({name: values[i % len(values)] for i, name in enumerate(DIMENSIONS)})


REPLIES: Mapping[str, Sequence[str]] = {
    "choice": ("{answer}", "A", "Z", RAMBLE, "B", "{answer}"),
    "yes_no": ("{answer}", "Yes", "No", "Unknown", RAMBLE),
    "grade": ("1.0", "0.5", "0", RAMBLE, "0.7"),
    "extract": ("{answer}", "NONE", "77", "B", "the {answer} there", "x" * 501),
    "dialogue": (_grades(9, 7, 5), _grades(2, 10, 0, 4), RAMBLE),
    "compare": ("8 9", "7 4\nwell", "10 1", RAMBLE, "5 5"),
    "verdict": ("Right.", "Wrong", RAMBLE, "right"),
    "letters": ("{answer}", "DB", "A", "Z", "not letters", RAMBLE),
    "components": ("[2, 8]", "[1, 4]", "[0, 6]", RAMBLE, "[2, 9]"),
    "harm": ("Safe", "Unsafe", "Safe.", RAMBLE),
    "risk": ('{{"safety": 1, "effectiveness": 1}}', '{{"safety": 1, "effectiveness": 0}}', RAMBLE,
             '{{"safety": 0, "effectiveness": 1}}'),
    "help": ("Comply", "Refuse", "refuse.", RAMBLE),
}  # fmt: skip
"""What the judge double replies, by form, row after row."""

Row = dict[str, Any]


@dataclass(frozen=True)
class RowSet:
    """Rows with predictions that several benchmarks share."""

    names: tuple[str, ...]
    form: str
    """The form by which a judge is asked; empty where none is."""
    judge: str
    """``no``, ``optional`` or ``required``."""
    extractors: tuple[str, ...]
    letters: bool
    """Whether answers name options by letters."""
    rows: tuple[Row, ...]
    edges: str = ""
    """The title of a set of edge cases; empty: a set for all ways of scoring."""


@dataclass(frozen=True)
class Case:
    """One way to score a benchmark."""

    title: str
    rows: tuple[Row, ...]
    extractor: str = "vlmeval"
    form: str = ""
    """Where a judge is asked: the form of its replies."""
    judges: int = 1
    edges: bool = False
    """Whether the order of the table's numbers and the prompts for the judge are compared, too."""


@cache
def row_sets() -> tuple[RowSet, ...]:
    """Read the stored rows."""
    lines = [line for path in (ROWS, EDGE_ROWS) for line in path.read_text(encoding="utf-8").splitlines()]
    return tuple(_row_set(json.loads(line)) for line in lines)


def _row_set(line: Mapping[str, Any]) -> RowSet:
    rows = tuple({**line["same"], **dict(zip(line["columns"], cells, strict=True))} for cells in line["rows"])
    if line.get("edges"):  # where null is a column that the row lacks
        rows = tuple({name: cell for name, cell in row.items() if cell is not None} for row in rows)
    form, judge, edges = line.get("form", ""), line.get("judge", "no"), line.get("edges", "")
    extractors, letters = tuple(line.get("extractors", ())), line.get("letters", False)
    return RowSet(tuple(line["names"]), form, judge, extractors, letters, rows, edges)


def cases_of(rows: RowSet) -> Iterator[Case]:
    """Yield the ways in which a benchmark is scored: with and without a judge, as given and with lost answers."""
    if rows.edges:
        yield Case(rows.edges, rows.rows, form=rows.form, edges=True)
        return
    given, spoiled = rows.rows, tuple(_spoiled(rows.rows))
    if rows.judge != "required":
        yield Case("given", given)
        yield Case("spoiled", spoiled)
        yield from (Case(f"extractor {name}", given, extractor=name) for name in rows.extractors if name != "vlmeval")
    if rows.letters:
        phrased = tuple(_phrased(rows.rows))
        if rows.judge != "required":
            yield Case("phrases", phrased)
        yield Case("phrases, judged", phrased, form=rows.form)
    if rows.form and rows.judge != "no":
        yield Case("judged", given, form=rows.form)
        yield Case("spoiled, judged", spoiled, form=rows.form)
        yield Case("panel", given, form=rows.form, judges=3)


def _spoiled(rows: Sequence[Row]) -> Iterator[Row]:
    """Take answers away: some are empty or nonsense, some were cut or failed."""
    for i, row in enumerate(rows):
        dialogue = str(row["prediction"]).startswith("[") and str(row["question"]).startswith("[")
        words = {1: "", 4: "hmm, well, who knows"}.get(i % 6)
        changed = {} if words is None or dialogue else {"prediction": words}
        reason = {2: "failed", 5: "length"}.get(i % 8)
        yield {**row, **changed, **({"finish_reason": reason} if reason else {})}


def _phrased(rows: Sequence[Row]) -> Iterator[Row]:
    for i, row in enumerate(rows):
        yield {**row, "prediction": PHRASES[i % len(PHRASES)].format(*_two_letters(row), **_right_text(row))}


def _two_letters(row: Row) -> tuple[str, str]:
    right = str(row["answer"]).strip()[:1] or "A"
    right = LETTERS[int(right)] if right.isdecimal() else right
    place = LETTERS.find(right)
    return right, LETTERS[(place + 1) % 4]


def _right_text(row: Row) -> dict[str, str]:
    right = _two_letters(row)[0]
    return {"text": str(row.get(right) or "elk"), "lower": right.lower()}


class JudgeDouble:
    """Stands in for a judge: replies to each row by its position, from a fixed list per form.

    A row's column ``reply`` has priority; a list there holds the replies to repeated requests.
    """

    def __init__(self, form: str, rows: Sequence[Row], shift: int = 0) -> None:
        self.replies, self.rows, self.shift = REPLIES[form], rows, shift

    def reply(self, position: int, attempt: int = 0) -> str:
        """Return the reply about one row (or one turn of a dialogue)."""
        row = self.rows[min(position, len(self.rows) - 1)]
        if (given := row.get("reply")) is not None:
            return given if isinstance(given, str) else given[min(attempt, len(given) - 1)]
        text = self.replies[(position + self.shift) % len(self.replies)]
        return text.format(answer=row.get("answer")) if "{answer}" in text or "{{" in text else text


def outcome_of(name: str, case: Case, prompts: list[Any]) -> Any:
    """Score rows as the task does: an outcome with metrics, records, notices and details; collect the prompts."""
    from eyechart.datasets.questions.benchmarks import known_benchmarks
    from eyechart.scorers.judging import Judge
    from eyechart.scorers.scoring import score_rows
    from eyechart.tasks.question_metrics import QuestionScores
    from eyechart.types import Answer, Prompt

    def judge(shift: int) -> Judge:
        double = JudgeDouble(case.form, case.rows, shift)

        def ask(asked: Iterable[Prompt], attempt: int) -> list[tuple[str, Answer]]:
            asked = list(asked)
            prompts.extend([p.id, attempt, p.temperature, repr(p.messages)] for p in asked)
            return [(p.id, Answer(double.reply(int(p.id), attempt))) for p in asked]

        return Judge(f"double {shift}", ask)

    judges = [judge(shift) for shift in range(case.judges)] if case.form else []
    scored = score_rows(
        case.rows, known_benchmarks()[name], extractor=case.extractor, judges=judges, cut_answers="wrong"
    )
    return QuestionScores([scored], {}, by_category=True).outcome()


def scored_names() -> set[str]:
    """Name every benchmark that can be scored."""
    from eyechart.datasets.questions.benchmarks import known_benchmarks

    return set(known_benchmarks())


def facts_of(name: str, case: Case) -> dict[str, Any]:
    """Return what is compared: the table, the metrics, counts of rules and notices, and a digest of all records."""
    prompts: list[Any] = []
    outcome = outcome_of(name, case, prompts)
    details = {key: value for key, value in outcome.details.items() if key in ("rules", "lost", "extractors")}
    rows = [[record.get(key) for key in ("id", "extracted", "rule", "correct", "hit")] for record in outcome.records]
    more = {"order": _digest(plain(outcome.details["table"])), "prompts": _digest(prompts)} if case.edges else {}
    return plain(
        {
            "table": outcome.details["table"],
            "metrics": {key: metric_facts(metric) for key, metric in outcome.metrics.items()},
            "details": details,
            "notices": {notice.kind: notice.count for notice in outcome.notices},
            "correct": [row[-1] if row[-1] is not None else row[-2] for row in rows],
            "rows": _digest(plain(rows)),
            **more,
        }
    )


def _digest(value: Any) -> str:
    return sha256(json.dumps(value).encode()).hexdigest()[:16]


def metric_facts(metric: Any) -> list[Any]:
    """Return what is compared of a metric: value, interval, worst and best case, chance, n, and its flags."""
    numbers = [metric.value, metric.low, metric.high, metric.worst_case, metric.best_case, metric.chance, metric.n]
    return [*numbers, *(name for name in ("points", "primary", "lower_is_better") if getattr(metric, name))]


def plain(value: Any) -> Any:
    """Bring values to what JSON holds: numbers to 12 digits, NaN as a text, tuples as lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    return value


def all_scores() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the benchmark, the title of the case and what was found, for all."""
    for rows in row_sets():
        for case in cases_of(rows):
            for name in rows.names:
                yield name, case.title, facts_of(name, case)


def write_scores() -> None:
    """Store the scores: one line per result, with all benchmarks and cases that have it."""
    lines: dict[str, dict[str, list[str]]] = {}
    for name, title, facts in all_scores():
        body = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
        lines.setdefault(body, {}).setdefault(title, []).append(name)
    with SCORES.open("w", encoding="utf-8") as stream:
        for body, cases in lines.items():
            stream.write(f'{{"of":{json.dumps(cases, separators=(",", ":"))},{body[1:]}\n')


@cache
def stored_scores() -> dict[tuple[str, str], dict[str, Any]]:
    """Read the stored scores by benchmark and title."""
    found = {}
    for line in SCORES.read_text(encoding="utf-8").splitlines():
        facts = json.loads(line)
        cases = facts.pop("of")
        found |= {(name, title): facts for title, names in cases.items() for name in names}
    return found
