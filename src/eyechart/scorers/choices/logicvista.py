"""LogicVista: letters among choices in the image, read by a judge."""

from collections.abc import Callable, Iterable
from functools import partial

from eyechart.metrics.cells import Row, as_text
from eyechart.metrics.texts.letters import in_order
from eyechart.scorers.choice import ChoiceScorer
from eyechart.scorers.choices.accuracy import Table
from eyechart.scorers.choices.counted import counts
from eyechart.scorers.scorer import JUDGE, UNDECIDED, UNREADABLE, Score
from eyechart.scorers.tables import need


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


LOGICVISTA: Callable[..., ChoiceScorer] = partial(LettersScorer, arrange=skills)
