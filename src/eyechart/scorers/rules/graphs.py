"""Hard graph problems (NPMM): whether a solution is valid, and how close its size is to the optimum."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise

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
    value_of, smaller = _PROBLEMS[task]
    said = text.rpartition("Answer:")[2].strip() if "Answer:" in text else ""
    value = value_of(_graph(as_text(row["graph"])), said) if said else None
    if value is None or value <= 0:
        return RuleResult(said or None, 0.0, {"valid": float(value == 0 and not smaller)}, {"task": task})
    best = float(as_text(row["ground_truth"]))
    return RuleResult(said, best / value if smaller else value / best, {"valid": 1.0}, {"task": task})


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


def _nodes(text: str) -> list[int] | None:
    found = re.search(r"[\[({]([^\])}]*)[\])}]", text.replace("'", "").replace('"', ""))
    listed = found[1] if found else ",".join(text.split("->"))
    try:
        return [int(part) for part in listed.split(",") if part.strip()]
    except ValueError:
        return None


def _set(graph: Graph, text: str) -> set[int] | None:
    nodes = _nodes(text)
    return {*nodes} if nodes is not None and {*nodes} <= graph.keys() else None


def _vertex_cover(graph: Graph, text: str) -> float | None:
    chosen = _set(graph, text)
    if chosen is None or any(a not in chosen and b not in chosen for a, near in graph.items() for b in near):
        return None
    return len(chosen)


def _dominating_set(graph: Graph, text: str) -> float | None:
    chosen = _set(graph, text)
    if not chosen or any(node not in chosen and not chosen & near.keys() for node, near in graph.items()):
        return None
    return len(chosen)


def _feedback_set(graph: Graph, text: str) -> float | None:
    removed = _set(graph, text)
    if removed is None:
        return None
    parent = {node: node for node in graph}

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    edges = {(min(a, b), max(a, b)) for a, near in graph.items() for b in near if not {a, b} & removed}
    for a, b in edges:
        if root(a) == root(b):
            return None  # a cycle remains
        parent[root(a)] = root(b)
    return len(removed)


def _listed(graph: Graph, text: str) -> list[int] | None:
    nodes = _nodes(text)
    if not nodes or len({*nodes}) != len(nodes) or not {*nodes} <= graph.keys():
        return None
    return nodes


def _clique(graph: Graph, text: str) -> float | None:
    nodes = _listed(graph, text)
    if nodes is None or any(b not in graph[a] and a not in graph[b] for a, b in combinations(nodes, 2)):
        return None
    return len(nodes)


def _independent_set(graph: Graph, text: str) -> float | None:
    nodes = _listed(graph, text)
    if nodes is None or any(b in graph[a] for a, b in combinations(nodes, 2)):
        return None
    return len(nodes)


def _coloring(graph: Graph, text: str) -> float | None:
    colors = _nodes(text)
    if not colors or len(colors) != len(graph) or -1 in colors:
        return None
    by_node = dict(zip(sorted(graph), colors, strict=True))
    return None if any(by_node[a] == by_node.get(b) for a in graph for b in graph[a]) else len({*colors})


def _tour(graph: Graph, text: str) -> list[int] | None:
    path = _nodes(text)
    if not path or path[0] != path[-1] or len({*path[:-1]}) != len(path) - 1:
        return None
    return None if any(b not in graph.get(a, {}) for a, b in pairwise(path)) else path


def _cycle(graph: Graph, text: str) -> float | None:
    path = _tour(graph, text)
    return len(path) if path else None


def _travel(graph: Graph, text: str) -> float | None:
    path = _tour(graph, text)
    if not path or {*path} != graph.keys():
        return None
    return sum(graph[a][b] for a, b in pairwise(path))


def _parts(graph: Graph, text: str) -> Sequence[set[int]] | None:
    value = read_literal(text)
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(part, list) for part in value):
        return None
    first, second = ({*part} for part in value)
    whole = len(value[0]) + len(value[1]) == len(graph) and first | second == graph.keys()
    return (first, second) if whole and not first & second else None


def _cut(graph: Graph, text: str) -> float | None:
    parts = _parts(graph, text)
    return None if parts is None else sum(graph[a].get(b, 0.0) for a in parts[0] for b in parts[1])


def _bisection(graph: Graph, text: str) -> float | None:
    parts = _parts(graph, text)
    return _cut(graph, text) if parts and abs(len(parts[0]) - len(parts[1])) <= 1 else None


_PROBLEMS: Mapping[str, tuple[Callable[[Graph, str], float | None], bool]] = {
    "NpVertexCover": (_vertex_cover, True),
    "NpDominatingSet": (_dominating_set, True),
    "NpFeedbackVertexSet": (_feedback_set, True),
    "NpGcpD": (_coloring, True),
    "NpTsp": (_travel, True),
    "NpMinimumCut": (_bisection, True),
    "NpMaximumCliqueProblem": (_clique, False),
    "NpMaximumSet": (_independent_set, False),
    "NpHamiltonianCycle": (_cycle, False),
    "NpMaximumCut": (_cut, False),
}
"""Computes the size of a solution, None for an invalid one, and whether smaller is better."""
