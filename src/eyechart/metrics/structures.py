"""Structured answers compared: boxes and polygons, trees by edit distance, HTML tables, and outlines of documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

from eyechart.metrics.answers import edit_distance

Box = Sequence[float]
"""Left, upper, right, lower."""


def overlap(first: Box, second: Box) -> float:
    """Return the intersection over union of two boxes; 0 if both are empty."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(width, 0.0) * max(height, 0.0)
    union = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)) - shared
    return shared / union if union > 0 else 0.0


def in_box(x: float, y: float, box: Box) -> bool:
    """Whether a point lies in a box or on its edge."""
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def in_polygon(x: float, y: float, corners: Sequence[Sequence[float]]) -> bool:
    """Whether a point lies in a polygon: a ray from it crosses the edges an odd number of times."""
    inside = False
    for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
        if min(ay, by) < y <= max(ay, by) and x <= (y - ay) * (bx - ax) / (by - ay) + ax:
            inside = not inside
    return inside


MAX_PRODUCT = 4_000_000
"""Larger pairs of trees are not aligned: their distance is the size of the larger one."""


@dataclass
class Node:
    """A labelled node with children in order."""

    label: str
    text: Sequence[str] = ""
    """Characters; in a table cell also tags, each of which counts as one."""
    children: list[Node] = field(default_factory=list)


Cost = Callable[[Node], float]
Change = Callable[[Node, Node], float]


def tree_distance(first: Node, second: Node, change: Change, remove: Cost | None = None) -> float:
    """Return Zhang and Shasha's edit distance of ordered trees; inserting a node costs as much as removing it."""
    cost = remove or (lambda _: 1.0)
    (left, left_first), (right, right_first) = _ordered(first), _ordered(second)
    if len(left) * len(right) > MAX_PRODUCT:
        return float(max(len(left), len(right)))
    table = [[0.0] * len(right) for _ in left]
    # Of the nodes that share a first leaf, the last is the root of a subtree to compare.
    roots = [sorted({leaf: i for i, leaf in enumerate(leaves)}.values()) for leaves in (left_first, right_first)]
    for i in roots[0]:
        for j in roots[1]:
            _fill(table, (left, left_first, i), (right, right_first, j), change, cost)
    return table[-1][-1]


_Side = tuple[Sequence[Node], Sequence[int], int]


def _fill(table: list[list[float]], one: _Side, two: _Side, change: Change, remove: Cost) -> None:
    (left, left_first, i), (right, right_first, j) = one, two
    a, b = left_first[i], right_first[j]
    rows, columns = i - a + 2, j - b + 2
    forest = [[0.0] * columns for _ in range(rows)]
    for x in range(1, rows):
        forest[x][0] = forest[x - 1][0] + remove(left[a + x - 1])
    for y in range(1, columns):
        forest[0][y] = forest[0][y - 1] + remove(right[b + y - 1])
    for x in range(1, rows):
        for y in range(1, columns):
            m, n = a + x - 1, b + y - 1
            shorter = min(forest[x - 1][y] + remove(left[m]), forest[x][y - 1] + remove(right[n]))
            if left_first[m] == a and right_first[n] == b:
                forest[x][y] = min(shorter, forest[x - 1][y - 1] + change(left[m], right[n]))
                table[m][n] = forest[x][y]
            else:
                before = forest[left_first[m] - a][right_first[n] - b]
                forest[x][y] = min(shorter, before + table[m][n])


def _ordered(root: Node) -> tuple[list[Node], list[int]]:
    """Return the nodes in post-order, and the position of each one's first leaf."""
    nodes: list[Node] = []
    first: list[int] = []
    stack: list[tuple[Node, int, list[int]]] = [(root, 0, [])]
    while stack:
        node, done, leaves = stack.pop()
        if done < len(node.children):
            stack.append((node, done + 1, leaves))
            stack.append((node.children[done], 0, []))
            continue
        start = leaves[0] if leaves else len(nodes)
        nodes.append(node)
        first.append(start)
        if stack:
            stack[-1][2].append(start)
    return nodes, first


_VOID = frozenset({"br", "col", "hr", "img", "input", "wbr"})
"""Tags without an end tag."""
_PARTS = frozenset({"table", "thead", "tbody", "tfoot"})
_ENDS = {
    "td": {"th"},
    "th": {"th"},
    "tr": {"th", "tr"},
    **dict.fromkeys(_PARTS - {"table"}, {"th", "tr", *_PARTS} - {"table"}),
}
"""Elements that are closed implicitly when a part of a table begins."""


