"""``eyechart.compare``: a paired comparison of two models on their common samples."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.errors import UsageError, errors_on, import_extra
from eyechart.io.terminal import width_of
from eyechart.python_api.arguments import ARGUMENTS
from eyechart.report.compare_text import comparison_text, verdict_text
from eyechart.report.comparison import PairwiseComparison
from eyechart.report.comparison import compare as compare_rows
from eyechart.report.loader import LoadedResult, load_results
from eyechart.report.paired_records import RecordsCache, check_aspects
from eyechart.report.result_table import ResultTable, make_table
from eyechart.report.verdict import Verdict, make_verdict
from eyechart.results.result import Result

if TYPE_CHECKING:
    import pandas as pd


Side = Result | str | Path | Iterable[Any]
"""Results of one model: a result, a file or folder of results, or a list of these."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Differences between two models, benchmark by benchmark; displayed as ``eyechart compare`` prints it.

    ``lines`` has the differences with intervals, p-values and verdicts.
    """

    table: ResultTable
    pair: PairwiseComparison
    verdict: Verdict

    @property
    def lines(self) -> tuple[Any, ...]:
        """The differences, one per metric and benchmark: `eyechart.report.comparison.Difference`."""
        return self.pair.lines

    def to_pandas(self) -> pd.DataFrame:
        """Return the differences as a DataFrame. Needs pandas: ``pip install 'eyechart[pandas]'``."""
        rows = [
            {
                "dataset": line.benchmark.dataset,
                "task": line.benchmark.task,
                "language": line.benchmark.language,
                "metric": line.metric,
                "a": line.first,
                "b": line.second,
                "difference": line.paired.difference,
                "low": line.paired.low,
                "high": line.paired.high,
                "p": line.paired.p_value,
                "p_holm": line.p_holm,
                "n": line.paired.n,
                "verdict": line.verdict,
            }
            for line in self.lines
        ]
        return import_extra("pandas", "pandas").DataFrame(rows)

    def __repr__(self) -> str:
        return self._text(width_of(sys.stdout))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self._text(None))}</pre>"

    def _text(self, width: int | None) -> str:
        parts = verdict_text(self.table, self.verdict, width), comparison_text(self.table, self.pair, width)
        return "\n".join(parts)


def compare(a: Side, b: Side, *, metric: str | None = None, allow_different: str | Collection[str] = ()) -> Comparison:
    """Compare two models sample by sample on all common benchmarks.

    Args:
        a: Results of the baseline: a result, a file or folder, or a list of these.
        b: Results of the other model.
        metric: Metric to compare; by default each benchmark's primary metrics.
        allow_different: Aspects that may differ: ``prompts``, ``training``, ``metric``, ...

    Returns:
        The comparison; notebooks and consoles display it as ``eyechart compare`` prints it.

    Raises:
        EyechartError: If dataset, split or prompts differ, or there is nothing to compare.

    Example:
        ```python
        import eyechart

        classes = [[1, 0], [0, 1]]
        a = eyechart.score([[1, 0.2], [0.1, 1], [1, 0.9]], classes, labels=[0, 1, 1], model="a")
        b = eyechart.score([[1, 0.2], [0.1, 1], [0.8, 1]], classes, labels=[0, 1, 1], model="b")
        print(eyechart.compare(a, b))
        ```
    """
    with errors_on(ARGUMENTS):
        allowed = [allow_different] if isinstance(allow_different, str) else list(allow_different)
        check_aspects(allowed)
        sides = [_found(side, name) for side, name in ((a, "first"), (b, "second"))]
        table = make_table([item for side in sides for item in side])
        first, second = (_row_of(table, side, name) for side, name in zip(sides, ("first", "second"), strict=True))
        cache = RecordsCache(table, allow=allowed)
        pair = compare_rows(cache, first, second, metric=metric, allow=allowed)
        return Comparison(table, pair, make_verdict(cache, metric))


def _found(side: Side, name: str) -> list[LoadedResult]:
    """Load the results of a side; in-memory results are named after the side."""
    if isinstance(side, Result):
        return [LoadedResult(side, argument=name)]
    if isinstance(side, str | Path):
        return list(load_results([side]).found)
    return [item for part in side for item in _found(part, name)]


def _row_of(table: ResultTable, side: Sequence[LoadedResult], name: str) -> int:
    mine = set(map(id, side))
    rows = sorted({row for (row, _), item in table.cells.items() if id(item) in mine})
    if len(rows) != 1:
        raise UsageError(
            "The {name} side must have results of one model, not of {n}: {labels}.",
            name=name,
            n=len(rows),
            labels=", ".join(table.models[row].label for row in rows) or "none",
        )
    return rows[0]
