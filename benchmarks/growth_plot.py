"""A plot of time and memory against the number of images or results, as SVG."""

from __future__ import annotations

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 300, 60, 40
SERIES = (("CPU seconds", 1, "#1668b8"), ("peak memory, MB", 2, "#b8461e"))


def growth_plot(points: list[tuple[int, float, float]], what: str = "images") -> str:
    """Draw both series side by side, from zero, each with the straight line between its ends."""
    panels = [_panel(points, i, what, *series) for i, series in enumerate(SERIES)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT + 30}" '
        f'font-family="sans-serif" font-size="14">{"".join(panels)}</svg>\n'
    )


def _panel(points: list[tuple[int, float, float]], number: int, what: str, name: str, column: int, colour: str) -> str:
    most, top = max(point[0] for point in points), 1.15 * max(point[column] for point in points)

    def place(n: float, value: float) -> tuple[float, float]:
        x = number * WIDTH + LEFT + (WIDTH - LEFT - 30) * n / most
        return round(x, 1), round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 30) * value / top, 1)

    def line(*ends: tuple[float, float]) -> str:
        return " ".join(f"{x},{y}" for x, y in (place(*end) for end in ends))

    dots = []
    for n, value in ((point[0], point[column]) for point in points):
        x, y = place(n, value)
        dots.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>')
        shown = f"{value:.0f}" if value >= 10 else f"{value:.2g}"
        dots.append(f'<text x="{x}" y="{y}" dy="-10" text-anchor="middle">{shown}</text>')
        dots.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{n}</text>')
    first, last = points[0], points[-1]
    straight = line((first[0], first[column]), (last[0], last[column]))
    axis = line((0, top), (0, 0), (most, 0))
    return (
        f'<polyline points="{axis}" fill="none" stroke="#888"/>'
        f'<polyline points="{straight}" fill="none" stroke="{colour}" stroke-dasharray="4 4"/>{"".join(dots)}'
        f'<text x="{number * WIDTH + LEFT}" y="20" font-weight="bold">{name} against {what}</text>'
    )
