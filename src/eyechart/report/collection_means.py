"""Means over benchmarks: of a table, and of published collections such as MIEB(lite) by their leaderboard's rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from eyechart.benchmarks import PRIVATE
from eyechart.messages import UserMessage
from eyechart.report.result_table import Column, ResultTable
from eyechart.stats import chance_normalised

AVERAGES: Mapping[str, tuple[str, str]] = {
    "plain": ("Average", "the mean over benchmarks"),
    "kind": ("Average by kind", "the mean over kinds of the mean over each kind's benchmarks"),
    "rank": ("Mean rank", "the mean over benchmarks of the rank among the models shown, 1 being the best"),
    "chance": ("Above chance", "the mean over benchmarks of (value - chance) / (1 - chance)"),
}
"""Kinds of averages: key -> heading and definition."""

Row = Sequence[float | None]


@dataclass(frozen=True)
class Average:
    """One number per model, and the benchmarks averaged."""

    values: tuple[float | None, ...]
    used: tuple[int, ...]
    """Benchmarks that every model has; if there are none, each model is averaged over its own."""
    left_out: tuple[int, ...]
    common: bool = True
    lower_is_better: bool = False

    def describe(self, how: str, table: ResultTable) -> str:
        """Describe in a sentence how the numbers were computed."""
        text = f"{AVERAGES[how][0]}: {AVERAGES[how][1]}"
        if all(value is None for value in self.values):
            none = "{text}. There is none: only fractions are averaged, and for chance only where that is known."
            return UserMessage(none, text=text)
        if not self.common:
            own = "{text}. No benchmark has all models: each model's own are averaged, so compare with care."
            return UserMessage(own, text=text)
        left = ", ".join(table.benchmarks[b].label for b in self.left_out)
        missing = f"; left out, as not every model has a usable value: {left}" if left else ""
        over = "{text}, over {n} benchmarks that every model has{missing}."
        return UserMessage(over, text=text, n=len(self.used), missing=missing)


def average(table: ResultTable, columns: Sequence[Column], how: str = "plain") -> Average:
    """Average over benchmarks; a benchmark with several columns counts once, as their mean.

    Only fractions are averaged, and metrics for which lower is better are never mixed with others.
    """
    models = range(len(table.models))
    lower = {"rank": True, "chance": False}.get(how, bool(columns) and all(map(table.lower_is_better, columns)))
    by_benchmark: dict[int, list[Row]] = {}
    for column in columns:
        values, own = table.values(column), table.lower_is_better(column)
        if how == "rank":
            row = _ranks(values, own)
        elif not table.in_per_cent(column):
            row = [None] * len(values)
        elif how == "chance":
            row = _above_chance(values, table.known(column, "chance"), own)
        else:
            row = values if own == lower else [None] * len(values)
        by_benchmark.setdefault(column.benchmark, []).append(row)
    means = {b: [_mean([row[m] for row in rows], strict=True) for m in models] for b, rows in by_benchmark.items()}
    complete = [b for b, row in means.items() if all(value is not None for value in row)]
    used = complete or list(means)
    values = []
    for m in models:
        if how == "kind":
            kinds: dict[str, list[float | None]] = {}
            for b in used:
                kinds.setdefault(table.benchmarks[b].measures, []).append(means[b][m])
            values.append(_mean([_mean(kind) for kind in kinds.values()]))
        else:
            values.append(_mean([means[b][m] for b in used]))
    left_out = [b for b in means if b not in used]
    return Average(tuple(values), tuple(used), tuple(left_out), bool(complete), lower)


def _above_chance(values: Row, chance: float | None, lower: bool) -> Row:
    """Rescale so that chance is 0 and the best possible value (1, or 0 if lower is better) is 1."""
    level = None if chance is None else 1 - chance if lower else chance
    if level is None or not 0 <= level < 1:
        return [None] * len(values)
    return [None if value is None else chance_normalised(1 - value if lower else value, level) for value in values]


def _ranks(values: Row, lower: bool) -> Row:
    """Rank values, 1 being the best; equal values share the mean of their ranks."""
    present = [value for value in values if value is not None]

    def rank(value: float) -> float:
        before = sum(other < value if lower else other > value for other in present)
        return before + (sum(other == value for other in present) + 1) / 2

    return [None if value is None else rank(value) for value in values]


def _mean(values: Row, *, strict: bool = False) -> float | None:
    present = [value for value in values if value is not None]
    if not present or (strict and len(present) < len(values)):
        return None
    return sum(present) / len(present)


BY_TYPE = frozenset({"MIEB(eng)", "MIEB(lite)", "MIEB(Multilingual)", "MIEB(Img)"})
"""Leaderboards that average the means over each task type's benchmarks; others average over all benchmarks."""


