"""``--config FILE``: flags as keys of a YAML, TOML or JSON file. They become words, and are read like words."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eyechart.cli.flags.parser import LISTS, CommandParser
from eyechart.errors import UsageError, unknown_name
from eyechart.io.configs.files import PARSERS, read_file
from eyechart.plan import TASK_FLAGS

OPTIONS = {"model_options": "model_option", "task_options": "task_option"}
"""Settings that are tables, as `Config` has them, and the flag with KEY=VALUE for each."""
QUESTIONS = "questions"
"""A table of flags, as `Config` has it."""
MODES = frozenset({"compile"})
"""Switches for which a file may also have a word."""
NOT_IN_FILES = frozenset({"help", "help_all", "config", "targets", "not", "negated"})


def read_config(parser: CommandParser, file: str) -> dict[str, Any]:
    """Return the settings in a file, by their names in the namespace of the command.

    Raises:
        UsageError: If it holds something else than settings, or one that there is not.
    """
    path = Path(file).expanduser()
    content = read_file(path, PARSERS)
    if not isinstance(content, Mapping):
        raise UsageError(f"{path} holds a list.", advice="It must hold the names of flags, each with its value.")
    words: list[str] = []
    as_they_are: dict[str, Any] = {}
    seen: set[str] = set()
    flags = _flags(parser)
    for name, value in _settings(content):
        if name not in flags:
            raise unknown_name(f"setting in {path}", name, flags, advice="See eyechart eval --help-all")
        if value is None:
            continue
        if flags[name].dest in seen - set(OPTIONS.values()):
            raise UsageError(f"{path} sets {name!r} twice.", advice="It may stand there under two names.")
        seen.add(flags[name].dest)
        said = _words(flags[name], name, value, path)
        if said is None:
            as_they_are[flags[name].dest] = value
        else:
            words += said
    return {**parser.values(words, str(path)), **as_they_are}


def _flags(parser: CommandParser) -> dict[str, argparse.Action]:
    """Return the flags by all their names, with underscores."""
    named = {option.lstrip("-"): action for option, action in parser._option_string_actions.items()}
    by_name = {name.replace("-", "_"): action for name, action in named.items() if len(name) > 1}
    by_setting = {action.dest: action for action in parser._actions if action.option_strings}
    return {name: action for name, action in {**by_setting, **by_name}.items() if name not in NOT_IN_FILES}


def _settings(content: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and values; those of inner tables have flags of their own, or are KEY=VALUE."""
    for key, value in content.items():
        name = str(key).removeprefix("--").replace("-", "_")
        if name == QUESTIONS and isinstance(value, Mapping):
            yield from _settings(value)
        elif name in OPTIONS and isinstance(value, Mapping):
            own = {inner: one for inner, one in value.items() if name == "model_options" or inner not in TASK_FLAGS}
            yield from ((inner, one) for inner, one in value.items() if inner not in own)
            if own:
                yield OPTIONS[name], [f"{inner}={json.dumps(one)}" for inner, one in own.items()]
        else:
            yield name, value


def _words(action: argparse.Action, name: str, value: Any, path: Path) -> list[str] | None:
    """Return the words that a setting stands for; None if no words can say it, and `Config` shall check it."""
    flag = action.option_strings[0]
    if isinstance(value, Mapping) or (name in MODES and isinstance(value, str)):
        return None
    if action.nargs == 0:
        return _switch(action, name, value, path)
    if isinstance(value, list):
        if action.nargs not in LISTS:
            raise UsageError(f"{path}: {name} takes one value, not a list.")
        return [flag, *(str(_plain(item, action, name, path)) for item in value)] if value else []
    if value is False and not action.default:
        return []
    return [f"{flag}={_plain(value, action, name, path)}"]


def _switch(action: argparse.Action, name: str, value: Any, path: Path) -> list[str]:
    if not isinstance(value, bool):
        raise UsageError(f"{path}: {name} takes true or false.")
    if isinstance(action, argparse.BooleanOptionalAction):
        return [action.option_strings[0 if value else 1]]
    # `xlsx: false` is the flag --no-xlsx, whose const is what the setting becomes.
    wanted = value == action.const if name == action.dest and isinstance(action.const, bool) else value
    return [action.option_strings[0]] if wanted else []


def _plain(value: Any, action: argparse.Action, name: str, path: Path) -> Any:
    """Return a value as it is written on a command line; YAML reads a bare yes, no, on and off as true and false."""
    if not isinstance(value, bool):
        return value
    if action.choices and {"yes", "no"} <= set(action.choices):
        return "yes" if value else "no"
    if action.nargs == argparse.OPTIONAL:
        return action.const if value and not isinstance(action.const, bool) else str(value).lower()
    raise UsageError(
        f"{path}: {name} cannot be {str(value).lower()}.", advice="If a word is meant (no, on), put it in quotes."
    )
