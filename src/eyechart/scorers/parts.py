"""Benchmarks made of others: each row is scored as in its part, and the table holds those of all parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from eyechart.datasets.questions.benchmarks import PART, PART_INDEX, QuestionBenchmark, known_benchmarks
from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.scorer import Numbers, Score, Scorer
from eyechart.scorers.tables import Rows, grouped
from eyechart.types import Notice


def part_name(row: Row) -> str:
    """Name the part that a row comes from."""
    return as_text(row[PART])


def in_part(row: Row) -> dict[str, object]:
    """Return a row with the index that it has in its part."""
    return {**row, "index": row[PART_INDEX]}


@dataclass(frozen=True)
class PartsScorer(Scorer):
    """Asks the scorer of each row's part."""

    parts: Mapping[str, Scorer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Be of the kind that all parts are of."""
        first = next(iter(self.parts.values()))
        for name in ("form", "extractors", "binary", "per_answer"):
            object.__setattr__(self, name, getattr(first, name))

    @property
    def reference(self) -> str:
        """Return the column without which nothing can be scored, the same in all parts."""
        return next(iter(self.parts.values())).reference

    def _of(self, row: Row) -> Scorer:
        return self.parts[part_name(row)]

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Prepare a row as its part does; it keeps its own index."""
        return [{**made, "index": row["index"]} for made in self._of(row).prepare(in_part(row))]

    def score(self, row: Row, answer: object) -> Score:
        """Read an answer as the row's part does."""
        return self._of(row).score(in_part(row), answer)

    def judged(self, row: Row, verdict: Any) -> Score:
        """Take a verdict as the row's part does."""
        return self._of(row).judged(in_part(row), verdict)

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Assume what the row's part does."""
        return self._of(row).assume(in_part(row), rule, right=right)

    def columns(self, score: Score) -> dict[str, object]:
        """Return what the tables of the parts need, which are all of one kind."""
        return next(iter(self.parts.values())).columns(score)

    def worth_judging(self, rows: Rows, scores: Sequence[Score]) -> list[int]:
        """Ask each part which of its answers a judge shall read."""
        found: list[int] = []
        for name, places in self._places(rows).items():
            chosen = self.parts[name].worth_judging([in_part(rows[i]) for i in places], [scores[i] for i in places])
            found += [places[i] for i in chosen]
        return sorted(found)

    def units(self, rows: Rows, scores: Sequence[Score]) -> dict[str, float]:
        """Return the questions of all parts, by the index of the whole."""
        units: dict[str, float] = {}
        for name, places in self._places(rows).items():
            members = [in_part(rows[i]) for i in places]
            owners = {as_text(row["index"]): as_text(rows[i]["index"]) for row, i in zip(members, places, strict=True)}
            each = self.parts[name].units(members, [scores[i] for i in places])
            units |= {owners[index]: value for index, value in each.items()}
        return units

    def notices(self, rows: Rows) -> list[Notice]:
        """Return what the parts have to say, each with its name."""
        groups = grouped(rows, part_name).items()
        found = (
            (name, notice)
            for name, members in groups
            for notice in self.parts[name].notices(list(map(in_part, members)))
        )
        return [replace(notice, message=f"{name}: {notice.message}") for name, notice in found]

    def chance(self, rows: Rows) -> float | None:
        """Return the mean of the parts' chances, weighted by their questions."""
        each = [
            (self.parts[name].chance(list(map(in_part, group))), len(group))
            for name, group in grouped(rows, part_name).items()
        ]
        known = [(chance, count) for chance, count in each if chance is not None]
        return sum(chance * count for chance, count in known) / len(rows) if len(known) == len(each) else None

    @staticmethod
    def _places(rows: Rows) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for i, row in enumerate(rows):
            places.setdefault(part_name(row), []).append(i)
        return places


def tables(parts: Mapping[str, Scorer], rows: Rows) -> Any:
    """Return the parts' tables in one: lines get a column DATASET, single numbers the part's name before theirs."""
    made = {name: parts[name].arrange(list(map(in_part, group))) for name, group in grouped(rows, part_name).items()}
    if all(isinstance(table, list) for table in made.values()):
        return [{**line, "DATASET": name} for name, table in made.items() for line in table]
    return {f"{name}:{key}": value for name, table in made.items() for key, value in table.items()}


def accuracies(table: Any) -> Numbers:
    """Return the accuracy of each part that has one line with it."""
    lines = [line for line in table if "Overall" in line] if isinstance(table, list) else []
    names = [str(line["DATASET"]) for line in lines]
    return {name: float(line["Overall"]) for name, line in zip(names, lines, strict=True) if names.count(name) == 1}


def of_parts(benchmark: QuestionBenchmark, extractor: str, make: Callable[[QuestionBenchmark, str], Scorer]) -> Scorer:
    """Return the scorer of a benchmark that is made of others."""
    parts = {name: make(known_benchmarks()[name], extractor) for name in benchmark.parts}
    return PartsScorer(benchmark, extractor, partial(tables, parts), accuracies, parts=parts)
