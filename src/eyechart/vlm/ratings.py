"""How answers become numbers: reading one answer, judging one, and the table of a whole benchmark.

The arithmetic is in `eyechart.metrics`; here it gets a common shape, so that the runner needs to know no benchmark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from eyechart.metrics import ratings as metrics
from eyechart.metrics.answers import EXTRACTORS, YES_NO_EXTRACTORS, open_score
from eyechart.metrics.captions import score_captions
from eyechart.metrics.cells import Row, as_text, options_of, text_list
from eyechart.metrics.circular import circular_groups
from eyechart.metrics.judged_ratings import PREFETCHED
from eyechart.vlm.benchmarks import Benchmark
from eyechart.vlm.judges import ChoiceForm, DialogueForm, ExtractForm, GradeForm, JudgeForm, YesNoForm

UNDECIDED = "undecided"
UNREADABLE = "unreadable verdict"
JUDGE = "judge"
IGNORE_CASE = "ignore_case"
"""As the metric of yes/no questions: ``yes`` and ``Yes`` are the same answer (VLMEvalKit tells them apart)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from one answer, by which rule, and how right it is; ``correct`` None means unscored."""

    extracted: str | None
    rule: str
    correct: float | None
    grades: Mapping[str, float] | None = None
    """A judge's grades in several respects, where there are such."""


class Rating:
    """The common shape; ``form`` is how a judge is asked about answers whose rule is `UNDECIDED`."""

    form: JudgeForm | None = None
    extractors: tuple[str, ...] = ()
    """The ways to read an answer that this rating knows."""
    binary = True
    """Whether an answer is right or wrong, or scored with a fraction."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark

    def prepare_all(self, rows: Sequence[Row]) -> list[dict[str, object]]:
        """Bring the rows to the form that is scored."""
        return [self.prepare(row) for row in rows]

    def prepare(self, row: Row) -> dict[str, object]:
        """Bring one row to the form that is scored."""
        return dict(row)

    def read(self, row: Row, extractor: str) -> Reading:
        """Read an answer by rule."""
        raise NotImplementedError

    def judged(self, row: Row, verdict: Any) -> Reading:
        """Take a judge's verdict."""
        raise NotImplementedError

    def worth_judging(self, rows: Sequence[Row], readings: Sequence[Reading]) -> list[int]:
        """Return the positions of the answers that a judge shall read."""
        return [i for i, reading in enumerate(readings) if reading.rule == UNDECIDED]

    def columns(self, row: Row, reading: Reading) -> dict[str, object]:
        """Return what the table needs of a reading."""
        return {"extracted": reading.extracted, "score": reading.correct}

    def table(self, rows: Sequence[Row]) -> Any:
        """Make the benchmark's own table."""
        raise NotImplementedError

    def headline(self, table: Any) -> dict[str, float]:
        """Pick the numbers of the table that stand for the benchmark."""
        return {name: value for name, value in table.items() if name == "Overall"} if isinstance(table, dict) else {}

    def chance(self, rows: Sequence[Row]) -> float | None:
        """Return the accuracy of guessing, where that means something."""
        return None

    def units(self, rows: Sequence[Row], readings: Sequence[Reading]) -> list[tuple[str, float]]:
        """Return the independent questions by index, with how right each is; unscored ones are left out."""
        pairs = zip(rows, readings, strict=True)
        return [(as_text(row["index"]), reading.correct) for row, reading in pairs if reading.correct is not None]


