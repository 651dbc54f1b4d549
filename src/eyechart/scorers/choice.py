"""Multiple choice: the answer is read as a letter, by the rule that the benchmark names, and compared with the key.

A row has the columns of its TSV file (index, A, B, ..., answer, category, l2-category, split) and `hit`, 1 or 0. The
parameters of a benchmark in the catalogue: ``reader`` (one of `READERS`), ``options`` (the columns that hold the
options, where that is not A, B, ...), ``keys`` ("numbers": the key counts the options from 0; "text": it is no option),
``table`` (one of `TABLES`) and ``arrange``, what that table needs to know.
"""

import re
from collections.abc import Callable
from functools import partial
from statistics import fmean

from eyechart.datasets.questions.asking import options_in
from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.metrics.answers import EXTRACTORS
from eyechart.metrics.cells import LETTERS, Row, as_text, is_missing, options_of
from eyechart.metrics.texts.choices import FAILED, NO_OPTION, Extraction, key_letter
from eyechart.metrics.texts.letters import READERS, in_order
from eyechart.metrics.texts.spatial import mean_relative_accuracy, spatial_number
from eyechart.scorers.choices import TABLES
from eyechart.scorers.choices.accuracy import Table, hrbench, mmt, mmvp, report_acc
from eyechart.scorers.scorer import JUDGE, UNDECIDED, Score, Scorer
from eyechart.scorers.tables import Rows
from eyechart.types import Notice

__all__ = ["ChoiceScorer", "Table", "close_open", "hrbench", "mmt", "mmvp", "report_acc"]

OTHER_ANSWERS = "Other Answers"
VLMEVAL = "vlmeval"
SEVERAL = frozenset({"letter_set", "letter_set_to_g", "letter_or_order", "listed"})
"""Readers whose answers, and keys, may be several letters."""


def close_open(row: Row) -> dict[str, object]:
    """Return a row without options as the choice A = its answer, B = "Other Answers", answer A (MMMU's convention).

    The prediction was made without seeing these options, so it is right when the answer's text occurs in it.
    """
    if not is_missing(row.get("A")):
        return dict(row)
    return {**row, "A": as_text(row.get("answer")), "B": OTHER_ANSWERS, "answer": "A"}


