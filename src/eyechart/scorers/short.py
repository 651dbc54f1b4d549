"""Questions that a judge reads: short answers (EMMA, PathVQA), and letters among choices in the image (LogicVista)."""

from collections.abc import Callable, Iterable
from functools import partial

from eyechart.metrics.cells import Row, as_text, options_of
from eyechart.metrics.texts.letters import in_order
from eyechart.scorers.choice import ChoiceScorer
from eyechart.scorers.choices.accuracy import Table, report_acc
from eyechart.scorers.choices.counted import counts
from eyechart.scorers.scorer import JUDGE, UNDECIDED, UNREADABLE, Score
from eyechart.scorers.tables import Rows, need
from eyechart.types import Notice


def is_choice(row: Row) -> bool:
    """Tell whether a row asks for one of its options."""
    return bool(options_of(row)) and len(as_text(row.get("answer")).strip()) == 1


class ShortScorer(ChoiceScorer):
    """Choices, read by rule, and open questions, where a judge says whether an answer is the right one."""

    form = "same_answer"

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Leave the answers to open questions as they are."""
        return super().prepare(row) if is_choice(row) else [dict(row)]

    def score(self, row: Row, answer: object) -> Score:
        """Read a letter; leave open questions to the judge."""
        return super().score(row, answer) if is_choice(row) else Score(as_text(answer), UNDECIDED, 0.0)

    def judged(self, row: Row, verdict: float) -> Score:  # type: ignore[override]  # a grade, as of other judges
        """Take the judge's word."""
        return Score(as_text(row.get("prediction")), JUDGE, verdict)

    def chance(self, rows: Rows) -> float | None:
        """Return the accuracy of guessing where all questions are choices."""
        return super().chance(rows) if all(map(is_choice, rows)) else None

    def notices(self, rows: Rows) -> list[Notice]:
        """Look at the keys of choices only."""
        return super().notices([row for row in rows if is_choice(row)])


class LettersScorer(ChoiceScorer):
    """Letters that a judge reads from the answer; one or several are right."""

    form = "letters"

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Put the letters of the key in order: "A, C" is AC."""
        return [
            {**row, "answer": in_order(letter for letter in as_text(row.get("answer")).upper() if letter.isalpha())}
        ]

    def score(self, row: Row, answer: object) -> Score:
        """Leave everything to the judge."""
        return Score(None, UNDECIDED, 0.0)

    def judged(self, row: Row, verdict: str) -> Score:
        """Take the judge's letters; anything else is no verdict."""
        if not (verdict.isalpha() and verdict.isupper()):
            return self.assume(row, UNREADABLE)
        letters = in_order(verdict)
        return Score(letters, JUDGE, float(letters == as_text(row.get("answer"))))


SKILLS = ("inductive", "deductive", "numerical", "spatial", "mechanical")


def skills(rows: Iterable[Row]) -> Table:
    """Return LogicVista's counts: overall, and of the rows whose ``skill`` names one of five."""
    found = need(rows, "hit", "skill")
    groups = {name: [row for row in found if name in as_text(row["skill"])] for name in SKILLS}
    return [{"Task&Skill": name, **counts(group)} for name, group in {"Overall": found, **groups}.items() if group]


SHORT: Callable[..., ChoiceScorer] = partial(ShortScorer, arrange=report_acc)
LETTERS: Callable[..., ChoiceScorer] = partial(LettersScorer, arrange=skills)
