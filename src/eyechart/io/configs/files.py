"""Configs in files: YAML, TOML or JSON, plain values only; nothing in them is ever executed."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from eyechart.errors import UsageError
from eyechart.io.configs.plain_values import TooMuchError, read_json, read_yaml
from eyechart.io.untrusted import read_text

TASK_CONFIGS = (".yaml", ".yml", ".json")
"""What EvalScope's configs are written in."""


def read_file(path: Path, forms: Collection[str] = TASK_CONFIGS) -> Any:
    """Read a file that holds a mapping, or a list of mappings; by its ending, which must be one of the forms."""
    form = path.suffix.lower()
    if form not in forms:
        raise UsageError(f"{path}: unknown kind of file.", advice=f"A config ends in {', '.join(forms)}.")
    content = PARSERS[form](read_text(path, UsageError), path)
    if not isinstance(content, dict | list):
        raise UsageError(f"{path} holds no settings.", advice="It must hold a mapping, or a list of mappings.")
    return content


def read_inner(text: str) -> Any:
    """Read an ``eval_config`` that is the path of a file, or JSON in a string."""
    return _parse_json(text, Path("eval_config")) if is_json(text) else read_file(Path(text))


def is_json(text: str) -> bool:
    """Tell whether a text is meant as JSON, and not as a path."""
    return text.lstrip().startswith("{")


def _parse_json(text: str, path: Path) -> Any:
    try:
        return read_json(text)
    except TooMuchError as error:
        raise UsageError(f"{path} {error}.") from error
    except ValueError as error:
        raise UsageError(f"{path} is not valid JSON ({error}).") from None


def _parse_yaml(text: str, path: Path) -> Any:
    try:
        return read_yaml(text)
    except TooMuchError as error:
        raise UsageError(f"{path} {error}.") from error
    except Exception as error:  # noqa: BLE001 - besides YAMLError: dates, numbers and keys that Python cannot hold
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        # Only the problem, not the excerpt that PyYAML quotes: it may hold a key.
        raise UsageError(f"{path}{where} is not valid YAML ({getattr(error, 'problem', 'bad form')}).") from None


def _parse_toml(text: str, path: Path) -> Any:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML ({error}).") from None


PARSERS: dict[str, Callable[[str, Path], Any]] = {
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
    ".json": _parse_json,
    ".toml": _parse_toml,
}
"""How a config is read, by the ending of its name."""
