"""Comparisons, rankings and leaderboard positions as plain text for a terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain, zip_longest
from typing import Any

from eyechart.io.terminal import text_width, translate, visible, wrap
from eyechart.io.text_tables import columns_of, lay_out, one_line, pieces
from eyechart.messages import UserMessage
from eyechart.report.collection_means import collection_means
from eyechart.report.comparison import Difference, PairwiseComparison
from eyechart.report.leaderboard import LeaderboardPosition, PublishedRank
from eyechart.report.paired_records import LEVEL
from eyechart.report.result_table import Column, ResultTable, metric_label
from eyechart.report.verdict import Verdict, VerdictCell
from eyechart.results.views import FINE, MINUS, real_minus, shown, spread

GAIN = f"B {MINUS} A"
COLUMNS = columns_of(
    *("benchmark", "metric", GAIN, "95 % interval", "p (Holm)", "n", "A / B", "only A/B", "detectable", ""),
    right=(GAIN, "95 % interval", "p (Holm)", "n", "A / B", "only A/B", "detectable"),
    below=("95 % interval", "p (Holm)"),
    drop=("n", "A / B", "only A/B", "detectable"),
)
MARKS = {"best": "●", "tied": "○"}
AT_CHANCE = "≈"
LEGEND = {"●": "● best", "○": "○ not separable from the best", AT_CHANCE: "≈ not above chance"}
BEHIND = "\N{MINUS SIGN} distance to the best"
MOST_MODELS, MOST_COLUMNS = 20, 24
"""Size of the matrix on a terminal."""


def verdict_text(table: ResultTable, verdict: Verdict, width: int | None = None) -> str:
    """Lay out models x benchmarks with marks and differences to the best, then the verdict in words."""
    own = sorted({m for m, _ in verdict.cells}, key=lambda m: _standing(table, verdict, m))
    models, columns = own[:MOST_MODELS], range(min(len(verdict.columns), MOST_COLUMNS))
    parts = [(["model"], [one_line(table.models[m].label) for m in models])]
    if verdict.averages and len(verdict.columns) > 1:
        averages = [verdict.averages.get(m) for m in models]
        parts.append((["average"], [f"{shown(x.value, 2)} {spread(x, 2)}".strip() if x else "" for x in averages]))
        if any(one and one.rank_low for one in averages):
            ranks = [dict.fromkeys((x.rank_low, x.rank_high)) if x and x.rank_low else {} for x in averages]
            parts.append((["rank"], ["-".join(map(str, ends)) for ends in ranks]))
    for c in columns:
        column = verdict.columns[c]
        heads = [one_line(table.benchmarks[column.benchmark].label), metric_label(table, column)]
        parts.append((heads, _matrix_cells(table, column, [verdict.cells.get((m, c)) for m in models])))
    lines = _blocks(parts, width)
    used = [translate(said) for mark, said in LEGEND.items() if any(mark in cell for _, part in parts for cell in part)]
    notes: list[str] = ["  ".join([*used, translate(BEHIND)])] if used else []
    if more := len(own) - len(models):
        notes.append(UserMessage("{n} more models: `eyechart build` and `eyechart report` show all.", n=more))
    if more := len(verdict.columns) - len(columns):
        notes.append(UserMessage("{n} more columns: `eyechart build` and `eyechart report` show all.", n=more))
    if verdict.ranking is not None:
        covered = verdict.ranking.benchmarks
        if verdict.averages and len(verdict.columns) > 1:
            text = "rank: simultaneous {level:.0f} % intervals over {n} benchmarks."
            notes.append(UserMessage(text, n=len(covered), level=100 * LEVEL))
        ranked = {table.benchmarks[b].label for b in covered}
        rest = [benchmark for b, benchmark in enumerate(table.benchmarks) if b not in covered]
        # The task tells a benchmark from a ranked one on the same data.
        if names := ", ".join(f"{b.label} [{b.task}]" if b.label in ranked else b.label for b in rest):
            notes.append(UserMessage("Not in these ranks: {names}.", names=one_line(names)))
    return "\n".join([*lines, *_wrapped(notes, width), "", *_wrapped(verdict.sentences, width)]).rstrip() + "\n"


def _standing(table: ResultTable, verdict: Verdict, model: int) -> tuple[bool, float, int]:
    sign = 1 if all(map(table.lower_is_better, verdict.columns)) else -1
    single = verdict.cells.get((model, 0)) if len(verdict.columns) == 1 else None
    found = verdict.averages.get(model) or single
    return found is None, sign * found.value if found else 0.0, model


def _matrix_cells(table: ResultTable, column: Column, cells: Sequence[VerdictCell | None]) -> list[str]:
    """Format the cells of a column: value, mark, distance to the best; aligned at the value."""
    percent = table.in_per_cent(column)
    digits = 2 if percent or any(cell and abs(cell.value) >= 10 for cell in cells) else FINE
    numbers = ["" if cell is None else real_minus(shown(cell.value, digits, percent=percent)) for cell in cells]
    reach = max(map(len, numbers), default=0)
    texts = []
    for cell, number in zip(cells, numbers, strict=True):
        mark = AT_CHANCE if cell and cell.above_chance is False else MARKS.get(cell.mark or "", "") if cell else ""
        gap = shown(cell.difference, digits, percent=percent) if cell and cell.difference else ""
        texts.append(f"{number:>{reach}} {mark or ' '} {real_minus(gap)}".rstrip() if cell else "")
    return texts


def _blocks(parts: Sequence[tuple[list[str], list[str]]], width: int | None) -> list[str]:
    """Lay out columns of heads and cells side by side, and below each other if the width is used up."""
    (title, names), *rest = parts
    room = max(text_width(visible(name)) for name in (*map(translate, title), *names))
    room = room if width is None else min(room, max(12, width // 3))
    blocks: list[list[tuple[int, list[str], list[str]]]] = [[]]
    for heads, cells in rest:
        own = max(text_width(cell) for cell in (*cells, ""))
        words = [word for head in heads for word in visible(translate(head)).split()]
        own = max(own, text_width(" ".join(words)) if width is None else min(max(map(text_width, words)), 18))
        if width is not None and blocks[-1] and room + sum(2 + part[0] for part in blocks[-1]) + 2 + own > width:
            blocks.append([])
        blocks[-1].append((own, heads, cells))
    lines: list[str] = []
    for block in blocks:
        folded = [_folded(" ".join(map(translate, heads)), own) for own, heads, _ in block]
        folded.insert(0, _folded(translate(title[0]), room))
        rows = [[[""] * (max(map(len, folded)) - len(head)) + head for head in folded]]
        rows += [[_folded(name, room), *([cells[i]] for _, _, cells in block)] for i, name in enumerate(names)]
        for row in rows:
            for texts in zip_longest(*row, fillvalue=""):
                widths = [room, *(own for own, _, _ in block)]
                padded = [text + " " * (size - text_width(text)) for text, size in zip(texts, widths, strict=True)]
                lines.append("  ".join(padded).rstrip())
        lines.append("")
    return lines


def _folded(text: str, width: int) -> list[str]:
    return [piece for line in wrap(visible(text), width) for piece in pieces(line, width)] or [""]


def comparison_text(table: ResultTable, comparison: PairwiseComparison, width: int | None = None) -> str:
    """Lay out one comparison, in per cent and percentage points."""
    laid_out = lay_out(COLUMNS, [_row(table, line) for line in comparison.lines], width)
    unpaired = "{name}: both models have results, but no records of the same samples."
    notes = [note for head, note in HEADS.items() if translate(head) in " ".join(laid_out[0])]
    notes += _notes(comparison.lines, comparison.tests)
    notes += [UserMessage(unpaired, name=name) for name in comparison.unpaired]
    a, b = (one_line(table.models[m].label) for m in (comparison.first, comparison.second))
    lines = [f"A = {a}", f"B = {b}", "", *chain.from_iterable(laid_out), "", *_wrapped(notes, width)]
    return "\n".join(lines) + "\n"


def collections_text(table: ResultTable, width: int | None = None) -> list[str]:
    """Lay out the means over collections, and by what their benchmarks measure."""
    parts = []
    for one in (one for one in collection_means(table) if one.notable):
        models = [m for m, value in enumerate(one.values) if value is not None]
        letters = columns_of("mean of", *(one_line(table.models[m].label) for m in models))
        rows = [
            (name, *("" if (value := values[m]) is None else f"{100 * value:.1f}" for m in models))
            for name, values in ((one.name, one.values), *one.groups.items())
        ]
        laid_out = chain.from_iterable(lay_out(letters, rows if models else [], width))
        parts.append("\n".join([*(laid_out if models else ()), "", *_wrapped(one.notes, width)]) + "\n")
    return parts


def _wrapped(texts: Iterable[str], width: int | None) -> list[str]:
    """Translate texts and break them into lines."""
    return [line for text in texts for line in wrap(visible(translate(text)), width)]


HEADS = {
    "only A/B": "only A/B: samples that only A, and only B, gets right.",
    "detectable": "detectable: with this many samples, a true difference of this size is found in 4 of 5 cases.",
}


def _row(table: ResultTable, line: Difference) -> tuple[str, ...]:
    paired = line.paired
    column = Column(table.benchmarks.index(line.benchmark), line.metric)
    scale = 100 if table.in_per_cent(column) else 1
    return (
        line.benchmark.label,
        metric_label(table, column),
        _signed(scale * paired.difference),
        translate("too few")
        if paired.low is None or paired.high is None
        else f"[{_signed(scale * paired.low)}, {_signed(scale * paired.high)}]",
        "" if line.p_holm is None else p_text(line.p_holm),
        str(paired.n),
        f"{scale * line.first:.2f} / {scale * line.second:.2f}",
        "" if paired.only_first is None else f"{paired.only_first}/{paired.only_second}",
        "" if paired.detectable is None else f"{scale * paired.detectable:.1f}",
        translate({"better": "B better", "worse": "A better"}.get(line.verdict, line.verdict)),
    )


def _signed(value: float) -> str:
    return real_minus(f"{value:+.2f}")


def p_text(p_value: float) -> str:
    """Format a p-value."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _notes(lines: Sequence[Difference], n_tests: int) -> list[str]:
    tests = ", ".join(sorted({line.paired.test for line in lines} - {""})) or "-"
    text = "p and intervals: {test} over images; p corrected by Holm over {n} lines of all compared models."
    notes = [
        UserMessage(text, test=tests, n=n_tests),
        "They cover the choice of test samples; prompts, judges and, except for few shots, training images are fixed.",
        "Fractions in per cent.",
    ]
    if any(line.lower_is_better for line in lines):
        notes.append("↓: lower is better.")
    for line in lines:
        name = f"{line.benchmark.label}, {line.metric}"
        if line.paired.draws and line.paired.p_value is None:
            few = (
                "{name}: no interval and no p-value: {n} draws of training images do not show how much their choice "
                "matters. Run both with {--fewshot_repeats=3} or more."
            )
            notes.append(UserMessage(few, name=name, n=line.paired.draws))
        elif line.paired.draws:
            means = "{name}: means over {n} draws of training images; interval and p cover the choice of these, too."
            notes.append(UserMessage(means, name=name, n=line.paired.draws))
        if line.left_out:
            text = "{name}: {n} samples were left out because only one of the two models has a value."
            notes.append(UserMessage(text, name=name, n=line.left_out))
        fewer = " and ".join(f"{side} {text}" for side, text in zip("AB", line.fewer, strict=True) if text)
        if fewer:
            notes.append(UserMessage("{name}: lost samples: {list}.", name=name, list=fewer))
    return notes


