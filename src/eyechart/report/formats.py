"""Tables as files: CSV, Markdown, LaTeX and Parquet, one row per result or models x benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from eyechart.errors import import_extra
from eyechart.io.cells import csv_text, one_line
from eyechart.io.layout import TextColumn, lay_out
from eyechart.io.terminal import wrap
from eyechart.report.averages import AVERAGES, average
from eyechart.report.load import Found
from eyechart.report.pairing import differing
from eyechart.report.table import Column, ResultTable, best_of, lost_samples
from eyechart.results import IDENTITY, Result
from eyechart.results.numbers import FINE, fixed, is_fraction, shown, spread

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
    """Columns of fractions, which people read as per cent; files for programs keep the fractions."""


def result_rows(found: Sequence[Found], *, intervals: bool = False) -> Grid:
    """One row per result: identity first, then ``model_fullname``, then every metric in sorted order, then facts.

    The names are those of CLIP_benchmark's ``benchmark.csv``, whose order changes from run to run; here it is fixed.
    Facts are numbers and truths that stand among the metrics and measure nothing, such as ``normalized``.
    """
    names = sorted({name for item in found for name in item.result.values})
    facts = sorted({name for item in found for name in _plain_facts(item.result)} - set(names))
    header = [*IDENTITY, "model_fullname"]
    percent: set[int] = set()
    for name in names:
        own = [name, f"{name}_low", f"{name}_high"] if intervals else [name]
        if all(is_fraction(item.result.values[name]) for item in found if name in item.result.values):
            percent.update(range(len(header), len(header) + len(own)))
        header += own
    rows = []
    for item in found:
        result, known = item.result, _plain_facts(item.result)
        row: list[Cell] = [*result.identity, f"{result.model} {result.pretrained}"]
        for name in names:
            metric = result.values.get(name)
            cells = (metric.value, metric.low, metric.high) if metric else (known.get(name), None, None)
            row += cells if intervals else cells[:1]
        rows.append((*row, *(known.get(name) for name in facts)))
    return Grid(
        (*header, *facts), tuple(rows), percent=frozenset(percent), note="Fractions in per cent." if percent else ""
    )


def _plain_facts(result: Result) -> dict[str, float]:
    return {name: fact for name, fact in result.facts.items() if isinstance(fact, int | float)}


def matrix(
    table: ResultTable, columns: Sequence[Column], *, how: str = "plain", digits: int = 1, intervals: bool = False
) -> Grid:
    """Models x benchmarks with an average: fractions as per cent, the best of each column emphasised."""
    mean = average(table, columns, how)
    numbers = [table.values(column) for column in columns]
    cells = [_as_shown(values, digits, table.in_per_cent(c)) for values, c in zip(numbers, columns, strict=True)]
    if intervals:
        cells = [_with_spread(texts, table, c, digits) for texts, c in zip(cells, columns, strict=True)]
    is_rank = how == "rank"
    cells.append(_as_shown(mean.values, 2 if is_rank else digits, not is_rank))  # only fractions are averaged
    rows = tuple((model.label, *(column[m] for column in cells)) for m, model in enumerate(table.models))
    lower = [*map(table.lower_is_better, columns), mean.lower_is_better]
    leaders = [best_of(values, lower=low) for values, low in zip((*numbers, mean.values), lower, strict=True)]
    best = frozenset((m, c + 1) for c, row in enumerate(leaders) for m in row)
    titles = [f"{table.benchmarks[column.benchmark].label} {metric_label(table, column)}" for column in columns]
    note = [
        mean.describe(how, table),
        *_spellings(table, columns),
        *_over_fewer(table, columns),
        *not_comparable(table, columns),
    ]
    return Grid(("model", *titles, AVERAGES[how][0]), rows, best, " ".join(note))


def _spellings(table: ResultTable, columns: Sequence[Column]) -> list[str]:
    """Say which names stand for one benchmark."""
    found = {b: table.spellings(b) for b in dict.fromkeys(column.benchmark for column in columns)}
    several = [f"{table.benchmarks[b].label}: {', '.join(names)}" for b, names in found.items() if len(names) > 1]
    return [f"One benchmark under several names: {'; '.join(several)}."] if several else []


def _with_spread(texts: Sequence[str | None], table: ResultTable, column: Column, digits: int) -> list[str | None]:
    """Put beside each number how far its interval reaches to both sides."""
    percent, metrics = table.in_per_cent(column), table.metrics_in(column)
    return [text and f"{text} {spread(metrics[m], digits, percent=percent)}".rstrip() for m, text in enumerate(texts)]


def _over_fewer(table: ResultTable, columns: Sequence[Column]) -> list[str]:
    def fewer(m: int, b: int) -> list[str]:
        return lost_samples(table.cells[m, b].result)

    return _caution("With lost samples", table, columns, fewer)


def not_comparable(table: ResultTable, columns: Sequence[Column]) -> list[str]:
    """Say which results are of something else than the best of their benchmark: other data, prompts, ..."""
    return _caution("Not comparable with the best, as these differ", table, columns, partial(differing, table))


def _caution(
    what: str, table: ResultTable, columns: Sequence[Column], words: Callable[[int, int], Sequence[str]]
) -> list[str]:
    wanted = dict.fromkeys(column.benchmark for column in columns)
    cells = [(m, b) for m in range(len(table.models)) for b in wanted if (m, b) in table.cells]
    found = [
        f"{table.models[m].label} on {table.benchmarks[b].label}: {', '.join(words(m, b))}"
        for m, b in cells
        if words(m, b)
    ]
    return [f"{what}: {'; '.join(found)}."] if found else []


def metric_label(table: ResultTable, column: Column) -> str:
    """Name a metric as papers do: T→I is image retrieval (text query), I→T text retrieval, ↓ where lower is better."""
    label = _SHORT.get(column.metric, column.metric)
    for long, short in _SHORTER.items():
        label = label.replace(long, short)
    return f"{label} ↓" if table.lower_is_better(column) else label


_SHORT = {"mean_average_precision": "mAP", "mean_per_class_recall": "mean recall"}
_SHORTER = {"image_retrieval_recall@": "T→I R@", "text_retrieval_recall@": "I→T R@"}


def to_csv(grid: Grid) -> bytes:
    """Write comma-separated values, numbers in full, nothing where there is no number."""
    return _bytes(csv_text([grid.header, *grid.rows]))


def to_markdown(grid: Grid) -> bytes:
    """Write a GitHub table, the best values in bold."""
    rows = _texts(grid, _markdown_escape, "**{}**")
    text_columns = _text_columns(grid)
    rule = ["---" if i in text_columns else "---:" for i in range(len(grid.header))]
    lines = [[_markdown_escape(name) for name in grid.header], rule, *rows]
    body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return _bytes(body + (f"\n{_markdown_escape(grid.note)}\n" if grid.note else ""))


def to_latex(grid: Grid) -> bytes:
    """Write a booktabs table, the best values in bold."""
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
    """Write aligned columns for people, the best values marked; what a width has no room for is under its row."""
    texts = _text_columns(grid)
    columns = [
        TextColumn(name, right=i not in texts, gives="" if i == 0 else "drop" if name == "model_fullname" else "below")
        for i, name in enumerate(grid.header)
    ]
    rows = lay_out(columns, _texts(grid, str, "{}*"), width)
    note = [*(["* best of its column."] if grid.best else []), *([grid.note] if grid.note else [])]
    lines = [line for row in rows for line in row] + [line for text in note for line in wrap(one_line(text), width)]
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
    return text.encode("utf-8", "backslashreplace")  # JSON may hold halves of characters, which UTF-8 cannot


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


_LATEX = {
    "\\": r"\textbackslash{}",
    "→": r"$\to$",
    "↓": r"$\downarrow$",
    "±": r"$\pm$",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
} | {character: f"\\{character}" for character in "&%$#_{}"}


def _latex_escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in one_line(text))