@dataclass(frozen=True)
class CollectionMean:
    """The mean of each model over one collection."""

    name: str
    size: int
    """Number of benchmarks in the collection."""
    present: tuple[int, ...]
    """By model, how many of them have a result."""
    values: tuple[float | None, ...]
    """By model; None unless all benchmarks have a result."""
    groups: Mapping[str, tuple[float | None, ...]]
    """Means of complete models by what the benchmarks measure."""

    @property
    def how(self) -> str:
        """The rule in words."""
        by_type = "the mean over task types of the mean over each type's tasks"
        return by_type if self.name in BY_TYPE else "the mean over tasks"

    @property
    def notable(self) -> bool:
        """Whether a model has at least half of the benchmarks: some are in several collections."""
        return 2 * max(self.present) >= self.size

    @property
    def notes(self) -> list[str]:
        """Explain the mean, and why models have none."""
        lacking = [count for count, value in zip(self.present, self.values, strict=True) if value is None and count]
        notes: list[str] = [UserMessage("{name}: {how}.", name=self.name, how=self.how)]
        if self.name in PRIVATE:
            notes.append(UserMessage("{name} leaves out {what}.", name=self.name, what=PRIVATE[self.name]))
        if lacking:
            counts = ", ".join(map(str, sorted(set(lacking))))
            few = "Models with only {n} of the {size} tasks of {name} have no mean."
            notes.append(UserMessage(few, n=counts, size=self.size, name=self.name))
        return notes


def collection_means(table: ResultTable) -> list[CollectionMean]:
    """Return the means over every collection that a result names as its own."""
    sizes: dict[str, int] = {}
    members: dict[str, list[int]] = {}
    for b, results in table.by_benchmark.items():
        listed = [result.data.get("collections") for result in results.values()]
        found = {str(name): int(n) for one in listed if isinstance(one, Mapping) for name, n in one.items()}
        sizes |= found
        for name in found:
            members.setdefault(name, []).append(b)
    return [_collection_mean(table, name, sizes[name], members[name]) for name in sizes]


def _collection_mean(table: ResultTable, name: str, size: int, members: Sequence[int]) -> CollectionMean:
    rows = {b: [table.values(Column(b, metric)) for metric in table.primary[b]] for b in members}
    models = range(len(table.models))
    scores = [
        {b: fmean(known) for b in members if (known := [value for row in rows[b] if (value := row[m]) is not None])}
        for m in models
    ]
    complete = [len(own) == size for own in scores]
    kinds: dict[str, list[int]] = {}
    for b in members:
        kinds.setdefault(table.benchmarks[b].measures, []).append(b)
    groups = {
        kind: tuple(fmean(scores[m][b] for b in own) if complete[m] else None for m in models)
        for kind, own in kinds.items()
    }
    every = groups if name in BY_TYPE else {str(b): tuple(own.get(b) for own in scores) for b in members}
    values = tuple(
        fmean(x for row in every.values() if (x := row[m]) is not None) if complete[m] else None for m in models
    )
    return CollectionMean(name, size, tuple(map(len, scores)), values, groups)


def means_json(table: ResultTable) -> list[dict[str, object]]:
    """Return the means for files and the page, by the position of the model in the table."""
    return [
        {
            "name": one.name,
            "how": one.how,
            "notes": one.notes,
            "size": one.size,
            "present": list(one.present),
            "values": list(one.values),
            "groups": [[name, list(values)] for name, values in one.groups.items()],
        }
        for one in collection_means(table)
        if one.notable
    ]