POSITION_COLUMNS = columns_of(
    *("benchmark", "metric", "yours", "best", "rank", "", "of"), right=("yours", "best", "of"), below=("best", "of")
)
OPEN = "~"
"""Marks a rank that rounding or the interval leaves open."""


def position_text(table: ResultTable, position: LeaderboardPosition, width: int | None = None) -> str:
    """Lay out the ranks of one model in one publication."""
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for column, rank in position.ranks:
        label, scale = table.benchmarks[column.benchmark].label, 100 if table.in_per_cent(column) else 1
        rows.append((label, metric_label(table, column), *_cells(rank, scale)))
        if rank.published is not None:
            value = scale * rank.published
            notes.append(UserMessage("{name}: published for these weights: {value:.2f}", name=label, value=value))
    if position.overall:
        rows.append((f"mean of {position.averaged}", "", *_cells(position.overall, 100)))
    if any(OPEN in row for row in rows):
        notes.insert(0, "~: rounding or your interval leaves the rank open; (from-to) is the range.")
    notes += [UserMessage("not ranked: {name}", name=one_line(text)) for text in position.left_out]
    compared = "{n} published models"
    if position.unknown_size:
        compared = "{n} published models of at most {size:,.1f} M parameters; {unknown} of unknown size left out"
    elif position.parameters is not None:
        compared = "{n} published models of at most {size:,.1f} M parameters"
    model, source, size = table.models[position.model].label, position.publication, (position.parameters or 0) / 1e6
    among = "{model} among {title}, copied {date}:"
    heads = [
        UserMessage(among, model=one_line(model), title=source.title, date=source.date),
        UserMessage(compared, n=position.compared, size=size, unknown=position.unknown_size),
        "",
    ]
    laid_out = lay_out(POSITION_COLUMNS, rows, width) if position.compared and rows else []
    lines = [*_wrapped(heads, width), *chain.from_iterable(laid_out), *_wrapped(["", *notes] if notes else [], width)]
    return "\n".join(lines) + "\n"


def positions_json(table: ResultTable, found: Sequence[LeaderboardPosition]) -> list[dict[str, Any]]:
    """Return all ranks as plain values."""
    return [
        {
            "model": table.models[position.model].label,
            "reference": position.publication.name,
            "parameters": position.parameters,
            "compared": position.compared,
            "lines": [
                {"benchmark": table.benchmarks[column.benchmark].label, "metric": column.metric, **asdict(rank)}
                for column, rank in position.ranks
            ],
            "overall": position.overall and asdict(position.overall) | {"benchmarks": position.averaged},
            "left_out": list(position.left_out),
        }
        for position in found
    ]


def _cells(rank: PublishedRank, scale: int) -> tuple[str, ...]:
    best = "" if rank.best is None else f"{scale * rank.best:.2f}"
    text, mark = (str(rank.rank), "") if rank.low == rank.high else (f"{rank.rank} ({rank.low}-{rank.high})", OPEN)
    return f"{scale * rank.value:.2f}", best, text, mark, str(rank.among)
