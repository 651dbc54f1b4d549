"""Tables as files: CSV, Markdown, LaTeX and Parquet, one row per result or models x benchmarks, with averages."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Any

from eyechart.errors import import_extra
from eyechart.io.terminal import translate, visible, wrap
from eyechart.io.text_tables import TextColumn, csv_text, lay_out, one_line
from eyechart.messages import UserMessage
from eyechart.report.collection_means import AVERAGES, average, collection_means
from eyechart.report.loader import LoadedResult
from eyechart.report.paired_records import differing
from eyechart.report.result_table import Column, ResultTable, lost_samples, metric_label
from eyechart.report.verdict import Verdict, separable
from eyechart.results import IDENTITY
from eyechart.results.views import FINE, MINUS, fixed, is_fraction, real_minus, shown, spread

Cell = str | float | None


@dataclass(frozen=True)
class Grid:
    """A header and rows, ready to be written; text columns first."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of the cells in bold: the best, separable from all others."""
    tied: frozenset[tuple[int, int]] = frozenset()
    """Cells that are underlined: not separable from the best."""
    note: str = ""
    heads: tuple[tuple[str, str], ...] = ()
    """Benchmark and metric of each column, for headers of two lines."""
    caption: str = ""
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
    table: ResultTable,
    columns: Sequence[Column],
    *,
    how: str = "plain",
    digits: int = 1,
    intervals: bool = False,
    verdict: Verdict | None = None,
) -> Grid:
    """Models x benchmarks with an average: fractions as per cent, the best of each column emphasised by the verdict."""
    mean = average(table, columns, how)
    cells = []
    for column in columns:
        known = table.metrics_in(column) if intervals else {}
        cells.append(_as_shown(table.values(column), digits, table.in_per_cent(column), known))
    is_rank = how == "rank"
    means = collection_means(table)
    shown = [one for one in means if any(value is not None for value in one.values)]
    own = verdict.averages if intervals and verdict and how == "plain" else {}
    cells.append(_as_shown(mean.values, 2 if is_rank else digits, not is_rank, own))  # only fractions are averaged
    cells += [_as_shown(one.values, digits, True) for one in shown]
    rows = tuple((model.label, *(column[m] for column in cells)) for m, model in enumerate(table.models))
    heads = [(table.benchmarks[column.benchmark].label, metric_label(table, column)) for column in columns]
    ends = [("", AVERAGES[how][0]), *(("", one.name) for one in shown)]
    averaged = mean.used if how == "plain" else ()
    marked = _emphasis(verdict, len(columns), averaged) if verdict else (frozenset[tuple[int, int]](),) * 2
    spellings = {b: table.spellings(b) for b in dict.fromkeys(column.benchmark for column in columns)}
    several = [f"{table.benchmarks[b].label}: {', '.join(names)}" for b, names in spellings.items() if len(names) > 1]
    note = [mean.describe(how, table), *(note for one in means if one.notable for note in one.notes)]
    if several:
        note.append(UserMessage("One benchmark under several names: {several}.", several="; ".join(several)))
    note += _caution("With lost samples", table, columns, lambda m, b: lost_samples(table.cells[m, b].result))
    note += not_comparable(table, columns)
    return Grid(
        ("model", *(" ".join(head).strip() for head in (*heads, *ends))),
        rows,
        *marked,
        " ".join(note),
        heads=(("", "model"), *heads, *ends),
        caption=_caption(table, columns, intervals=intervals, tested=any(marked)),
    )


