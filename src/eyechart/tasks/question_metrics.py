"""Scored answers, one set per repeat, to metrics with intervals, records and tables."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, variance
from typing import Any

from eyechart.datasets.questions.row_table import as_table
from eyechart.errors import DataError
from eyechart.metrics.cell_values import Row, as_text, options_of
from eyechart.metrics.repeated_questions import Vote, consistency, pass_at, vote_at, worst_at
from eyechart.scorers.rule import FAILED, JUDGE, LOST, UNDECIDED, UNREADABLE
from eyechart.scorers.scoring import EXACT, ScoredRows, owner_of
from eyechart.stats import mean_interval, widen_for_judges
from eyechart.tasks.base import counted, make_metric
from eyechart.tasks.question_judges import agreement_with_people, audit
from eyechart.tasks.question_prompts import TRANSCRIPT
from eyechart.types import TRUNCATED, Answer, MeanOf, Metric, Notice, Outcome, read_messages, transcript

PRIMARY = "Overall"
"""Preferred name of the primary metric; without it, the first number."""
CATEGORIES = ("category", "l2-category")
"""Columns whose values get an accuracy each with ``--metrics full``."""
_COPIED = ("l2-category", "split", "g_index")


def user_outcome(returned: Sequence[Any], rows: Sequence[Row], decided_by: str, notices: Sequence[Notice]) -> Outcome:
    """Convert what ``evaluate`` returned for each repeat to metrics: every number is one, averaged over repeats."""
    tables = [dict(flatten(value)) for value in returned]
    found = dict.fromkeys(name for table in tables for name in table)
    names = [name for name in found if all(math.isfinite(table.get(name, math.nan)) for table in tables)]
    if not names or (PRIMARY in found and PRIMARY not in names):
        raise DataError(
            "{decided_by} returned no number for {primary}."
            if PRIMARY in found
            else "{decided_by} returned no number.",
            decided_by=decided_by,
            primary=PRIMARY,
        )
    lost = [name for name in found if name not in names]
    text = "{decided_by} returned no number for {lost}, which is left out."
    left_out = counted("no_number", len(lost), text, decided_by=decided_by, lost=", ".join(lost))
    primary = PRIMARY if PRIMARY in names else names[0]
    metrics = {name: Metric(fmean(table[name] for table in tables), primary=name == primary) for name in names}
    details: dict[str, Any] = {"decided_by": decided_by}
    if len(tables) > 1:
        details["variance"] = {name: variance([table[name] for table in tables]) for name in names}
    return Outcome(metrics, [_record(row) for row in rows], [*notices, *left_out], details)


def flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a dict, list or table, NaN included, with the path to each."""
    if hasattr(value, "columns"):
        table = as_table(value)
        for i, row in enumerate(table.rows):
            labels = [str(cell) for cell in row.values() if isinstance(cell, str)]
            name = "|".join(labels) or (str(i) if len(table) > 1 else "")
            yield from flatten(row.to_dict(), _join(prefix, name))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from flatten(item, _join(prefix, str(key)))
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from flatten(item, prefix if len(value) == 1 else _join(prefix, str(i)))
    elif hasattr(value, "item"):
        yield from flatten(value.item(), prefix)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield prefix or "value", float(value)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}|{name}" if prefix and name else prefix or name


def _record(row: Row, judges: Sequence[Mapping[str, Any]] = (), **scored: Any) -> dict[str, Any]:
    messages = read_messages(row.get(TRANSCRIPT))
    if not messages and row.get("finish_reason") != FAILED:  # a predictions file of another tool has the answer only
        reason, thinking = as_text(row.get("finish_reason")), as_text(row.get("thinking"))
        messages = [Answer(as_text(row.get("prediction")), thinking, reason).to_record()]
    return {
        "id": as_text(row["index"]),
        "question": as_text(row.get("question")),
        "options": options_of(row) or None,
        "answer": row.get("answer"),
        "prediction": as_text(row.get("prediction")),
        **scored,
        "category": row.get("category"),
        "transcript": transcript(messages, judges),
    }


