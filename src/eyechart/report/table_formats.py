"""Tables as files: CSV, Markdown, LaTeX and Parquet, one row per result or models x benchmarks, with averages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from eyechart.errors import import_extra
from eyechart.io.terminal import wrap
from eyechart.io.text_tables import TextColumn, csv_text, lay_out, one_line
from eyechart.messages import UserMessage
from eyechart.report.collection_means import collection_means
from eyechart.report.loader import LoadedResult
from eyechart.report.paired_records import differing
from eyechart.report.result_table import Column, ResultTable, best_of, lost_samples
from eyechart.results import IDENTITY
from eyechart.results.views import FINE, fixed, is_fraction, shown, spread
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
            return UserMessage(
                "{text}. There is none: only fractions are averaged, and for chance only where that is known.",
                text=text,
            )
        if not self.common:
            return UserMessage(
                "{text}. No benchmark has all models: each model's own are averaged, so compare with care.", text=text
            )
        left = ", ".join(table.benchmarks[b].label for b in self.left_out)
        missing = f"; left out, as not every model has a usable value: {left}" if left else ""
        return UserMessage(
            "{text}, over {n} that every model has{missing}.", text=text, n=len(self.used), missing=missing
        )


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


# Tables as files: CSV, Markdown, LaTeX and Parquet, one row per result or models x benchmarks.


Cell = str | float | None


@dataclass(frozen=True)
class Grid:
    """A header and rows, ready to be written; text columns first."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of the cells to emphasise."""
    note: str = ""
    percent: frozenset[int] = frozenset()
    """Columns of fractions, displayed as per cent; machine-readable files keep the fractions."""


def result_rows(found: Sequence[LoadedResult], *, intervals: bool = False) -> Grid:
    """One row per result: identity first, then ``model_fullname``, then every metric in sorted order, then facts.

    The names are those of CLIP_benchmark's ``benchmark.csv``, whose column order varies from run to run; here it is
    fixed. Facts are numbers and booleans reported among the metrics that measure nothing, such as ``normalized``.
    """
    names = sorted({name for item in found for name in item.result.values})
    known_facts = [
        {name: fact for name, fact in item.result.facts.items() if isinstance(fact, int | float)} for item in found
    ]
    facts = sorted(set().union(*known_facts) - set(names))
    header = [*IDENTITY, "model_fullname"]
    percent: set[int] = set()
    for name in names:
        own = [name, f"{name}_low", f"{name}_high"] if intervals else [name]
        if all(is_fraction(item.result.values[name]) for item in found if name in item.result.values):
            percent.update(range(len(header), len(header) + len(own)))
        header += own
    rows = []
    for result, known in zip((item.result for item in found), known_facts, strict=True):
        row: list[Cell] = [*result.identity, f"{result.model} {result.pretrained}"]
        for name in names:
            metric = result.values.get(name)
            cells = (metric.value, metric.low, metric.high) if metric else (known.get(name), None, None)
            row += cells if intervals else cells[:1]
        rows.append((*row, *(known.get(name) for name in facts)))
    return Grid(
        (*header, *facts), tuple(rows), percent=frozenset(percent), note="Fractions in per cent." if percent else ""
    )


def matrix(
    table: ResultTable, columns: Sequence[Column], *, how: str = "plain", digits: int = 1, intervals: bool = False
) -> Grid:
    """Models x benchmarks with an average: fractions as per cent, the best of each column emphasised."""
    mean = average(table, columns, how)
    numbers = [table.values(column) for column in columns]
    cells = []
    for column, values in zip(columns, numbers, strict=True):
        percent, metrics = table.in_per_cent(column), table.metrics_in(column)
        texts = _as_shown(values, digits, percent)
        if intervals:
            texts = [
                text and f"{text} {spread(metrics[m], digits, percent=percent)}".rstrip()
                for m, text in enumerate(texts)
            ]
        cells.append(texts)
    is_rank = how == "rank"
    means = collection_means(table)
    shown = [one for one in means if any(value is not None for value in one.values)]
    cells.append(_as_shown(mean.values, 2 if is_rank else digits, not is_rank))  # only fractions are averaged
    cells += [_as_shown(one.values, digits, True) for one in shown]
    rows = tuple((model.label, *(column[m] for column in cells)) for m, model in enumerate(table.models))
    lower = [*map(table.lower_is_better, columns), mean.lower_is_better, *[False] * len(shown)]
    every = [*numbers, mean.values, *(one.values for one in shown)]
    leaders = [best_of(values, lower=low) for values, low in zip(every, lower, strict=True)]
    best = frozenset((m, c + 1) for c, row in enumerate(leaders) for m in row)
    titles = [f"{table.benchmarks[column.benchmark].label} {metric_label(table, column)}" for column in columns]
    spellings = {b: table.spellings(b) for b in dict.fromkeys(column.benchmark for column in columns)}
    several = [f"{table.benchmarks[b].label}: {', '.join(names)}" for b, names in spellings.items() if len(names) > 1]
    note = [
        mean.describe(how, table),
        *(note for one in means if one.notable for note in one.notes),
        *(
            [UserMessage("One benchmark under several names: {several}.", several="; ".join(several))]
            if several
            else []
        ),
        *_caution("With lost samples", table, columns, lambda m, b: lost_samples(table.cells[m, b].result)),
        *not_comparable(table, columns),
    ]
    return Grid(("model", *titles, AVERAGES[how][0], *(one.name for one in shown)), rows, best, " ".join(note))