class Choice(Rating):
    """Multiple choice."""

    form = ChoiceForm()
    extractors = tuple(EXTRACTORS)

    def read(self, row: Row, extractor: str) -> Reading:
        """Read the chosen letter."""
        found = EXTRACTORS[extractor](row.get("prediction"), options_of(row))
        rule = found.rule if found.choice is not None else UNDECIDED
        return Reading(found.choice, rule, float(found.choice == as_text(row.get("answer"))))

    def judged(self, row: Row, verdict: str) -> Reading:
        """Take the judge's letter."""
        return Reading(verdict, JUDGE, float(verdict == as_text(row.get("answer"))))

    def columns(self, row: Row, reading: Reading) -> dict[str, object]:
        """Give the letter; Z, which is never right, where there is none."""
        return {"choice": reading.extracted or "Z", "hit": reading.correct}

    def table(self, rows: Sequence[Row]) -> Any:
        """Return the accuracy per split: overall, per l2-category and category."""
        return metrics.mcq(rows)["result"]

    def headline(self, table: Any) -> dict[str, float]:
        """Return nothing: `accuracy` says it."""
        return {}

    def chance(self, rows: Sequence[Row]) -> float | None:
        """Return the accuracy of guessing among the options."""
        counts = [len(options_of(row)) for row in rows]
        return fmean(1 / count for count in counts) if counts and all(counts) else None


class Circular(Choice):
    """Multiple choice where a question counts only if every rotation of its options is answered right."""

    def worth_judging(self, rows: Sequence[Row], readings: Sequence[Reading]) -> list[int]:
        """Leave out the rotations of questions that are lost already."""
        wrong = {
            _group(row) for row, reading in zip(rows, readings, strict=True)
            if reading.rule != UNDECIDED and reading.correct == 0
        }  # fmt: skip
        return [i for i in super().worth_judging(rows, readings) if _group(rows[i]) not in wrong]

    def table(self, rows: Sequence[Row]) -> Any:
        """Return the accuracy per split over questions, all rotations right."""
        return metrics.mmbench(rows)["result"]

    def units(self, rows: Sequence[Row], readings: Sequence[Reading]) -> list[tuple[str, float]]:
        """Return one unit per question; a question with an unscored rotation is unscored, unless it is lost anyway."""
        found: dict[int, list[float | None]] = {}
        for row, reading in zip(rows, readings, strict=True):
            found.setdefault(_group(row), []).append(reading.correct)
        units = []
        for group, hits in found.items():
            if 0 in hits or None not in hits:
                units.append((str(group), float(0 not in hits)))
        return units

    def chance(self, rows: Sequence[Row]) -> float | None:
        """Return the accuracy of guessing every rotation right."""
        groups = circular_groups(rows).values()
        return fmean(math.prod(1 / max(1, len(options_of(row))) for row in members) for members in groups)


def _group(row: Row) -> int:
    return next(iter(circular_groups([row])))


class Mmmu(Choice):
    """MMMU: an open question is a choice between its answer and any other, as in VLMEvalKit."""

    def prepare(self, row: Row) -> dict[str, object]:
        """Close open questions."""
        return metrics.close_open(row)


YES_NO_TABLES: dict[str, Callable[[Sequence[Row]], Any]] = {
    "yes_no": metrics.yes_no,
    "mme": metrics.mme,
    "pope": metrics.pope,
    "hallusion": metrics.hallusion,
    "amber": metrics.amber,
    "vsr": metrics.vsr,
}
_YES_NO_HEADLINES = ("perception", "reasoning", "aAcc", "fAcc", "qAcc", "Avg ACC")


class YesNo(Rating):
    """Yes/no questions."""

    form = YesNoForm()
    extractors = tuple(YES_NO_EXTRACTORS)

    def read(self, row: Row, extractor: str) -> Reading:
        """Read yes or no."""
        found = YES_NO_EXTRACTORS[extractor](row.get("prediction"))
        return Reading(found, UNDECIDED if found == "Unknown" else extractor, self._correct(row, found))

    def judged(self, row: Row, verdict: str) -> Reading:
        """Take the judge's word."""
        return Reading(verdict, JUDGE, self._correct(row, verdict))

    def _correct(self, row: Row, found: str) -> float:
        answer = as_text(row.get("answer"))
        if self.benchmark.rating == "amber" or self.benchmark.metric == IGNORE_CASE:
            return float(answer.lower() == found.lower())
        return float(answer == found)

    def table(self, rows: Sequence[Row]) -> Any:
        """Make the benchmark's table."""
        return YES_NO_TABLES[self.benchmark.rating](rows)

    def headline(self, table: Any) -> dict[str, float]:
        """Pick sums and group accuracies; POPE's F1."""
        flat = table.get("Overall") if isinstance(table.get("Overall"), dict) else table
        if self.benchmark.rating == "pope":
            return {"F1": flat["Overall"] / 100, "precision": flat["precision"] / 100, "recall": flat["recall"] / 100}
        return {name: flat[name] for name in _YES_NO_HEADLINES if name in flat}

    def chance(self, rows: Sequence[Row]) -> float | None:
        """Return one half."""
        return 0.5


