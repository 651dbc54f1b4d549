"""Hard graph problems (NPMM): whether a solution is valid, and how close its size is to the optimum."""

import re
from collections.abc import Callable, Mapping
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from eyechart.metrics.cell_values import Row, as_text, read_literal
from eyechart.scorers.rule import RuleResult

Graph = Mapping[int, Mapping[int, float]]
"""Edge weights by their endpoints."""
_MAX_NODES = 2000


def graph_answer(row: Row, text: str) -> RuleResult:
    """Check the text after "Answer:"; the score is the ratio between the optimal and the found size."""
    task = as_text(row["data_source"]).rpartition("/")[2]
    if task not in _PROBLEMS:
        raise ValueError(f"{task!r} is not a problem of NPMM")
    problem, value = _PROBLEMS[task], None
    said = text.rpartition("Answer:")[2].strip() if "Answer:" in text else ""
    if said:
        graph = _graph(as_text(row["graph"]))
        found = problem.read(graph, said)
        value = problem.size(graph, found) if found is not None and problem.holds(graph, found) else None
    if value is None or value <= 0:
        return RuleResult(said or None, 0.0, {"valid": float(value == 0 and not problem.smaller)}, {"task": task})
    best = float(as_text(row["ground_truth"]))
    return RuleResult(said, best / value if problem.smaller else value / best, {"valid": 1.0}, {"task": task})


def _graph(text: str) -> Graph:
    value = read_literal(text)
    if not isinstance(value, dict) or len(value) > _MAX_NODES:
        raise ValueError("the graph is not a dict of neighbours, or too large")
    if "edges" in value:
        ends = {tuple(map(int, str(key).split("-"))): weight for key, weight in value["edges"].items()}
        nodes: dict[int, dict[int, float]] = {i: {} for i in range(int(value["num_vertices"]))}
        for (a, b), weight in ends.items():
            nodes[a][b] = nodes[b][a] = float(weight)
        return nodes
    return {int(node): _neighbours(near) for node, near in value.items()}


def _neighbours(near: object) -> dict[int, float]:
    if isinstance(near, dict):
        return {int(node): float(weight) for node, weight in near.items() if weight}
    return {int(node): 1.0 for node in near} if isinstance(near, list | tuple | set) else {}


def _nodes(graph: Graph, text: str) -> list[int] | None:
    found = re.search(r"[\[({]([^\])}]*)[\])}]", text.replace("'", "").replace('"', ""))
    listed = found[1] if found else ",".join(text.split("->"))
    try:
        return [int(part) for part in listed.split(",") if part.strip()]
    except ValueError:
        return None


def _set(graph: Graph, text: str) -> set[int] | None:
    nodes = _nodes(graph, text)
    return {*nodes} if nodes is not None and {*nodes} <= graph.keys() else None


def _listed(graph: Graph, text: str) -> list[int] | None:
    nodes = _nodes(graph, text)
    return nodes if nodes and len({*nodes}) == len(nodes) and {*nodes} <= graph.keys() else None


def _tour(graph: Graph, text: str) -> list[int] | None:
    path = _nodes(graph, text)
    if not path or path[0] != path[-1] or len({*path[:-1]}) != len(path) - 1:
        return None
    return None if any(b not in graph.get(a, {}) for a, b in pairwise(path)) else path


def _halves(graph: Graph, text: str) -> tuple[set[int], set[int]] | None:
    value = read_literal(text)
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(part, list) for part in value):
        return None
    first, second = ({*part} for part in value)
    whole = len(value[0]) + len(value[1]) == len(graph) and first | second == graph.keys()
    return (first, second) if whole and not first & second else None


def _leaves_a_forest(graph: Graph, removed: set[int]) -> bool:
    parent = {node: node for node in graph}

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    edges = {(min(a, b), max(a, b)) for a, near in graph.items() for b in near if not {a, b} & removed}
    for a, b in edges:
        if root(a) == root(b):
            return False  # a cycle remains
        parent[root(a)] = root(b)
    return True


def _is_coloring(graph: Graph, colors: list[int]) -> bool:
    if not colors or len(colors) != len(graph) or -1 in colors:
        return False
    by_node = dict(zip(sorted(graph), colors, strict=True))
    return not any(by_node[a] == by_node.get(b) for a in graph for b in graph[a])


def _cut(graph: Graph, halves: tuple[set[int], set[int]]) -> float:
    return sum(graph[a].get(b, 0.0) for a in halves[0] for b in halves[1])


class _Problem(NamedTuple):
    """How a solution is read, what makes it valid, and its size."""

    read: Callable[[Graph, str], Any]
    """Parses a solution; None if it is not one."""
    smaller: bool
    """Whether smaller is better."""
    holds: Callable[[Graph, Any], bool] = lambda _graph, _found: True
    size: Callable[[Graph, Any], float] = lambda _graph, found: len(found)


_PROBLEMS: Mapping[str, _Problem] = {
    "NpVertexCover": _Problem(
        _set, True, lambda graph, found: all(a in found or b in found for a, near in graph.items() for b in near)
    ),
    "NpDominatingSet": _Problem(
        _set,
        True,
        lambda graph, found: bool(found) and all(a in found or found & near.keys() for a, near in graph.items()),
    ),
    "NpFeedbackVertexSet": _Problem(_set, True, _leaves_a_forest),
    "NpGcpD": _Problem(_nodes, True, _is_coloring, lambda _, colors: len({*colors})),
    "NpTsp": _Problem(
        _tour,
        True,
        lambda graph, path: {*path} == graph.keys(),
        lambda graph, path: sum(graph[a][b] for a, b in pairwise(path)),
    ),
    "NpMinimumCut": _Problem(_halves, True, lambda _, halves: abs(len(halves[0]) - len(halves[1])) <= 1, _cut),
    "NpMaximumCliqueProblem": _Problem(
        _listed, False, lambda graph, found: all(b in graph[a] or a in graph[b] for a, b in combinations(found, 2))
    ),
    "NpMaximumSet": _Problem(
        _listed, False, lambda graph, found: not any(b in graph[a] for a, b in combinations(found, 2))
    ),
    "NpHamiltonianCycle": _Problem(_tour, False),
    "NpMaximumCut": _Problem(_halves, False, size=_cut),
}