def not_comparable(table: ResultTable, columns: Sequence[Column]) -> list[str]:
    """List the results that are not comparable with the best of their benchmark: different data, prompts, ..."""
    return _caution("Not comparable with the best, as these differ", table, columns, partial(differing, table))


def _caution(
    what: str, table: ResultTable, columns: Sequence[Column], words: Callable[[int, int], Sequence[str]]
) -> list[str]:
    found = [
        f"{model.label} on {table.benchmarks[b].label}: {', '.join(said)}"
        for m, model in enumerate(table.models)
        for b in dict.fromkeys(column.benchmark for column in columns)
        if (m, b) in table.cells and (said := words(m, b))
    ]
    return [f"{what}: {'; '.join(found)}."] if found else []


def metric_label(table: ResultTable, column: Column) -> str:
    """Abbreviate a metric as in papers: T→I is image retrieval (text query), I→T text retrieval, ↓ lower is better."""
    label = _SHORT.get(column.metric, column.metric)
    for long, short in _SHORTER.items():
        label = label.replace(long, short)
    return f"{label} ↓" if table.lower_is_better(column) else label


_SHORT = {"mean_average_precision": "mAP", "mean_per_class_recall": "mean recall"}
_SHORTER = {"image_retrieval_recall@": "T→I R@", "text_retrieval_recall@": "I→T R@"}


def to_csv(grid: Grid) -> bytes:
    """Write comma-separated values with full precision; missing numbers are empty."""
    return _bytes(csv_text([grid.header, *grid.rows]))


def to_markdown(grid: Grid) -> bytes:
    """Write a GitHub table with the best values in bold."""
    rows = _texts(grid, _markdown_escape, "**{}**")
    text_columns = _text_columns(grid)
    rule = ["---" if i in text_columns else "---:" for i in range(len(grid.header))]
    lines = [[_markdown_escape(name) for name in grid.header], rule, *rows]
    body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return _bytes(body + (f"\n{_markdown_escape(grid.note)}\n" if grid.note else ""))


def to_latex(grid: Grid) -> bytes:
    """Write a booktabs table with the best values in bold."""
    rows = _texts(grid, _latex_escape, r"\textbf{{{}}}")
    text_columns = _text_columns(grid)
    spec = "".join("l" if i in text_columns else "r" for i in range(len(grid.header)))
    lines = [
        f"% {one_line(grid.note)}" if grid.note else "% made by eyechart build",
        rf"\begin{{tabular}}{{{spec}}}",
        r"\toprule",
        " & ".join(_latex_escape(name) for name in grid.header) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return _bytes("\n".join(lines) + "\n")


def to_parquet(grid: Grid) -> bytes:
    """Write a Parquet file; needs the extra ``parquet``."""
    pa, parquet = import_extra("pyarrow", "parquet"), import_extra("pyarrow.parquet", "parquet")
    header = [_bytes(name).decode() for name in grid.header]
    rows = [[_bytes(cell).decode() if isinstance(cell, str) else cell for cell in row] for row in grid.rows]
    columns: list[Any] = [pa.array([row[i] for row in rows]) for i in range(len(header))]
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns, names=header), sink)
    return bytes(sink.getvalue())


def to_text(grid: Grid, width: int | None = None) -> bytes:
    """Write aligned columns, the best values marked; cells that exceed the width go below their row."""
    texts = _text_columns(grid)
    columns = [
        TextColumn(name, right=i not in texts, gives="" if i == 0 else "drop" if name == "model_fullname" else "below")
        for i, name in enumerate(grid.header)
    ]
    lines = list(chain.from_iterable(lay_out(columns, _texts(grid, str, "{}*"), width)))
    for note in (*(["* best of its column."] if grid.best else []), *([grid.note] if grid.note else [])):
        lines += wrap(one_line(note), width)
    return _bytes("\n".join(lines) + "\n")


FORMATS: Mapping[str, Callable[[Grid], bytes]] = {
    "csv": to_csv,
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
    "parquet": to_parquet,
}
SUFFIXES = {
    ".csv": "csv",
    ".txt": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".tex": "latex",
    ".parquet": "parquet",
}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # JSON may hold lone surrogates, which UTF-8 cannot


def _as_shown(values: Sequence[float | None], digits: int, percent: bool) -> list[str | None]:
    return [None if value is None else shown(value, digits, percent=percent) for value in values]


def _texts(grid: Grid, escape: Callable[[str], str], strong: str) -> list[list[str]]:
    def text(cell: Cell, column: int) -> str:
        if cell is None:
            return ""
        if isinstance(cell, str | bool):
            return escape(str(cell))
        return escape(shown(cell, 2) if column in grid.percent else fixed(cell, FINE))

    return [
        [strong.format(text(cell, c)) if (r, c) in grid.best else text(cell, c) for c, cell in enumerate(row)]
        for r, row in enumerate(grid.rows)
    ]


def _text_columns(grid: Grid) -> frozenset[int]:
    names = {"model", "model_fullname", *IDENTITY}
    return frozenset(i for i, name in enumerate(grid.header) if name in names)


def _markdown_escape(text: str) -> str:
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace("\\", "\\\\").replace("|", "\\|")


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "→": r"$\to$",
        "↓": r"$\downarrow$",
        "±": r"$\pm$",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def _latex_escape(text: str) -> str:
    return one_line(text).translate(_LATEX)