def _emphasis(
    verdict: Verdict, width: int, averaged: Sequence[int]
) -> tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]:
    """Return the cells of the best that are separable from all others, and those not separable from the best."""
    marks = {(m, c + 1): cell.mark for (m, c), cell in verdict.cells.items() if cell.mark in ("best", "tied")}
    ranking = verdict.ranking
    if ranking and set(ranking.benchmarks) == set(averaged) and len(ranking.models) == len(verdict.averages):
        marks |= {(m, width + 1): "best" for m, (low, _) in zip(ranking.models, ranking.ranks, strict=True) if low == 1}
    crowd = Counter(column for _, column in marks)
    alone = {(m, c) for m, c in marks if crowd[c] == 1}
    tested = {c for c in range(1, width + 1) if separable(x for (_, own), x in verdict.cells.items() if own == c - 1)}
    return frozenset(place for place in alone if place[1] in {*tested, width + 1}), frozenset(marks.keys() - alone)


def _caption(table: ResultTable, columns: Sequence[Column], *, intervals: bool, tested: bool) -> str:
    """State the unit, the numbers of samples and the test."""
    sizes: dict[str, set[int]] = {}
    for column in columns:
        found = {metric.n for metric in table.metrics_in(column).values() if metric.n is not None}
        sizes.setdefault(table.benchmarks[column.benchmark].label, set()).update(found)
    known = [
        f"{min(own):,} ({name})" if len(own) == 1 else f"{min(own):,}-{max(own):,} ({name})"
        for name, own in sizes.items()
        if own
    ]
    parts = ["Fractions in per cent" + (" with 95 % intervals." if intervals else ".")]
    parts += [f"n = {', '.join(known)}."] if known else []
    if tested:
        parts.append(
            "Bold: best, and separable from all others; underlined: not separable from the best "
            "(paired tests on the same samples, Holm-corrected over the table, 5 % level)."
        )
    return " ".join(parts)


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


def to_csv(grid: Grid) -> bytes:
    """Write comma-separated values with full precision; missing numbers are empty."""
    return _bytes(csv_text([grid.header, *grid.rows]))


def to_markdown(grid: Grid) -> bytes:
    """Write a GitHub table: the best values in bold if separable, those not separable from the best underlined."""
    rows = _texts(grid, _markdown_escape, ("**{}**", "<ins>{}</ins>"))
    text_columns = _text_columns(grid)
    rule = ["---" if i in text_columns else "---:" for i in range(len(grid.header))]
    lines = [[_markdown_escape(name) for name in grid.header], rule, *rows]
    body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return _bytes(body + "".join(f"\n{_markdown_escape(text)}\n" for text in (grid.caption, grid.note) if text))


def to_latex(grid: Grid) -> bytes:
    """Write a booktabs table with a caption; numbers in math mode, emphasised as in Markdown."""
    text_columns = _text_columns(grid)
    spec = "".join("l" if i in text_columns else "r" for i in range(len(grid.header)))
    rows = [
        [_latex_escape(cell) if c in text_columns else _latex_number(cell, (r, c), grid) for c, cell in enumerate(row)]
        for r, row in enumerate(_texts(grid, str, ("{}", "{}")))
    ]
    heads = [_latex_escape(sub) for _, sub in grid.heads] or [_latex_escape(name) for name in grid.header]
    lines = [
        r"% needs \usepackage{booktabs}",
        *([f"% {visible(one_line(grid.note))}"] if grid.note else []),
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{_latex_escape(grid.caption)}}}"] if grid.caption else []),
        r"\label{tab:eyechart}",
        rf"\begin{{tabular}}{{{spec}}}",
        r"\toprule",
        *_latex_groups(grid),
        " & ".join(heads) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return _bytes("\n".join(lines) + "\n")


def _latex_groups(grid: Grid) -> list[str]:
    """Build the header line of benchmarks above their metrics, with rules."""
    cells, rules, start = [], [], 1
    for name, members in groupby(grid.heads, key=lambda head: head[0]):
        size = len(list(members))
        cells += [rf"\multicolumn{{{size}}}{{c}}{{{_latex_escape(name)}}}"] if name else [""] * size
        rules += [rf"\cmidrule(lr){{{start}-{start + size - 1}}}"] if name else []
        start += size
    return [" & ".join(cells) + r" \\", " ".join(rules)] if rules else []


