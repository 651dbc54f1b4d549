"""Documents in Markdown as trees of titles and lines, compared."""

from __future__ import annotations

import re

from eyechart.metrics.structures.trees import Node, count, tree_distance

_CLEANED = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"<bos>|<eos>|<pad>|<unk>", ""),
        (r"\s##(\S)", r"\1"),
        (r"\\\s", r"\\"),
        (r"\s\*\s\*\s", "**"),
        (r"{\s", "{"),
        (r"\s}", "}"),
        (r"\s}", "}"),
        (r"\\begin\s", r"\\begin"),
        (r"\\end\s", r"\\end"),
        (r"\\end{table}", r"\\end{table} \n\n"),
        (r"[\n*_]", " "),
    )
)


def outline_similarity(said: str, wanted: str) -> float:
    """Return 1 minus the edit distance of two outlines over the larger number of nodes.

    What a line says does not matter, but whether it says anything: two empty lines differ, too (as in OCRBench v2).
    """
    first, second = outline(said), outline(wanted)
    return max(0.0, 1 - tree_distance(first, second, _change) / max(count(first), count(second)))


def _change(one: Node, two: Node) -> float:
    return float(not (one.label.split() and two.label.split()))


def outline(text: str) -> Node:
    """Return a tree: below the root the titles, below each the lines that follow it."""
    first = Node("TITLE")
    root = Node("ROOT", children=[first])
    title = first
    for raw in text.split("\n"):
        line = _clean(raw)
        if line.startswith("#"):
            line = line.replace("#", "")
            root.children.append(Node(line))
            title = _find(root, line) if line else first
        else:
            title.children.append(Node(line))
    return root


def _clean(line: str) -> str:
    for pattern, replacement in _CLEANED:
        line = pattern.sub(replacement, line)
    return line


def _find(root: Node, label: str) -> Node:
    """Return the first node with a label, parents before children."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.label == label:
            return node
        stack.extend(reversed(node.children))
    raise KeyError(label)