class Open(Rating):
    """Open questions, compared with their answers by the benchmark's metric."""

    binary = False

    def read(self, row: Row, extractor: str) -> Reading:
        """Compare."""
        text = as_text(row.get("prediction"))
        return Reading(text, self.benchmark.metric, open_score(text, row.get("answer"), self.benchmark.metric))

    def table(self, rows: Sequence[Row]) -> Any:
        """Return the mean per split or category."""
        return metrics.vqa(rows, self.benchmark.metric)

    def headline(self, table: Any) -> dict[str, float]:
        """Return the metric under its own name, as a fraction."""
        return {self.benchmark.metric: table["Overall"] / 100}


class Contains(Rating):
    """Answers that are looked for in what the model writes: OCRBench and MTVQA."""

    KINDS: Mapping[str, tuple[Callable[[Row], bool], Callable[[Sequence[Row]], Any], str]] = {
        "ocrbench": (metrics.ocrbench_hit, metrics.ocrbench, "Final Score"),
        "mtvqa": (metrics.mtvqa_hit, metrics.mtvqa, "Average"),
    }

    def read(self, row: Row, extractor: str) -> Reading:
        """Look for the answer."""
        hit, _, _ = self.KINDS[self.benchmark.rating]
        return Reading(as_text(row.get("prediction")), "contains", float(hit(row)))

    def table(self, rows: Sequence[Row]) -> Any:
        """Make the benchmark's table."""
        return self.KINDS[self.benchmark.rating][1](rows)

    def headline(self, table: Any) -> dict[str, float]:
        """Pick its main number."""
        name = self.KINDS[self.benchmark.rating][2]
        return {name: table[name]}


class Corpus(Rating):
    """Scores that only a whole set has: captions and restored words."""

    binary = False

    def read(self, row: Row, extractor: str) -> Reading:
        """Take the text; a single one has no score."""
        return Reading(as_text(row.get("prediction")), "text", None)

    def units(self, rows: Sequence[Row], readings: Sequence[Reading]) -> list[tuple[str, float]]:
        """Return none."""
        return []

    def table(self, rows: Sequence[Row]) -> Any:
        """Score all together."""
        if self.benchmark.rating == "caption":
            return score_captions(
                [row.get("prediction") for row in rows], [text_list(row.get("answer")) for row in rows]
            )
        return metrics.vcr(rows, "zh" if self.benchmark.rating == "vcr_zh" else "en")

    def headline(self, table: Any) -> dict[str, float]:
        """Return every number."""
        return dict(table)


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


RATINGS: dict[str, type[Rating]] = {
    "choice": Choice,
    "circular": Circular,
    "mmmu": Mmmu,
    **dict.fromkeys(YES_NO_TABLES, YesNo),
    "open": Open,
    **dict.fromkeys(Contains.KINDS, Contains),
    "caption": Corpus,
    "vcr": Corpus,
    "vcr_zh": Corpus,
    **dict.fromkeys(Mathematics.KINDS, Mathematics),
    "mmvet": Graded,
    "graded": Graded,
    "dialogue": Dialogue,
}
"""Ratings by name."""


def rating_of(benchmark: Benchmark) -> Rating:
    """Return how a benchmark's answers become numbers."""
    return RATINGS[benchmark.rating](benchmark)
