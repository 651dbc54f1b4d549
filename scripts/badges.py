"""Write the README's badges as static SVG images, so that no service is contacted for them.

There is no build or download badge: no public server runs this project's tests or counts downloads.
Use: python scripts/badges.py
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import eyechart

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "img"
SHAPE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{name}: {value}">
<rect width="{width}" height="20" rx="3" fill="#3f51b5"/><rect width="{edge}" height="20" rx="3" fill="#444"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="6" y="14">{name}</text><text x="{start}" y="14">{value}</text></g></svg>
"""


def badges() -> dict[str, str]:
    """Return name and value of each badge, from their sources in the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    python = project["requires-python"].removeprefix(">=")
    return {"version": eyechart.__version__, "python": f"{python} or newer", "licence": project["license"]}


def draw(name: str, value: str) -> str:
    """Return a badge as SVG."""
    edge = 7 * len(name) + 12
    return SHAPE.format(name=name, value=value, edge=edge, start=edge + 6, width=edge + 7 * len(value) + 12)


if __name__ == "__main__":
    for name, value in badges().items():
        (FOLDER / f"badge-{name}.svg").write_text(draw(name, value), encoding="utf-8")
