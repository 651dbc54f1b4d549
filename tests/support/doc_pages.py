"""The documentation pages and the examples on them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
CHINESE = [page for page in PAGES if page.parent.name == "zh" or page.name == "README.zh-CN.md"]
PROGRAMS = ("eyechart", "clip_benchmark", "clip_benchmark_export_wds")
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def options_of(info):
    """Return the language of a fenced block and the words after it: ``{"file": NAME}``, ``{"skip": ""}``."""
    language, *options = info.split() or [""]
    return language, dict(option.partition("=")[::2] for option in options)


def blocks(page):
    """Yield language, options and text of each fenced block."""
    for found in FENCE.finditer(page.read_text(encoding="utf-8")):
        yield *options_of(found["info"]), found["body"]


def commands(body):
    """Yield the commands of a console block, continued lines joined."""
    for line in body.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            yield shlex.split(line[2:], comments=True)


def original_of(page):
    """Return the English page that a Chinese one is a translation of."""
    return ROOT / "README.md" if page.parent == ROOT else ROOT / "docs" / page.name
