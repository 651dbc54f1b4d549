"""Dialogues whose turns a judge grades in several respects: MMDU."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean

from eyechart.metrics.cells import Row, as_score, as_text, is_missing, text_list
from eyechart.scorers.graded import GradedScorer
from eyechart.scorers.scorer import FAILED, JUDGE, Score
from eyechart.scorers.tables import Rows, grouped

DIMENSIONS = (
    "Creativity",
    "Richness",
    "Visual Perception",
    "Logical Coherence",
    "Answer Accuracy",
    "Image Relationship Understanding",
    "Overall Score",
)


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


class DialogueScorer(GradedScorer):
    """Dialogues, turn by turn."""

    form = "dialogue"

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Make a row of each turn: its question, right answer and reply; ``dialogue`` is the row's index."""
        cells = [text_list(row.get(column)) for column in ("question", "answer", "prediction")]
        index = as_text(row["index"])
        if row.get("finish_reason") == FAILED:
            cells[2] = [""] * len(cells[0])
        each = row.get("finish_reasons")
        reasons = each if isinstance(each, list) else [row.get("finish_reason")] * len(cells[0])
        if len(set(map(len, cells))) > 1:
            questions, answers, replies = map(len, cells)
            raise ValueError(f"index {index} has {questions} questions, {answers} answers and {replies} replies")
        return [
            {**row, "index": f"{index}/{i}", "dialogue": index}
            | {"question": question, "answer": answer, "prediction": reply, "finish_reason": reason}
            for i, (question, answer, reply, reason) in enumerate(zip(*cells, reasons, strict=True))
        ]

    def judged(self, row: Row, verdict: Mapping[str, float]) -> Score:
        """Take the overall grade as the score; the others go to the table."""
        return Score(as_text(row.get("prediction")), JUDGE, verdict["Overall Score"] / 10, verdict)

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Assume the lowest grade in every respect, or the highest."""
        grades = dict.fromkeys(DIMENSIONS, 10.0 * right)
        return Score(as_text(row.get("prediction")), rule, float(right), grades)

    def columns(self, score: Score) -> dict[str, object]:
        """Give the grades."""
        return {"grades": dict(score.grades or {}), "score": score.correct}


def _turns(rows: Rows) -> dict[str, dict[str, float]]:
    dialogues = grouped(rows, lambda row: row["dialogue"])
    return mmdu([row["grades"] for row in turns] for turns in dialogues.values())  # type: ignore[misc]


DIALOGUE = partial(DialogueScorer, arrange=_turns)
