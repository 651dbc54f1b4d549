"""Settings as plain values, from YAML or JSON: what aliases and merge keys stand for is counted before it is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from eyechart.io.untrusted import parse_json

MAX_VALUES = 100_000
"""Values in a text, counted where aliases put them."""
MAX_DEPTH = 50
MAX_NUMBER = 1000
"""Characters of a number or a date: Python's time for some forms grows with the square of their length."""


class TooMuchError(ValueError):
    """A text holds more than it may: values without a reasonable end, or a setting twice."""


def _too_much() -> TooMuchError:
    return TooMuchError(
        f"holds more than {MAX_VALUES} values, is nested too deeply, or has aliases that contain themselves"
    )


def read_json(text: str) -> Any:
    """Read JSON; ValueError if it is none or too much."""
    value = parse_json(text, _each_once)
    _check(value, _in_value)
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _check_names([name for name, _ in pairs])
    return dict(pairs)


def _check_names(names: list[str]) -> None:
    """Refuse a mapping in which the last of two values would count, without a word."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TooMuchError(f"sets {twice[0]!r} twice")


def read_yaml(text: str) -> Any:
    """Read YAML without tags; TooMuchError, or whatever PyYAML and Python raise for what they cannot hold."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check(node, _in_node)  # a merge key's aliases are counted like those of any other key
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Gives up while it reads, not after."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.count = self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.count += 1
        self.depth += 1
        if self.count > MAX_VALUES or self.depth > MAX_DEPTH:
            raise _too_much()
        node = super().compose_node(parent, index)
        self.depth -= 1
        if isinstance(node, yaml.ScalarNode) and len(node.value) > MAX_NUMBER and not node.tag.endswith(":str"):
            raise TooMuchError(f"has a number of {len(node.value)} characters")
        if isinstance(node, yaml.MappingNode):
            _check_names([name.value for name, _ in node.value if isinstance(name, yaml.ScalarNode)])
        return node


def _in_node(node: yaml.Node) -> Sequence[Any]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _in_value(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else ()


def _check(root: Any, inside: Callable[[Any], Sequence[Any]]) -> None:
    """Refuse aliases that stand for more than they show: nine lines can hold a billion values, or themselves."""
    too_much = (MAX_VALUES + 1, MAX_DEPTH + 1)
    known: dict[int, tuple[int, int]] = {}

    def weigh(value: Any, depth: int) -> tuple[int, int]:
        """Return how many values it stands for, and how deep they go."""
        inner = inside(value)
        if not inner:
            return 1, 0
        if depth > MAX_DEPTH:
            return too_much
        if id(value) not in known:
            known[id(value)] = too_much  # what it counts for while it is inside itself
            counts, depths = zip(*(weigh(item, depth + 1) for item in inner), strict=True)
            known[id(value)] = min(1 + sum(counts), too_much[0]), 1 + max(depths)
        return known[id(value)]

    count, deepest = weigh(root, 0)
    if count > MAX_VALUES or deepest > MAX_DEPTH:
        raise _too_much()
