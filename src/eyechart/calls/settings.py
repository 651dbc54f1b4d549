"""The arguments of a call as settings of `Config`, and how Python calls what the command line calls flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eyechart.config import Config, QuestionSettings
from eyechart.errors import unknown_name
from eyechart.io.wording import Wording
from eyechart.plan import TASK_FLAGS

ARGUMENTS = Wording(
    {name: name for name in (*Config.model_fields, *QuestionSettings.model_fields, *TASK_FLAGS)}, "{name}={value!r}"
)
"""Errors name settings as the arguments of Python."""


def collect(given: Mapping[str, Any], unknown: Mapping[str, Any]) -> dict[str, Any]:
    """Sort arguments into the places that `Config` has for them; None was not given.

    Raises:
        UnknownNameError: If there is an argument that nobody knows.
    """
    for name in unknown:
        raise unknown_name("argument", name, [*ARGUMENTS.names, *given])
    known = ARGUMENTS.names.keys() - {"model", "dataset"}
    named = {name: _plain(value) for name, value in given.items() if value is not None and name in known}
    settings = {name: named[name] for name in Config.model_fields if name in named}
    tasks = {name: named[name] for name in sorted(TASK_FLAGS) if name in named}
    questions = {name: named[name] for name in QuestionSettings.model_fields if name in named}
    if tasks:
        settings["task_options"] = {**tasks, **settings.get("task_options", {})}
    if questions:
        settings["questions"] = {**_fields(settings.get("questions")), **questions}
    return settings


def _fields(questions: QuestionSettings | Mapping[str, Any] | None) -> Mapping[str, Any]:
    return questions.model_dump(exclude_unset=True) if isinstance(questions, QuestionSettings) else questions or {}


def _plain(value: Any) -> Any:
    """Write paths as texts, arrays as lists or numbers, and other sequences as lists."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(one) for one in value]
    return value
