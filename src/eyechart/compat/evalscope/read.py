"""From whatever ``run_task`` is given to typed configs: dicts, files, typed configs, lists of these."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from eyechart.compat.evalscope import schema
from eyechart.compat.evalscope.names import normalise
from eyechart.compat.evalscope.schema import TaskConfig
from eyechart.config import explain
from eyechart.errors import UsageError
from eyechart.io.plain_values import TooMuchError, read_json, read_yaml

SUFFIXES = (".yaml", ".yml", ".json")


def read_configs(task_cfg: object) -> list[TaskConfig]:
    """Return the configs in the order given.

    Args:
        task_cfg: A dict as EvalScope's documentation prints it, the path of a YAML or JSON file, a `TaskConfig`, an
            argparse namespace, or a list of any of these.

    Raises:
        UsageError: With one line for each setting that is wrong, and the nearest name for an unknown one.
    """
    if isinstance(task_cfg, TaskConfig):
        return [task_cfg]
    if isinstance(task_cfg, argparse.Namespace):
        return read_configs({key: value for key, value in vars(task_cfg).items() if value is not None})
    if isinstance(task_cfg, str | Path):
        return read_configs(read_file(Path(task_cfg)))
    if isinstance(task_cfg, list | tuple):
        if not task_cfg:
            raise UsageError("The list of configs is empty.")
        return [config for entry in task_cfg for config in read_configs(entry)]
    if isinstance(task_cfg, Mapping):
        return [_check(task_cfg)]
    raise UsageError(
        f"run_task takes a dict, a path, a TaskConfig or a list of these, not a {type(task_cfg).__name__}."
    )


def read_file(path: Path) -> Any:
    """Read a YAML or JSON file; only plain values, nothing in it is ever executed."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path}: unknown kind of file.", advice=f"A config ends in {', '.join(SUFFIXES)}.")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot read the config {path} ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text ({error.reason}).") from error
    content = _parse_json(text, path) if path.suffix.lower() == ".json" else _parse_yaml(text, path)
    if not isinstance(content, dict | list):
        raise UsageError(f"{path} holds no settings.", advice="It must hold a mapping, or a list of mappings.")
    return content


def _parse_json(text: str, path: Path) -> Any:
    try:
        return read_json(text)
    except TooMuchError as error:
        raise UsageError(f"{path} {error}.") from error
    except ValueError as error:
        raise UsageError(f"{path} is not valid JSON ({error}).") from error


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


def _check(values: Mapping[str, Any]) -> TaskConfig:
    inner = values.get("eval_config")
    if isinstance(inner, str):  # a path, or JSON in a string
        is_json = inner.lstrip().startswith("{")
        inner = _parse_json(inner, Path("eval_config")) if is_json else read_file(Path(inner))
        values = {**values, "eval_config": inner}
    named = normalise(values)
    try:
        return TaskConfig(**named)
    except ValidationError as error:
        raise UsageError(explain(error, _names_in, hidden=TOOLS)) from None


def _names_in(path: list[str]) -> Iterable[str]:
    """Return the names that are known in a part of a config."""
    tool = next((part for part in path if part in TOOLS), "")
    container = next((part for part in reversed(path) if not part.isdigit() and part not in TOOLS), "")
    return _FIELDS.get((tool, container), TaskConfig).model_fields


TOOLS = ("clip_benchmark", "mteb")
_FIELDS: dict[tuple[str, str], type[BaseModel]] = {
    ("clip_benchmark", "eval_config"): schema.ClipConfig,
    ("clip_benchmark", "eval"): schema.ClipEval,
    ("clip_benchmark", "models"): schema.VisionModel,
    ("clip_benchmark", "caption_models"): schema.VisionModel,
    ("clip_benchmark", "text_models"): schema.TextModel,
    ("mteb", "eval_config"): schema.MtebConfig,
    ("mteb", "eval"): schema.MtebEval,
    ("mteb", "models"): schema.TextModel,
    ("mteb", "custom_tasks"): schema.CustomTask,
}
"""What may stand in which part of a config."""
