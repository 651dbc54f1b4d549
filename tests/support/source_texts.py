"""The texts of our own source, as shapes: what an f-string fills in is a ``{}``."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "eyechart"
PLACE = re.compile(r"%\([^)]*\)[sdr]|%[sdr]|\{[^{}]*\}")
SENTENCE = re.compile(r"(?<=[.?!:;]) ")


def shape_of(text: str) -> str:
    """Replace every place of a text by ``{}``."""
    return PLACE.sub("{}", text)


def literal(node: ast.AST) -> str | None:
    """Return the shape of a string or an f-string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return shape_of(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def runs_of(text: str) -> set[str]:
    """List every run of sentences of a text, line by line."""
    found = set()
    for line in text.split("\n"):
        parts = SENTENCE.split(line.strip())
        found |= {" ".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)}
    return found


def shapes_in(path: Path) -> set[str]:
    """Collect the texts of a file, whole and by their sentences."""
    texts = {text for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if (text := literal(node))}
    return {run for text in texts for run in (text.strip(), *runs_of(text)) if run}


@cache
def source_shapes() -> frozenset[str]:
    """Collect the texts of the whole package, and those of the library that reads the command line."""
    import argparse

    return frozenset().union(*map(shapes_in, [*sorted(SOURCE.rglob("*.py")), Path(argparse.__file__)]))


@cache
def open_shapes() -> tuple[re.Pattern[str], ...]:
    """Return the f-strings among them as patterns: a place may stand for words of ours, too."""
    shapes = [shape for shape in source_shapes() if "{}" in shape and len(shape.replace("{}", "")) > 6]
    return tuple(re.compile(".+".join(map(re.escape, shape.split("{}")))) for shape in shapes)


def is_in_the_source(text: str) -> bool:
    """Tell whether the package says a text, its places aside."""
    shape = shape_of(text)
    return shape in source_shapes() or any(pattern.fullmatch(shape) for pattern in open_shapes())
