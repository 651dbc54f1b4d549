"""From the scores of a benchmark's answers, one set per repeat, to metrics with intervals, records and notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, variance
from typing import Any

from eyechart.metrics.cells import Row, as_text, options_of
from eyechart.metrics.several_answers import Vote, consistency, pass_at, vote_at, worst_at
from eyechart.scorers.scorer import JUDGE, LOST, UNDECIDED, UNREADABLE
from eyechart.scorers.scoring import Scored, owner_of
from eyechart.stats import mean_interval, widen_for_judges
from eyechart.tasks.measured import measured
from eyechart.tasks.questions.audit import agreement_with_people, audit
from eyechart.types import MeanOf, Metric, Notice, Outcome

CATEGORIES = ("category", "l2-category")
"""The columns whose values get an accuracy of their own with ``--metrics full``."""
_COPIED = ("l2-category", "split", "g_index")


@dataclass(frozen=True)
class QuestionScores:
    """The scores of all repeats, and which questions are about the same images."""

    runs: Sequence[Scored]
    clusters: Mapping[str, str]
    """What rows share that are not independent, by the row's index."""
    by_category: bool = False
    notices: Sequence[Notice] = field(default=())
    people: Mapping[str, float] = field(default_factory=dict)
    """What people say of answers of the first repeat."""
    spent: Mapping[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> Scored:
        """Return the scores whose texts are shown."""
        return self.runs[0]

    @cached_property
    def verdicts(self) -> dict[str, float]:
        """Return how right each question is, on average over the repeats; those that all repeats scored."""
        units = [run.units for run in self.runs]
        return {name: fmean(one[name] for one in units) for name in units[0] if all(name in one for one in units)}

    @cached_property
    def units(self) -> dict[str, str]:
        """Return the independent unit that each question belongs to: its images, or itself."""
        owners = {as_text(row["index"]): owner_of(row) for row in self.first.rows}
        return {name: self.clusters.get(owners.get(name, name), name) for name in self.verdicts}

    @cached_property
    def by_judge(self) -> dict[str, dict[str, float]]:
        """Return how right each question is by the verdicts of each judge alone, on average over the repeats."""
        found = {}
        for judge in self.first.judged:
            units = [run.by_judge(judge).units for run in self.runs]
            found[judge] = {name: fmean(one[name] for one in units) for name in self.verdicts}
        return found

    @property
    def shared(self) -> bool:
        """Tell whether any two questions are about the same images."""
        return len(set(self.units.values())) < len(self.units)

    @cached_property
    def repeated(self) -> dict[str, dict[str, float]]:
        """Return what only several answers to a question tell, for k = 1, 2, 4, ... and all repeats.

        The vote and the agreement of answers need answers that stand alone: not the rotations of a circular set.
        """
        n = len(self.runs)
        if n < 2 or not self.first.scorer.binary:
            return {}
        ks = sorted({n, *(2**i for i in range(n.bit_length()) if 2**i <= n)})
        right = {name: round(value * n) for name, value in self.verdicts.items()}
        found = {f"pass@{k}": {name: pass_at(n, c, k) for name, c in right.items()} for k in ks}
        found |= {f"worst@{k}": {name: worst_at(n, c, k) for name, c in right.items()} for k in ks if k > 1}
        votes = self._votes()
        if votes.keys() != right.keys():
            return found
        found |= {f"vote@{k}": {name: vote_at(cast, k) for name, cast in votes.items()} for k in ks if k > 2}
        return found | {"consistency": {name: consistency(cast) for name, cast in votes.items()}}

    def _votes(self) -> dict[str, list[Vote]]:
        """Return what all repeats say to each row; an answer that nobody could read is an abstention."""
        votes: dict[str, list[Vote]] = {}
        for run in self.runs:
            for row, score in zip(run.rows, run.scores, strict=True):
                said = None if score.rule in LOST else score.extracted
                votes.setdefault(as_text(row["index"]), []).append(Vote(said, score.correct == 1))
        return votes

    @cached_property
    def lost(self) -> dict[str, int]:
        """Count what counts as wrong because nobody could read an answer, by the reason, over all repeats."""
        return dict(Counter(rule for run in self.runs for rule in run.lost.values()).most_common())

    def mean(self, values: Mapping[str, float], where: MeanOf) -> Metric:
        """Return the mean over questions, its interval over units."""
        interval = mean_interval(list(values.values()), [self.units[name] for name in values])
        if interval is not None and len(self.by_judge) > 1:
            interval = widen_for_judges(interval, [[one[name] for name in values] for one in self.by_judge.values()])
        shared = replace(where, cluster="cluster") if self.shared else where
        return measured(fmean(values.values()), interval, n=len(values), mean_of=shared)

    def outcome(self) -> Outcome:
        """Put everything together; records and the table in the details are those of the first repeat."""
        return Outcome(self.metrics(), list(self.records()), [*self.notices, *self._notices()], self.details())

    def metrics(self) -> dict[str, Metric]:
        """Return the numbers, beside each what it would be if all that nobody could read were wrong, or right."""
        metrics = self._metrics()
        if not any(run.lost for run in self.runs):
            return metrics
        wrong, right = (
            replace(self, runs=[run.assuming(right=right) for run in self.runs])._metrics() for right in (False, True)
        )
        return {
            name: replace(metric, if_wrong=wrong[name].value, if_right=right[name].value)
            if name in wrong and name in right
            else metric
            for name, metric in metrics.items()
        }

    def _metrics(self) -> dict[str, Metric]:
        """Return the accuracy with all that belongs to it, and the numbers of the benchmark's own table."""
        scorer, metrics = self.first.scorer, dict[str, Metric]()
        if self.verdicts:
            accuracy = replace(self.mean(self.verdicts, MeanOf("correct")), chance=scorer.chance(self.first.rows))
            metrics = dict.fromkeys(("accuracy", *scorer.means()), accuracy)
            metrics |= {name: self.mean(values, MeanOf(name)) for name, values in self.repeated.items()}
            metrics |= dict(self._categories()) if self.by_category else {}
            if len(self.runs) > 1:
                means = [fmean(run.units[name] for name in self.verdicts) for run in self.runs]
                metrics["accuracy_variance"] = Metric(variance(means), n=len(means), lower_is_better=True)
        n = len(self.first.rows)
        tables = [scorer.numbers(run.table) for run in self.runs]
        shared = [name for name in tables[0] if all(name in table for table in tables)]
        metrics |= {name: Metric(fmean(table[name] for table in tables), n=n, points=scorer.points) for name in shared}
        return {name: replace(metric, primary=name == scorer.primary) for name, metric in metrics.items()}

    def _categories(self) -> Iterator[tuple[str, Metric]]:
        """Yield the accuracy within each category; a name that two columns share is told apart by the column's."""
        taken: set[str] = set()
        for column in CATEGORIES:
            groups: dict[str, dict[str, float]] = {}
            for row in self.first.rows:
                index, category = as_text(row["index"]), as_text(row.get(column))
                if category and index in self.verdicts:
                    groups.setdefault(category, {})[index] = self.verdicts[index]
            for name, values in sorted(groups.items()):
                title = f"{name} ({column})" if name in taken else name
                yield f"accuracy: {title}", self.mean(values, MeanOf("correct", where={column: name}))
            taken |= groups.keys()

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield a record per row; ``correct`` is the question's verdict, whose mean is the accuracy.

        A rotation of a question has none of its own there; ``hit`` is its own in a circular set.
        """
        whole = all(value in (0, 1) for value in self.verdicts.values())
        each = [
            {as_text(row["index"]): score.correct for row, score in zip(run.rows, run.scores, strict=True)}
            for run in self.runs
        ]
        for place, (row, score) in enumerate(zip(self.first.rows, self.first.scores, strict=True)):
            index = as_text(row["index"])
            verdict = self.verdicts.get(index)
            record = {
                "id": index,
                "question": as_text(row.get("question")),
                "options": options_of(row) or None,
                "answer": row.get("answer"),
                "prediction": as_text(row.get("prediction")),
                "extracted": score.extracted,
                "rule": score.rule,
                "correct": int(verdict) if whole and verdict is not None else verdict,
                "thinking": row.get("thinking"),
                "category": row.get("category"),
            }
            record |= {name: row[name] for name in _COPIED if row.get(name) is not None}
            record |= self._more(row, place)
            if score.correct is not None and score.correct != self.first.units.get(index):
                record["hit"] = score.correct
            if len(each) > 1:
                record["repeats"] = [one.get(index) for one in each]
                record |= {name: values[index] for name, values in self.repeated.items() if index in values}
            if self.shared:
                record["cluster"] = self.units.get(index, index)
            yield record

    def _more(self, row: Row, place: int) -> dict[str, Any]:
        """Return what only some records have: the length of the reasoning, single verdicts, what people say."""
        more: dict[str, Any] = {}
        if row.get("thinking"):
            more["thinking_chars"] = len(as_text(row["thinking"]))
        if row.get("finish_reason") == "length":
            more["cut"] = True
        rounds = {name: [run[place] for run in runs] for name, runs in self.first.judged.items()}
        if any(score.rule in (JUDGE, UNREADABLE) for scores in rounds.values() for score in scores):
            more["verdicts"] = {
                name: [None if score.rule == UNREADABLE else score.correct for score in scores]
                for name, scores in rounds.items()
            }
        person = self.people.get(as_text(row["index"]))
        return more if person is None else {**more, "people": person}

    def _thinking(self) -> dict[str, Any]:
        """Count the answers with reasoning, its length in characters, and how often it was cut; over all repeats."""
        rows = [row for run in self.runs for row in run.rows if row.get("thinking")]
        lengths = [len(as_text(row["thinking"])) for row in rows]
        cut = sum(row.get("finish_reason") == "length" for row in rows)
        mean = fmean(lengths) if lengths else 0.0
        return {"answers": len(rows), "mean_chars": mean, "max_chars": max(lengths, default=0), "cut": cut}

    def details(self) -> dict[str, Any]:
        """Return the benchmark's own table, and how the answers were read."""
        first, benchmark = self.first, self.first.scorer.benchmark
        details: dict[str, Any] = {
            "table": first.table,
            "decided_by": first.decided_by,
            "rules": first.rules,
            "scorer": benchmark.scorer,
        }
        if benchmark.metric:
            details["metric"] = benchmark.metric
        thinking = self._thinking()
        if thinking["answers"]:
            details["thinking"] = thinking
        if self.lost:
            details["lost"] = self.lost
        if first.judged:
            details["judge"] = audit(self.runs, self._unit, self._numbers)
        if self.people:
            details["people"] = agreement_with_people(first, self.people)
        if self.spent:
            details["spent"] = dict(self.spent)
        if first.disagreement:
            details["extractors"] = dict(first.disagreement)
        if len(self.runs) > 1:
            details["repeats"] = [{"table": run.table, "rules": run.rules} for run in self.runs]
        return details

    def _unit(self, index: str) -> str:
        """Return the independent unit of a row: its question's, where it is a rotation or a turn."""
        return self.clusters.get(index, index)

    def _numbers(self, runs: Sequence[Scored]) -> dict[str, float]:
        """Return the numbers that some scores give."""
        own = replace(self, runs=runs, by_category=False)
        return {name: metric.value for name, metric in own._metrics().items()}

    def _notices(self) -> Iterator[Notice]:
        first = self.first
        lost = self.lost
        unread, undecided = lost.get(UNREADABLE, 0), lost.get(UNDECIDED, 0)
        if unread:
            text = f"{unread} verdicts of the judge {first.decided_by} could not be read: these answers count as wrong."
            yield Notice("unreadable_verdicts", unread, text)
        yield from first.scorer.notices(first.rows)
        if undecided and first.scorer.form:
            text = f"{undecided} answers could not be read by rule and count as wrong; a judge could read them."
            yield Notice("undecided_answers", undecided, text)
        differ = first.disagreement.get("differ", 0)
        if differ:
            other, count = first.disagreement["other"], len(first.rows)
            yield Notice(
                "extractors_disagree", differ, f"The extractor {other!r} reads {differ} of {count} answers differently."
            )
