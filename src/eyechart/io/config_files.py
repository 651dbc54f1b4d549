"""Config files: YAML, TOML and JSON as plain values, with limits; nothing in them is executed."""

import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import yaml

from eyechart.errors import UsageError
from eyechart.io.safe_parse import parse_json, read_text

MAX_VALUES = 100_000
"""Largest number of values, aliases expanded."""
MAX_DEPTH = 50
MAX_NUMBER = 1000
"""Longest number or date, in characters: Python's parsing time for some is quadratic."""


class TooMuchError(ValueError):
    """A text exceeds the limits, or sets a key twice."""


def _too_much() -> TooMuchError:
    return TooMuchError(f"has more than {MAX_VALUES} values, is nested too deeply, or has recursive aliases")


def read_json(text: str) -> Any:
    """Parse JSON; ValueError if it is invalid or exceeds the limits."""

    def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _check_names([name for name, _ in pairs])
        return dict(pairs)

    value = parse_json(text, each_once)
    _check(value)
    return value


def _check_names(names: list[str]) -> None:
    """Reject duplicate keys, of which the last would silently win."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TooMuchError(f"sets {twice[0]!r} twice")


def read_yaml(text: str) -> Any:
    """Parse YAML without tags; TooMuchError, or any error of PyYAML and Python for values they cannot represent."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check(node)  # aliases in merge keys are counted, too
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Enforces the limits during parsing."""

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


def _inside(value: Any) -> Sequence[Any]:
    """Return the parts of a YAML node or of a parsed value."""
    if isinstance(value, yaml.MappingNode):
        return [part for pair in value.value for part in pair]
    if isinstance(value, yaml.SequenceNode):
        return list(value.value)
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else ()


def _check(root: Any) -> None:
    """Reject aliases that expand too far: nine lines can hold a billion values, or themselves."""
    too_much = (MAX_VALUES + 1, MAX_DEPTH + 1)
    known: dict[int, tuple[int, int]] = {}

    def weigh(value: Any, depth: int) -> tuple[int, int]:
        """Return the number of expanded values and their depth."""
        inner = _inside(value)
        if not inner:
            return 1, 0
        if depth > MAX_DEPTH:
            return too_much
        if id(value) not in known:
            known[id(value)] = too_much  # its weight while it is inside itself
            counts, depths = zip(*(weigh(item, depth + 1) for item in inner), strict=True)
            known[id(value)] = min(1 + sum(counts), too_much[0]), 1 + max(depths)
        return known[id(value)]

    count, deepest = weigh(root, 0)
    if count > MAX_VALUES or deepest > MAX_DEPTH:
        raise _too_much()


# Config files in YAML, TOML or JSON: plain values only, nothing is executed.

TASK_CONFIGS = (".yaml", ".yml", ".json")
"""Formats of EvalScope's configs."""


def read_file(path: Path, forms: Collection[str] = TASK_CONFIGS) -> Any:
    """Read a mapping, or a list of mappings, from a file; its suffix must be one of ``forms``."""
    form = path.suffix.lower()
    if form not in forms:
        raise UsageError(
            "{path}: unsupported file type.", advice="Use one of: {forms}.", path=path, forms=", ".join(forms)
        )
    content = _parse(read_text(path, UsageError), path, form)
    if not isinstance(content, dict | list):
        advice = "It must contain a mapping, or a list of mappings."
        raise UsageError("{path} contains no settings.", advice=advice, path=path)
    return content


def read_inner(text: str) -> Any:
    """Read an ``eval_config`` given as the path of a file or as a JSON string."""
    return _parse(text, Path("eval_config"), ".json") if is_json(text) else read_file(Path(text))


def is_json(text: str) -> bool:
    """Whether a text is JSON rather than a path."""
    return text.lstrip().startswith("{")


def _parse(text: str, path: Path, form: str) -> Any:
    name, read = PARSERS[form]
    try:
        return read(text)
    except TooMuchError as error:
        raise UsageError("{path} {reason}.", path=path, reason=error) from error
    except Exception as error:  # noqa: BLE001 - besides parse errors: dates, numbers and keys that Python cannot represent
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        # Only the problem, without PyYAML's excerpt, which may contain a key.
        reason = getattr(error, "problem", "invalid value") if name == "YAML" else error
        text = "{path}{where} is not valid {format} ({reason})."
        raise UsageError(text, path=path, where=where, format=name, reason=reason) from None


PARSERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    ".yaml": ("YAML", read_yaml),
    ".yml": ("YAML", read_yaml),
    ".json": ("JSON", read_json),
    ".toml": ("TOML", tomllib.loads),
}
"""Name and parser of each format, by file suffix."""