class _TableReader(HTMLParser):
    """Parses the first table into rows and cells as nodes, with a cell's text and tags as its text.

    Unclosed elements end where the next part of the table begins, or with their parent.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.table: Node | None = None
        self.open: list[Node] = []
        self.cell: list[str] | None = None
        self.inner: list[str] = []
        """Open tags of the cell."""
        self.tags = 0
        """Number of tags, including those in cells."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self.open and (self.table is not None or tag != "table"):
            return
        if self.cell is not None and tag in _ENDS:
            self._end_cell()
        self.tags += 1
        if self.cell is not None:
            self.cell.append(f"<{tag}>")
            self.inner.append(tag)
            if tag in _VOID:
                self._end_inner(tag)
            return
        while self.open and self.open[-1].label in _ENDS.get(tag, ()):
            self.open.pop()
        given = dict(attrs)
        spans = f"{given.get('colspan') or 1},{given.get('rowspan') or 1}" if tag == "td" else ""
        cell: list[str] = []
        node = Node(f"{tag}{spans}", cell)
        if self.open:
            self.open[-1].children.append(node)
        else:
            self.table = node
        if tag == "td":
            self.cell = cell
        elif tag not in _VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        if self.cell is not None and tag in self.inner:
            self._end_inner(tag)
        elif self.cell is not None and tag == "td":
            self._end_cell()
        elif any(node.label == tag for node in self.open):
            self._end_cell()
            while self.open.pop().label != tag:
                pass

    def _end_cell(self) -> None:
        self._end_inner("")
        self.cell = None

    def _end_inner(self, tag: str) -> None:
        """Close the innermost such tag of the cell and those within it; all of them for ""."""
        while self.cell is not None and self.inner:
            last = self.inner.pop()
            self.cell.append(f"</{last}>")
            if last == tag:
                return

    def handle_data(self, data: str) -> None:
        if self.cell is not None:
            self.cell.extend(data)


def read_table(html: str) -> tuple[Node | None, int]:
    """Return the first table of a text as a tree, or None, and its number of tags."""
    reader = _TableReader()
    reader.feed(html)
    reader.close()
    return reader.table, reader.tags - 1


def table_similarity(said: str, target: str) -> float:
    """Return TEDS: 1 minus the edit distance of two HTML tables over the larger number of nodes, at least 0.

    Agrees with PubTabNet's code, in which very different tables can score slightly below 0.
    """
    (first, inside), (second, other) = read_table(said), read_table(target)
    if first is None or second is None:
        return 0.0
    nodes = max(inside, other)
    return max(0.0, 1 - tree_distance(first, second, _cell_change) / nodes) if nodes else 1.0


def _cell_change(one: Node, two: Node) -> float:
    if one.label != two.label:
        return 1.0
    longest = max(len(one.text), len(two.text))
    return edit_distance(one.text, two.text) / longest if longest else 0.0


def value_tree(value: object, name: str = "<root>") -> Node:
    """Return the tree of a dict of lists of texts or dicts, like Donut."""
    node = Node(name)
    if isinstance(value, dict):
        node.children = [value_tree(part, str(key)) for key, part in value.items()]
    elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
        node.children = [value_tree(item, "<subtree>") for item in value]
    elif isinstance(value, list):
        node.children = [Node("<leaf>", str(item)) for item in value]
    return node


def value_similarity(said: object, target: object) -> float:
    """Return Donut's accuracy: 1 minus the edit distance to the target over that from nothing to the target."""

    def cost(node: Node) -> float:
        return len(node.text) if node.label == "<leaf>" else 1.0

    whole, distance = (
        tree_distance(value_tree(value), value_tree(target), _value_change, cost) for value in ({}, said)
    )
    return max(0.0, 1 - distance / whole) if whole else float(said == target)


def _value_change(one: Node, two: Node) -> float:
    leaves = one.label == "<leaf>", two.label == "<leaf>"
    if all(leaves):
        return edit_distance(one.text, two.text)
    if any(leaves):
        return 1 + len((one if leaves[0] else two).text)
    return float(one.label != two.label)


_CLEANED = (
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


def outline_similarity(said: str, wanted: str) -> float:
    """Return 1 minus the edit distance of two outlines over the larger number of nodes.

    The text of a line does not matter, only whether it is empty: two empty lines differ, too (as in OCRBench v2).
    """
    first, second = outline(said), outline(wanted)
    nodes = max(len(_ordered(tree)[0]) for tree in (first, second))
    distance = tree_distance(first, second, lambda one, two: float(not (one.label.split() and two.label.split())))
    return max(0.0, 1 - distance / nodes)


def outline(text: str) -> Node:
    """Parse Markdown into a tree: headings below the root, and below each heading the lines that follow it."""
    first = Node("TITLE")
    root = Node("ROOT", children=[first])
    title = first
    for raw in text.split("\n"):
        line = raw
        for pattern, replacement in _CLEANED:
            line = re.sub(pattern, replacement, line)
        if line.startswith("#"):
            line = line.replace("#", "")
            root.children.append(Node(line))
            title = _find(root, line) if line else first
        else:
            title.children.append(Node(line))
    return root


def _find(root: Node, label: str) -> Node:
    """Return the first node with a label, parents before children."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.label == label:
            return node
        stack.extend(reversed(node.children))
    raise KeyError(label)