_NUMBER = re.compile(rf"([-+{MINUS}]?)([\d.,]+)(?: (±)([\d.]+)| {MINUS}([\d.]+) \+([\d.]+))?")
"""A number with the reach of its interval, as `spread` formats it."""


def _latex_number(text: str, place: tuple[int, int], grid: Grid) -> str:
    """Put a number in math mode; only the value is emphasised, not its interval."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return _latex_escape(text)
    sign, value, both, reach, below, above = found.groups()
    value = ("-" if sign in ("-", MINUS) else sign) + value
    emphasis = r"\mathbf{{{}}}" if place in grid.best else r"\underline{{{}}}" if place in grid.tied else "{}"
    ends = rf" \pm {reach}" if both else f"_{{-{below}}}^{{+{above}}}" if below else ""
    return f"${emphasis.format(value)}{ends}$"


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
    lines = list(chain.from_iterable(lay_out(columns, _texts(grid, str, ("{} ●", "{} ○")), width)))
    marks = ["● best, separable from all others; ○ not separable from the best."] if grid.best or grid.tied else []
    for note in (*map(translate, marks), *([grid.note] if grid.note else [])):
        lines += wrap(one_line(note), width)
    return _bytes("\n".join(lines) + "\n")


FORMATS: Mapping[str, Callable[[Grid], bytes]] = {
    "csv": to_csv,
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
    "parquet": to_parquet,
}
SUFFIXES = {f".{name}": name for name in FORMATS} | {".txt": "text", ".md": "markdown", ".tex": "latex"}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # JSON may hold lone surrogates, which UTF-8 cannot


def _as_shown(
    values: Sequence[float | None], digits: int, percent: bool, intervals: Mapping[int, Any] | None = None
) -> list[str | None]:
    """Format a column of numbers, with the reach of their intervals by row."""
    texts = [None if value is None else shown(value, digits, percent=percent) for value in values]
    reach = {m: spread(one, digits, percent=percent) for m, one in (intervals or {}).items()}
    return [text and f"{text} {reach.get(m, '')}".rstrip() for m, text in enumerate(texts)]


def _texts(grid: Grid, escape: Callable[[str], str], strong: tuple[str, str]) -> list[list[str]]:
    """Format all cells; ``strong`` has the forms of separable best values and of values tied with the best."""
    names = _text_columns(grid)

    def text(cell: Cell, column: int) -> str:
        if cell is None:
            return ""
        if isinstance(cell, str | bool):
            return escape(str(cell) if column in names else real_minus(str(cell)))
        return real_minus(escape(shown(cell, 2) if column in grid.percent else fixed(cell, FINE)))

    def form(place: tuple[int, int]) -> str:
        return strong[0] if place in grid.best else strong[1] if place in grid.tied else "{}"

    return [[form((r, c)).format(text(cell, c)) for c, cell in enumerate(row)] for r, row in enumerate(grid.rows)]


def _text_columns(grid: Grid) -> frozenset[int]:
    names = {"model", "model_fullname", *IDENTITY}
    return frozenset(i for i, name in enumerate(grid.header) if name in names)


_MARKDOWN = re.compile(r"[\\|*`~]|(?<=\])\(|(?<![^\W_])_(?=\w)")
"""Characters that would end a cell, or start code, emphasis or a link."""


def _markdown_escape(text: str) -> str:
    return _MARKDOWN.sub(r"\\\g<0>", one_line(text).replace("&", "&amp;").replace("<", "&lt;"))


_LATEX_NAMES = ("backslash", "asciicircum", "asciitilde", "less", "greater")
_LATEX = str.maketrans(
    {
        "→": r"$\to$",
        "↓": r"$\downarrow$",
        "±": r"$\pm$",
        MINUS: "$-$",
        **dict(zip("\\^~<>", map(r"\text{}{{}}".format, _LATEX_NAMES), strict=True)),
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def _latex_escape(text: str) -> str:
    escaped = visible(one_line(text)).translate(_LATEX)
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped  # else an argument of the line break before
