"""``eyechart.compare``: two models on the samples that both have, as a value."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.calls.settings import ARGUMENTS
from eyechart.errors import UsageError, import_extra, unknown_name
from eyechart.io.terminal import width_of
from eyechart.report.compare import PairwiseComparison
from eyechart.report.compare import compare as compare_rows
from eyechart.report.load import Found, load_results
from eyechart.report.pairing import ASPECTS, UNPAIRABLE, RecordsCache
from eyechart.report.ranking import SuiteRanking, rank_models
from eyechart.report.table import ResultTable, make_table
from eyechart.report.words import comparison_text, ranking_text
from eyechart.results.result import Result

if TYPE_CHECKING:
    import pandas as pd

Side = Result | str | Path | Iterable[Any]
"""A result, a file or folder of results, or several of these: all of one model."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """How much better or worse the second model is, benchmark by benchmark; it shows itself as ``compare`` prints it.

    ``lines`` hold the differences with their intervals, p-values and verdicts.
    """

    table: ResultTable
    pair: PairwiseComparison
    ranking: SuiteRanking | None = None

    @property
    def lines(self) -> tuple[Any, ...]:
        """Return the differences, one for each metric of each benchmark: `eyechart.report.compare.Difference`."""
        return self.pair.lines

    def to_pandas(self) -> pd.DataFrame:
        """Return the differences as a table, one row each. Needs pandas: ``pip install 'eyechart[pandas]'``."""
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
        parts = [comparison_text(self.table, self.pair, width)]
        if self.ranking is not None:
            parts.append(ranking_text(self.table, self.ranking, width))
        return "\n".join(parts)


def compare(a: Side, b: Side, *, metric: str | None = None, allow_different: str | Collection[str] = ()) -> Comparison:
    """Compare two models sample by sample on every benchmark that both have.

    Args:
        a: Results of the baseline: a result, a file or folder, or a list of these.
        b: Results of the other model.
        metric: This metric only; by default each benchmark's primary ones.
        allow_different: What may differ on purpose: ``prompts``, ``training``, ``metric``, ...

    Returns:
        The comparison; in a notebook or a console it shows itself as ``eyechart compare`` prints it.

    Raises:
        EyechartError: If dataset, split or prompts differ, or nothing can be compared.

    Example:
        ```python
        import eyechart

        classes = [[1, 0], [0, 1]]
        a = eyechart.score([[1, 0.2], [0.1, 1], [1, 0.9]], classes, labels=[0, 1, 1], model="a")
        b = eyechart.score([[1, 0.2], [0.1, 1], [0.8, 1]], classes, labels=[0, 1, 1], model="b")
        print(eyechart.compare(a, b))
        ```
    """
    with ARGUMENTS.spoken():
        allowed = [allow_different] if isinstance(allow_different, str) else list(allow_different)
        for aspect in allowed:
            if aspect not in ASPECTS:
                raise unknown_name("aspect", aspect, ASPECTS)
            if aspect in UNPAIRABLE:
                raise UsageError(f"Results of another {aspect} have no samples in common, so they cannot be paired.")
        sides = [_found(side, name) for side, name in ((a, "first"), (b, "second"))]
        table = make_table([item for side in sides for item in side])
        first, second = (_row_of(table, side, name) for side, name in zip(sides, ("first", "second"), strict=True))
        cache = RecordsCache(table)
        pair = compare_rows(table, first, second, metric=metric, allow=allowed, cache=cache)
        return Comparison(table, pair, rank_models(table, cache, metric))


def _found(side: Side, name: str) -> list[Found]:
    """Read the results of a side; those from memory have its name, where a name is needed to tell them apart."""
    if isinstance(side, Result):
        return [Found(side, argument=name)]
    if isinstance(side, str | Path):
        return list(load_results([side]).found)
    return [item for part in side for item in _found(part, name)]


def _row_of(table: ResultTable, side: Sequence[Found], name: str) -> int:
    mine = set(map(id, side))
    rows = sorted({row for (row, _), item in table.cells.items() if id(item) in mine})
    if len(rows) != 1:
        labels = ", ".join(table.models[row].label for row in rows)
        raise UsageError(
            f"The {name} side holds results of {len(rows)} models{': ' if rows else ''}{labels}.",
            advice="Give the results of one model on each side.",
        )
    return rows[0]
