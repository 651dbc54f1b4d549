"""Draw the README's plot: quality against cost of the models in open_clip's tables, with the Pareto front.

Use: python scripts/quality_against_cost.py (writes docs/img/quality-against-cost.svg)

Quality is the mean of 38 datasets, cost the GFLOPs of one image and one text, both as published.
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import NamedTuple

from eyechart.report.reference import load_publication, published_tables
from eyechart.report.result_table import make_table

TARGET = Path(__file__).parent.parent / "docs" / "img" / "quality-against-cost.svg"
WIDTH, HEIGHT = 1000, 560
LEFT, RIGHT, TOP, BOTTOM = 56, 372, 92, 80
LOWEST = 40
"""Models of lower quality, trained on little data, are only counted: they would compress the plot."""
STYLE = """
text { font: 13px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif; fill: #24211d; }
.title { font-size: 19px; font-weight: 650; } .small { font-size: 12px; fill: #625c53; }
.number { font-size: 11.5px; font-weight: 700; fill: #17608f; } .name { font-size: 12px; }
.grid { stroke: #e3ddd2; } .point { fill: #8f8a81; fill-opacity: .5; } .best { fill: #17608f; }
.front { stroke: #17608f; stroke-width: 2; fill: none; stroke-linejoin: round; } .ground { fill: #fdfcfa; }
@media (prefers-color-scheme: dark) {
 text { fill: #ece7df; } .small { fill: #b3aca1; } .grid { stroke: #37332d; } .point { fill: #a8a196; }
 .best, .number { fill: #6db3e2; } .front { stroke: #6db3e2; } .ground { fill: #191714; }
}
"""


class Point(NamedTuple):
    """A published model."""

    name: str
    cost: float
    quality: float


def points() -> list[Point]:
    """Return the models, cheapest first."""
    publication = load_publication("open_clip")
    table = make_table(publication.found)
    costs = {
        (item.result.model, item.result.pretrained): item.result.model_card["gflops"] for item in publication.found
    }
    main = published_tables("open_clip", table)[0]
    rows = [(table.models[row], cells[-1]) for row, cells in main.rows]
    found = [Point(f"{m.name} {m.pretrained}", costs[m.name, m.pretrained], float(mean)) for m, mean in rows if mean]
    return sorted(found, key=lambda point: (point.cost, -point.quality, point.name))


def front(found: list[Point]) -> list[Point]:
    """Return the Pareto front: models that no cheaper or equally expensive one beats."""
    best: list[Point] = []
    for point in found:
        if not best or point.quality > best[-1].quality:
            best.append(point)
    return best


def draw(found: list[Point]) -> str:
    """Write the plot."""
    best, shown = front(found), [point for point in found if point.quality >= LOWEST]
    low, high = math.log(found[0].cost * 0.8), math.log(found[-1].cost * 1.2)
    top = 5 * math.ceil(best[-1].quality / 5)

    def x(cost: float) -> float:
        return LEFT + (math.log(cost) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(quality: float) -> float:
        return HEIGHT - BOTTOM - (quality - LOWEST) / (top - LOWEST) * (HEIGHT - TOP - BOTTOM)

    parts = [
        _text(LEFT, 34, f"{len(found)} published CLIP models: quality against cost", "title"),
        _text(LEFT, 57, "Mean over 38 datasets in per cent against GFLOPs for one image and one text.", "small"),
        _text(LEFT, 75, "The line joins the models that no cheaper one beats.", "small"),
    ]
    for quality in range(LOWEST, top + 1, 5):
        parts.append(f'<path class="grid" d="M{LEFT} {y(quality):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 8, y(quality) + 4, str(quality), "small", "end"))
    for cost in (20, 50, 100, 200, 500, 1000, 2000):
        parts.append(f'<path class="grid" d="M{x(cost):.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(_text(x(cost), HEIGHT - BOTTOM + 18, f"{cost:,}", "small", "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 37, "GFLOPs (log scale)", "small", "middle"))
    parts += [
        f'<circle class="{"best" if p in best else "point"}" cx="{x(p.cost):.1f}" cy="{y(p.quality):.1f}" r="4.2">'
        f"<title>{escape(p.name)}: {p.quality:.2f} %, {p.cost:.1f} GFLOPs</title></circle>"
        for p in shown
    ]
    line = " ".join(f"{x(p.cost):.1f},{y(p.quality):.1f}" for p in best)
    parts.append(f'<polyline class="front" points="{line}"/>')
    for number, p in enumerate(best, 1):
        parts.append(_text(x(p.cost) - 6, y(p.quality) - 7, str(number), "number", "middle"))
        parts += _entry(number, p)
    below = len(found) - len(shown)
    parts.append(
        _text(WIDTH - RIGHT + 24, TOP + 16 + 30 * len(best) + 16, f"{below} models are below {LOWEST} %.", "small")
    )
    source = (
        f"Source: docs/openclip_results.csv of mlfoundations/open_clip, copied {load_publication('open_clip').date}."
    )
    parts.append(_text(LEFT, HEIGHT - 14, source, "small"))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="Quality against cost of {len(found)} published CLIP models">\n<style>{STYLE}</style>\n'
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="10"/>\n{body}\n</svg>\n'
    )


def _entry(number: int, point: Point) -> list[str]:
    """Write a line of the legend next to the plot."""
    x, y = WIDTH - RIGHT + 24, TOP + 16 + 30 * (number - 1)
    return [
        _text(x + 16, y, str(number), "number", "end"),
        _text(x + 24, y, point.name, "name"),
        _text(x + 24, y + 13, f"{point.quality:.1f} %, {point.cost:,.0f} GFLOPs", "small"),
    ]


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


if __name__ == "__main__":
    TARGET.write_text(draw(points()), encoding="utf-8")
    for best in front(points()):
        print(f"{best.cost:8.1f} {best.quality:6.2f} {best.name}")
