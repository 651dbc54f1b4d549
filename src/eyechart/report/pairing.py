"""Which results may be compared, and their records, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from eyechart.errors import ResultError
from eyechart.report.means import read_checked
from eyechart.report.records import RecordColumns
from eyechart.report.table import Column, ResultTable
from eyechart.results import Result

ASPECTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "dataset": (("data", "fingerprint"),),
    "split": (("data", "split"),),
    "samples": (("job", "limit"),),
    "prompts": (
        ("data", "prompts_digest"),
        ("data", "templates_digest"),
        ("data", "classnames_digest"),
        ("job", "settings", "prompt"),
        ("job", "settings", "system_prompt"),
        ("job", "settings", "load_clfs"),
    ),
    "training": (
        ("data", "other_splits"),
        *(("job", "settings", name) for name in ("train_split", "val_split", "val_proportion", "folds", "fewshot_k")),
        *(
            ("job", "settings", name)
            for name in ("seed", "knn_k", "normalize", "fewshot_epochs", "fewshot_lr", "fewshot_draw")
        ),
        ("job", "settings", "batch_size"),
    ),
    "metric": (("job", "settings", "metric"),),
    "stored vectors": (("job", "settings", "store_precision"),),
    "task version": (("job", "settings", "task_version"),),
    "judge": (
        ("job", "others", "judge"),
        *(("job", "others", f"judge_{number}") for number in range(2, 10)),
        *(("job", "settings", name) for name in ("judge", "judge_fallback", "judge_repeats")),
    ),
    "judge prompt": (("details", "judge", "prompt", "digest"),),
    "extractor": (("job", "settings", "extractor"),),
}
"""What must be the same, and where a result tells it."""
_PARENTS = {place[:-1] for places in ASPECTS.values() for place in places}
"""What holds them: where a whole part is the same, none of it need be looked at."""
UNPAIRABLE = frozenset({"dataset", "split"})
"""What cannot differ on purpose: there are no samples in common."""
_NONE_IS_A_VALUE = {("job", "limit"), ("job", "others", "judge")} | {
    ("job", "settings", name) for name in ("folds", "val_split", "val_proportion", "load_clfs", "store_precision")
}
"""No limit is all samples, no judge is a way to judge, too, and what is not given has a meaning as well."""


def differences(first: Result, second: Result) -> list[str]:
    """Name what differs between two results of one benchmark; empty if they may be compared.

    What a result does not tell cannot be checked; results of other tools tell nothing, but have no records either.
    """
    unlike = {parent for parent in _PARENTS if _look_up(first, parent) != _look_up(second, parent)}
    return [
        aspect
        for aspect, places in ASPECTS.items()
        if any(place[:-1] in unlike and _differ(first, second, place) for place in places)
    ]


def differing(table: ResultTable, model: int, benchmark: int) -> list[str]:
    """Name in what a result differs from its benchmark's best; empty if the two may be compared."""
    results = table.by_benchmark[benchmark]
    leader = next((table.leader(Column(benchmark, metric)) for metric in table.primary[benchmark]), None)
    return [] if leader is None else differences(results[leader], results[model])


def _differ(first: Result, second: Result, place: Sequence[str]) -> bool:
    a, b = (_look_up(result, place) for result in (first, second))
    if tuple(place) in _NONE_IS_A_VALUE:
        return a != b and all(r.job and isinstance(_look_up(r, place[:-1]), Mapping) for r in (first, second))
    return a is not None and b is not None and a != b


def _look_up(result: Result, place: Sequence[str]) -> Any:
    value: Any = getattr(result, place[0])
    for key in place[1:]:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


class RecordsCache:
    """Reads the records of each cell of a table once."""

    def __init__(self, table: ResultTable, *, keep: int = 0, strict: bool = True) -> None:
        self.table = table
        self.keep = keep
        self.strict = strict
        self.problems: list[str] = []
        """What could not be read, where that is no error: the page goes on without it and says so."""
        self._columns: dict[tuple[int, int], RecordColumns | None] = {}
        self._ids: dict[int, tuple[str, ...]] = {}
        self._alike: dict[tuple[int, int], list[int]] = {}

    def columns(self, model: int, benchmark: int) -> RecordColumns | None:
        """Return the records of one cell as columns; None if it has none."""
        place = (model, benchmark)
        if place not in self._columns:
            found = self.table.cells.get(place)
            columns = self._read(found.result) if found else None
            self._columns[place] = columns and self._with_shared_ids(columns, benchmark)
        return self._columns[place]

    def _with_shared_ids(self, columns: RecordColumns, benchmark: int) -> RecordColumns:
        """Hold ids that are the same once: that is most of the memory, and what is one object need not be compared."""
        known = self._ids.setdefault(benchmark, columns.ids)
        return replace(columns, ids=known) if columns.ids == known else columns

    def _read(self, result: Result) -> RecordColumns | None:
        try:
            return read_checked(result, keep=self.keep)
        except ResultError as error:
            if self.strict:
                raise
            self.problems.append(error.message)
            return None

    def comparable(self, column: Column) -> dict[int, RecordColumns]:
        """Return the records of a column's best model, and of those whose results may be compared with it."""
        results = self.table.by_benchmark[column.benchmark]
        read = {model: self.columns(model, column.benchmark) for model in results}
        leader = self.table.leader(column)
        if leader is None or read[leader] is None:
            return {}
        alike = self._alike.setdefault((column.benchmark, leader), [])
        if not alike:
            alike += [model for model in results if not differences(results[leader], results[model])]
        return {model: columns for model in alike if (columns := read[model]) is not None}

    def forget(self, benchmark: int) -> None:
        """Drop the records of one benchmark."""
        self._columns = {place: columns for place, columns in self._columns.items() if place[1] != benchmark}
        self._ids.pop(benchmark, None)
