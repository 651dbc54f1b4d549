"""Means over published collections of benchmarks, such as MIEB(lite), by the rule of their leaderboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from eyechart.benchmarks import PRIVATE
from eyechart.messages import UserMessage
from eyechart.report.result_table import Column, ResultTable

Rule = Literal["groups", "benchmarks"]
RULES: Mapping[str, Rule] = {
    "MIEB(eng)": "groups",
    "MIEB(lite)": "groups",
    "MIEB(Multilingual)": "groups",
    "MIEB(Img)": "groups",
}
"""How a leaderboard averages: over groups (task types) of the mean over each group's benchmarks; by default over all
benchmarks."""
HOW = {"groups": "the mean over task types of the mean over each type's tasks", "benchmarks": "the mean over tasks"}


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
        return HOW[RULES.get(self.name, "benchmarks")]

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
        found = {name: size for result in results.values() for name, size in _collections(result.data).items()}
        sizes |= found
        for name in found:
            members.setdefault(name, []).append(b)
    return [_mean(table, name, sizes[name], members[name]) for name in sizes]


def _collections(data: Mapping[str, object]) -> dict[str, int]:
    found = data.get("collections")
    return {str(name): int(size) for name, size in found.items()} if isinstance(found, Mapping) else {}


def _mean(table: ResultTable, name: str, size: int, members: Sequence[int]) -> CollectionMean:
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
    by_group = RULES.get(name) == "groups"
    values = tuple(
        None if not complete[m] else fmean(_known(groups, m)) if by_group else fmean(scores[m].values()) for m in models
    )
    return CollectionMean(name, size, tuple(map(len, scores)), values, groups)


def _known(groups: Mapping[str, tuple[float | None, ...]], m: int) -> list[float]:
    return [value for row in groups.values() if (value := row[m]) is not None]


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
