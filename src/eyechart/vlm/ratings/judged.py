"""Ratings that need a judge, or are better with one: mathematics, graded answers, dialogues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eyechart.metrics import ratings as metrics
from eyechart.metrics.cells import Row, as_text, text_list
from eyechart.metrics.judged_ratings import PREFETCHED
from eyechart.vlm.judges import DialogueForm, ExtractForm, GradeForm, JudgeForm
from eyechart.vlm.ratings.base import JUDGE, UNDECIDED, Rating, Reading


class Mathematics(Rating):
    """MathVista and MathVision: what a rule reads is taken, a judge extracts the rest."""

    form = ExtractForm()
    KINDS: Mapping[str, tuple[Callable[[Row], Any], Callable[[Row], bool], Callable[[Sequence[Row]], Any]]] = {
        "mathvista": (metrics.mathvista_read, metrics.mathvista_hit, metrics.mathvista),
        "mathvision": (metrics.mathvision_read, metrics.mathvision_hit, metrics.mathvision),
    }

    def read(self, row: Row, extractor: str) -> Reading:
        """Read an option or the right value."""
        found = self.KINDS[self.benchmark.rating][0](row)
        if found is None:
            return Reading(None, UNDECIDED, 0.0)
        return Reading(as_text(found), PREFETCHED, self._correct(row, as_text(found)))

    def judged(self, row: Row, verdict: str) -> Reading:
        """Compare what the judge extracted."""
        return Reading(verdict, JUDGE, self._correct(row, verdict))

    def _correct(self, row: Row, found: str) -> float:
        return float(self.KINDS[self.benchmark.rating][1]({**row, "res": found}))

    def columns(self, row: Row, reading: Reading) -> dict[str, object]:
        """Give answer and rule under the original's names."""
        return {"res": reading.extracted or "", "log": reading.rule, "score": reading.correct}

    def table(self, rows: Sequence[Row]) -> Any:
        """Make the benchmark's table."""
        return self.KINDS[self.benchmark.rating][2](rows)

    def headline(self, table: Any) -> dict[str, float]:
        """Return nothing: `accuracy` says it."""
        return {}


class Graded(Rating):
    """Open questions that a judge grades from 0 to 1: MM-Vet, CORE-MM."""

    form: JudgeForm | None = GradeForm()
    binary = False

    def read(self, row: Row, extractor: str) -> Reading:
        """Leave everything to the judge."""
        return Reading(as_text(row.get("prediction")), UNDECIDED, None)

    def judged(self, row: Row, verdict: Any) -> Reading:
        """Take the grade."""
        return Reading(as_text(row.get("prediction")), JUDGE, verdict)

    def table(self, rows: Sequence[Row]) -> Any:
        """Return means per ability, or per category."""
        if self.benchmark.rating == "mmvet":
            return metrics.mmvet(rows)
        return metrics.yes_no(rows)  # the same table: overall, per category, of given scores

    def headline(self, table: Any) -> dict[str, float]:
        """Return nothing: `accuracy` says it."""
        return {}


class Dialogue(Graded):
    """Dialogues whose turns a judge grades in several respects."""

    form = DialogueForm()

    def judged(self, row: Row, verdict: Any) -> Reading:
        """Take the overall grade as the score; the others go to the table."""
        return Reading(as_text(row.get("prediction")), JUDGE, verdict["Overall Score"] / 10, verdict)

    def prepare_all(self, rows: Sequence[Row]) -> list[dict[str, object]]:
        """Make a row of each turn: its question, right answer and reply; ``dialogue`` is the row's index."""
        turns: list[dict[str, object]] = []
        for row in rows:
            cells = [text_list(row.get(column)) for column in ("question", "answer", "prediction")]
            for i, (question, answer, reply) in enumerate(zip(*cells, strict=True)):
                index = as_text(row["index"])
                turn = {"index": f"{index}/{i}", "dialogue": index}
                turns.append({**row, **turn, "question": question, "answer": answer, "prediction": reply})
        return turns

    def columns(self, row: Row, reading: Reading) -> dict[str, object]:
        """Give the grades."""
        return {"grades": dict(reading.grades or {}), "score": reading.correct}

    def table(self, rows: Sequence[Row]) -> Any:
        """Return MMDU's means per respect."""
        dialogues: dict[str, list[Any]] = {}
        for row in rows:
            dialogues.setdefault(as_text(row["dialogue"]), []).append(row["grades"])
        return metrics.mmdu(dialogues.values())