class ChoiceScorer(Scorer):
    """Multiple choice."""

    form = "choice"
    extractors = tuple(EXTRACTORS)

    @property
    def reader(self) -> str:
        """Name the rule that VLMEvalKit reads this benchmark's answers by."""
        return str(self.benchmark.parameters.get("reader", VLMEVAL))

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Put the options into the columns A, B, ... and the key into a letter.

        Raises:
            ValueError: If the key of a table of one's own is none of its options: nobody could be right. In published
                tables it stays, and is counted.
        """
        columns = self.benchmark.parameters.get("options", "")
        made = {**row, **options_in(row, columns)} if columns else dict(row)
        options, key = options_of(made), self._key(made)
        if key is not None and (options or self.benchmark.url):
            return [{**made, "answer": key}]
        if not self.benchmark.url:
            letters = ", ".join(options) or "none"
            answer = as_text(row.get("answer"))
            raise ValueError(f"the answer {answer!r} of index {row.get('index')} is none of its letters: {letters}")
        return [made]

    def _key(self, row: Row) -> str | None:
        """Return the key as a letter (or several), None if it is none of the options."""
        answer, options = as_text(row.get("answer")).strip(), options_of(row)
        keys = self.benchmark.parameters.get("keys")
        if keys == "text":
            return as_text(row.get("answer"))
        if keys == "numbers" and answer.isdecimal() and int(answer) < len(LETTERS):
            answer = LETTERS[int(answer)]
        if self.reader in SEVERAL and len(letters := re.sub(r"[^A-Z]", "", answer)) > 1:
            order = letters if self.reader == "letter_or_order" else in_order(letters)
            return order if set(order) <= set(options or LETTERS) else None
        if not options:  # they stand in the question or in the image
            return key_letter(answer, dict.fromkeys(LETTERS, "")) or answer
        return key_letter(answer, options)

    def score(self, row: Row, answer: object) -> Score:
        """Read what was chosen."""
        found = self._read(row, answer)
        rule = found.rule if found.choice is not None else UNDECIDED
        return Score(found.choice, rule, float(found.choice == as_text(row.get("answer"))))

    def _read(self, row: Row, answer: object) -> Extraction:
        options, text = options_of(row), as_text(answer)
        strict = self.extractor != VLMEVAL and options and self.reader not in SEVERAL  # it looks for one of the options
        if strict or self.reader == VLMEVAL:
            return EXTRACTORS[self.extractor](answer, options)
        return Extraction(None if FAILED in text else READERS[self.reader](text, options, row), self.reader)

    def judged(self, row: Row, verdict: str) -> Score:
        """Take the judge's letter."""
        return Score(verdict, JUDGE, float(verdict == as_text(row.get("answer"))))

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Assume the key, or no option."""
        return Score(as_text(row.get("answer")) if right else None, rule, float(right))

    def columns(self, score: Score) -> dict[str, object]:
        """Give the letter; Z, which is never right, where there is none."""
        return {"choice": score.extracted or NO_OPTION, "hit": score.correct}

    def chance(self, rows: Rows) -> float | None:
        """Return the accuracy of guessing among the options."""
        counts = [len(options_of(row)) for row in rows]
        several = self.reader in SEVERAL and any(len(as_text(row.get("answer"))) > 1 for row in rows)
        return fmean(1 / count for count in counts) if counts and all(counts) and not several else None

    def notices(self, rows: Rows) -> list[Notice]:
        """Count the keys of a published table that are none of the options: no answer can be right there."""
        lost = sum(bool(options_of(row)) and self._key(row) is None for row in rows)
        text = f"{lost} rows have a key that is none of their options: no answer to them can be right."
        return [Notice("keys_without_option", lost, text)] if lost else []


class MmmuScorer(ChoiceScorer):
    """MMMU: an open question is a choice between its answer and any other, as in VLMEvalKit."""

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Close open questions."""
        return super().prepare(close_open(row))


class NumberOrChoiceScorer(ChoiceScorer):
    """Letters, and numbers that are the better the nearer they are; the question's type says which (SPBench)."""

    binary = False

    def _is_number(self, row: Row) -> bool:
        return as_text(row.get("question_type")) in self.benchmark.parameters["arrange"]["numeric"]

    def _key(self, row: Row) -> str | None:
        return as_text(row.get("answer")) if self._is_number(row) else super()._key(row)

    def score(self, row: Row, answer: object) -> Score:
        """Read a letter, or the number that an answer ends in."""
        if not self._is_number(row):
            return super().score(row, answer)
        found = spatial_number(as_text(answer))
        if found is None:
            return Score(None, "no number", 0.0)
        return Score(str(found), "number", mean_relative_accuracy(found, float(as_text(row["answer"]))))

    def chance(self, rows: Rows) -> float | None:
        """Return nothing: numbers are not guessed among options."""
        return None


def by_parameters(
    kind: type[ChoiceScorer], benchmark: QuestionBenchmark, extractor: str = VLMEVAL, table: str = ""
) -> ChoiceScorer:
    """Return the scorer of a benchmark, with the table that its parameters name."""
    form = TABLES[table or benchmark.parameters.get("table", "accuracy")]
    return kind(
        benchmark,
        extractor,
        arrange=partial(form.arrange, **benchmark.parameters.get("arrange", {})),
        numbers=form.numbers,
        points=form.points,
    )


CHOICE: Callable[..., ChoiceScorer] = partial(by_parameters, ChoiceScorer)
MMMU: Callable[..., ChoiceScorer] = partial(by_parameters, MmmuScorer)
NUMBER_OR_CHOICE: Callable[..., ChoiceScorer] = partial(by_parameters, NumberOrChoiceScorer)
MMVP: Callable[..., ChoiceScorer] = partial(CHOICE, table="mmvp")
MMT: Callable[..., ChoiceScorer] = partial(CHOICE, table="mmt")
HRBENCH: Callable[..., ChoiceScorer] = partial(CHOICE, table="hrbench")
