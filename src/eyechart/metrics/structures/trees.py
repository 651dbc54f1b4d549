"""Edit distance of ordered trees (Zhang and Shasha), of values as trees, and of HTML tables (TEDS)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

from eyechart.metrics.texts.open_answers import edit_distance

MAX_PRODUCT = 4_000_000
"""Larger pairs of trees are not compared: their distance is that of the nodes' number."""


@dataclass
class Node:
    """A labelled node with children in order."""

    label: str
    text: str = ""
    children: list[Node] = field(default_factory=list)


Cost = Callable[[Node], float]
Change = Callable[[Node, Node], float]


def count(node: Node) -> int:
    """Return how many nodes a tree has."""
    return len(_ordered(node)[0])


def tree_distance(first: Node, second: Node, change: Change, remove: Cost | None = None) -> float:
    """Return the least cost to turn a tree into another; adding a node costs what removing it does."""
    cost = remove or _one
    (left, left_first), (right, right_first) = _ordered(first), _ordered(second)
    if len(left) * len(right) > MAX_PRODUCT:
        return float(max(len(left), len(right)))
    table = [[0.0] * len(right) for _ in left]
    for i in _roots(left_first):
        for j in _roots(right_first):
            _fill(table, (left, left_first, i), (right, right_first, j), change, cost)
    return table[-1][-1]


def _one(node: Node) -> float:  # noqa: ARG001 - as all costs
    return 1.0


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
    """Return the nodes, children before parents, and the position of each one's first leaf."""
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


def _roots(first: Sequence[int]) -> list[int]:
    last = {leaf: position for position, leaf in enumerate(first)}
    return sorted(last.values())


class _TableReader(HTMLParser):
    """Reads the first table: its rows and cells as nodes, a cell's text and tags as its text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.table: Node | None = None
        self.open: list[Node] = []
        self.cell: Node | None = None
        self.done = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.done or (self.table is None and tag != "table"):
            return
        if self.cell is not None:
            self.cell.text += f"<{tag}>"
            return
        given = dict(attrs)
        spans = f"{given.get('colspan') or 1},{given.get('rowspan') or 1}" if tag == "td" else ""
        node = Node(f"{tag}{spans}")
        if self.open:
            self.open[-1].children.append(node)
        else:
            self.table = node
        if tag == "td":
            self.cell = node
        else:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        if self.cell is not None:
            if tag == "td":
                self.cell = None
            else:
                self.cell.text += f"</{tag}>"
        elif self.open and self.open[-1].label == tag:
            self.open.pop()
            self.done = not self.open

    def handle_data(self, data: str) -> None:
        if self.cell is not None:
            self.cell.text += data


def read_table(html: str) -> Node | None:
    """Return the first table of a text as a tree, or None."""
    reader = _TableReader()
    reader.feed(html)
    return reader.table


def table_similarity(said: str, target: str) -> float:
    """Return TEDS: 1 minus the edit distance of two HTML tables over the larger number of nodes."""
    first, second = read_table(said), read_table(target)
    if first is None or second is None:
        return 0.0
    nodes = max(count(first), count(second)) - 1
    return 1 - tree_distance(first, second, _cell_change) / nodes if nodes else 1.0


def _cell_change(one: Node, two: Node) -> float:
    if one.label != two.label:
        return 1.0
    longest = max(len(one.text), len(two.text))
    return edit_distance(one.text, two.text) / longest if longest else 0.0


def value_tree(value: object, name: str = "<root>") -> Node:
    """Return a tree of a dict of lists of texts or dicts, as Donut makes it."""
    node = Node(name)
    if isinstance(value, dict):
        node.children = [value_tree(part, str(key)) for key, part in value.items()]
    elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
        node.children = [value_tree(item, "<subtree>") for item in value]
    elif isinstance(value, list):
        node.children = [Node("<leaf>", str(item)) for item in value]
    return node


def value_similarity(said: object, target: object) -> float:
    """Return Donut's accuracy: 1 minus the edit distance of two values over that of the right one to nothing."""
    empty = tree_distance(value_tree({}), value_tree(target), _value_change, _value_cost)
    if not empty:
        return float(said == target)
    return max(0.0, 1 - tree_distance(value_tree(said), value_tree(target), _value_change, _value_cost) / empty)


def _value_change(one: Node, two: Node) -> float:
    leaves = one.label == "<leaf>", two.label == "<leaf>"
    if all(leaves):
        return edit_distance(one.text, two.text)
    if any(leaves):
        return 1 + len((one if leaves[0] else two).text)
    return float(one.label != two.label)


def _value_cost(node: Node) -> float:
    return len(node.text) if node.label == "<leaf>" else 1.0