@dataclass(frozen=True)
class QuestionScores:
    """The scores of all repeats, and which questions share images."""

    runs: Sequence[ScoredRows]
    clusters: Mapping[str, str]
    """What dependent rows share (their images), by row index."""
    by_category: bool = False
    notices: Sequence[Notice] = field(default=())
    people: Mapping[str, float] = field(default_factory=dict)
    """Human verdicts on answers of the first repeat."""
    spent: Mapping[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> ScoredRows:
        """The scores whose texts are shown."""
        return self.runs[0]

    @cached_property
    def verdicts(self) -> dict[str, float]:
        """Return the score of each question, averaged over the repeats that scored it."""
        units = [run.units for run in self.runs]
        return {name: fmean(one[name] for one in units) for name in units[0] if all(name in one for one in units)}

    @cached_property
    def units(self) -> dict[str, str]:
        """Return the independent unit of each question: its images, or the question itself."""
        owners = {as_text(row["index"]): owner_of(row) for row in self.first.rows}
        return {name: self.clusters.get(owners.get(name, name), name) for name in self.verdicts}

    @cached_property
    def by_judge(self) -> dict[str, dict[str, float]]:
        """Return the score of each question by each judge's verdicts alone, averaged over the repeats."""
        found = {}
        for judge in self.first.judged:
            units = [run.by_judge(judge).units for run in self.runs]
            found[judge] = {name: fmean(one[name] for one in units) for name in self.verdicts}
        return found

    @property
    def shared(self) -> bool:
        """Whether two questions share an image."""
        return len(set(self.units.values())) < len(self.units)

    @cached_property
    def repeated(self) -> dict[str, dict[str, float]]:
        """Return statistics of repeated answers (pass@k, votes, agreement) for k = 1, 2, 4, ... and all repeats.

        Votes and agreement need independent answers, so circular sets have none.
        """
        n = len(self.runs)
        if n < 2 or not self.first.scorer.hooks.binary:
            return {}
        ks = sorted({n, *(2**i for i in range(n.bit_length()) if 2**i <= n)})
        right = {name: round(value * n) for name, value in self.verdicts.items()}
        found = {f"pass@{k}": {name: pass_at(n, c, k) for name, c in right.items()} for k in ks}
        found |= {f"worst@{k}": {name: worst_at(n, c, k) for name, c in right.items()} for k in ks if k > 1}
        votes: dict[str, list[Vote]] = {}
        for run in self.runs:
            for row, score in zip(run.rows, run.scores, strict=True):
                said = None if score.rule in LOST else score.extracted  # an unreadable answer is an abstention
                votes.setdefault(as_text(row["index"]), []).append(Vote(said, score.score == 1))
        if votes.keys() != right.keys():
            return found
        found |= {f"vote@{k}": {name: vote_at(cast, k) for name, cast in votes.items()} for k in ks if k > 2}
        return found | {"consistency": {name: consistency(cast) for name, cast in votes.items()}}

    @cached_property
    def lost(self) -> dict[str, int]:
        """Count the unreadable answers, which count as wrong, by reason, over all repeats."""
        return dict(Counter(rule for run in self.runs for rule in run.lost.values()).most_common())

    def mean(self, values: Mapping[str, float], where: MeanOf) -> Metric:
        """Return the mean over questions with its interval over units."""
        interval = mean_interval(list(values.values()), [self.units[name] for name in values])
        if interval is not None and len(self.by_judge) > 1:
            interval = widen_for_judges(interval, [[one[name] for name in values] for one in self.by_judge.values()])
        shared = replace(where, cluster="cluster") if self.shared else where
        judges = ("judges",) if len(self.by_judge) > 1 else ()
        return make_metric(fmean(values.values()), interval, *judges, n=len(values), mean_of=shared)

    def outcome(self) -> Outcome:
        """Assemble the outcome; records and the table in the details are those of the first repeat."""
        first, differing = self.first, self.first.disagreement
        undecided = self.lost.get(UNDECIDED, 0) if first.scorer.form else 0
        unread = "{n} verdicts of the judge {decided_by} could not be read: these answers count as wrong."
        known = first.scorer.benchmark
        judgeable = "{n} answers could not be read by rule, which counts as wrong; a judge could read more."
        if known.url:
            judgeable = "{n} answers could not be read by rule, which counts as wrong; published numbers use a judge."
        unjudged = first.decided_by == EXACT and known.published == JUDGE
        incomparable = "Published numbers of {name} come from a judge model; this one is not comparable with them."
        differently = "The extractor {other!r} reads {n} of {count} answers differently."
        fields = {"other": differing.get("other"), "count": len(first.rows)}
        notices = [
            *self.notices,
            *counted("unreadable_verdicts", self.lost.get(UNREADABLE, 0), unread, decided_by=first.decided_by),
            *first.scorer.notices(first.rows),
            *counted("not_comparable", int(unjudged), incomparable, name=known.name),
            *first.left_out,
            *counted("undecided_answers", undecided, judgeable),
            *counted("extractors_disagree", differing.get("differ", 0), differently, **fields),
        ]
        return Outcome(self.metrics(), list(self.records()), notices, self.details())

    def metrics(self) -> dict[str, Metric]:
        """The numbers, each with its worst and best case over the unreadable and the truncated answers."""
        metrics = self._metrics()
        if not any(run.lost or run.cut for run in self.runs):
            return metrics
        wrong, right = (
            replace(self, runs=[run.assuming(right=right) for run in self.runs])._metrics() for right in (False, True)
        )
        return {
            name: replace(metric, worst_case=wrong[name].value, best_case=right[name].value)
            if name in wrong and name in right
            else metric
            for name, metric in metrics.items()
        }

    def _metrics(self) -> dict[str, Metric]:
        """Return the accuracy with its statistics, and the numbers of the benchmark's own table."""
        scorer, metrics = self.first.scorer, dict[str, Metric]()
        if self.verdicts:
            accuracy = replace(self.mean(self.verdicts, MeanOf("correct")), chance=scorer.chance(self.first.rows))
            metrics = dict.fromkeys(("accuracy", *scorer.names), accuracy)
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
        """Yield the accuracy within each category; if two columns share a value, the column's name is added."""
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

        Rotations of a circular question have no ``correct``; ``hit`` is the row's own verdict.
        """
        whole = all(value in (0, 1) for value in self.verdicts.values())
        each = [
            {as_text(row["index"]): score.score for row, score in zip(run.rows, run.scores, strict=True)}
            for run in self.runs
        ]
        for place, (row, score) in enumerate(zip(self.first.rows, self.first.scores, strict=True)):
            index = as_text(row["index"])
            verdict = self.verdicts.get(index)
            correct = int(verdict) if whole and verdict is not None else verdict
            judges = list(self._exchanges(place))
            record = _record(row, judges, extracted=score.extracted, rule=score.rule, correct=correct)
            record |= {name: row[name] for name in _COPIED if row.get(name) is not None}
            if row.get("thinking"):
                record["thinking_chars"] = len(as_text(row["thinking"]))
            if row.get("finish_reason") == TRUNCATED:
                record["cut"] = True
            rounds = {name: [run[place] for run in runs] for name, runs in self.first.judged.items()}
            if any(one.rule in (JUDGE, UNREADABLE) for scores in rounds.values() for one in scores):
                record["verdicts"] = {
                    name: [None if one.rule == UNREADABLE else one.score for one in scores]
                    for name, scores in rounds.items()
                }
            if index in self.people:
                record["people"] = self.people[index]
            if score.score is not None and score.score != self.first.units.get(index):
                record["hit"] = score.score
            if len(each) > 1:
                record["repeats"] = [one.get(index) for one in each]
                record |= {name: values[index] for name, values in self.repeated.items() if index in values}
            if self.shared:
                record["cluster"] = self.units.get(index, index)
            yield record

    def _exchanges(self, place: int) -> Iterator[dict[str, Any]]:
        """Yield what each judge was asked about an answer and replied, once per repeat, with the score given."""
        for name, runs in self.first.judged.items():
            for repeat, run in enumerate(runs):
                if (said := run[place].exchange) is not None:
                    yield {
                        "judge": name,
                        "repeat": repeat,
                        "question": said.question,
                        "replies": [reply.to_record() for reply in said.replies],
                        "verdict": None if said.verdict is None else run[place].score,
                    }

    def details(self) -> dict[str, Any]:
        """Return the benchmark's own table, and how the answers were read."""
        first, benchmark = self.first, self.first.scorer.benchmark
        reasoned = [row for run in self.runs for row in run.rows if row.get("thinking")]
        lengths = [len(as_text(row["thinking"])) for row in reasoned]
        cut = sum(row.get("finish_reason") == TRUNCATED for row in reasoned)
        thinking = lengths and {
            "answers": len(lengths),
            "mean_chars": fmean(lengths),
            "max_chars": max(lengths),
            "cut": cut,
        }

        def numbers(runs: Sequence[ScoredRows]) -> dict[str, float]:
            own = replace(self, runs=runs, by_category=False)
            return {name: metric.value for name, metric in own._metrics().items()}

        optional = {
            "metric": benchmark.metric,
            "thinking": thinking,
            "lost": self.lost,
            "judge": first.judged and audit(self.runs, lambda name: self.clusters.get(name, name), numbers),
            "people": self.people and agreement_with_people(first, self.people),
            "spent": dict(self.spent),
            "extractors": dict(first.disagreement),
            "repeats": [{"table": run.table, "rules": run.rules} for run in self.runs] if len(self.runs) > 1 else [],
        }
        return {
            "table": first.table,
            "decided_by": first.decided_by,
            "rules": first.rules,
            "scorer": benchmark.scorer,
            **{name: value for name, value in optional.items() if value},
        }
