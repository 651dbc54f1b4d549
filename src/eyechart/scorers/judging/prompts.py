"""Judge prompts from files: ours, or those of the user. docs/judges.md describes the form of such a file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.scorers.judging.forms import TRIES_APART, JudgeForm
from eyechart.scorers.judging.replies import READERS
from eyechart.types import digest_json

OURS = "eyechart"
_NEEDS = {"grades": "names", "word": "words", "label": "labels", "marks": "column"}
"""What a kind of reply cannot do without."""
_KNOWN: Mapping[str, Callable[[Any], bool]] = {
    "highest": lambda value: type(value) in {int, float} and value > 0,
    "longest": lambda value: type(value) is int and value > 0,
    "names": lambda value: isinstance(value, list) and value != [] and all(isinstance(name, str) for name in value),
    "words": lambda value: _is_table(value) and all(type(v) in {int, float} and 0 <= v <= 1 for v in value.values()),
    "labels": lambda value: _is_table(value) and all(isinstance(words, str) for words in value.values()),
    "column": lambda value: isinstance(value, str),
}
"""What a form may say of its replies, and whether a value is one."""
_GRADES = {"number", "word"}
"""Kinds of reply that may stand for each other: both are a share of the best grade."""


@dataclass(frozen=True)
class JudgePrompts:
    """The forms that a judge is asked by; what a file does not hold is ours."""

    source: str = OURS
    """Where they are from, for people: ours, a file's name, another tool."""
    forms: Mapping[str, JudgeForm] = field(default_factory=dict)
    """By the name of the form, or of the benchmark that it is for."""

    def form(self, name: str, benchmark: str = "") -> JudgeForm:
        """Return a form: the benchmark's own if there is one."""
        found = self.forms.get(benchmark) or self.forms.get(name)
        return found or _ours()[name]

    def source_of(self, form: JudgeForm) -> str:
        """Say where a form is from."""
        return self.source if form in self.forms.values() else OURS

    @property
    def digest(self) -> str:
        """Change whenever one of the forms does."""
        return digest_json({name: form.digest for name, form in {**_ours(), **self.forms}.items()})


def read_prompts(path: str) -> JudgePrompts:
    """Read a file of judge prompts; an empty name stands for ours.

    Raises:
        UsageError: If there is no such file, or it holds no such thing.
    """
    if not path:
        return JudgePrompts()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--judge_prompts {path}: {error}", advice="Name a TOML file, or vlmeval.") from error
    return JudgePrompts(Path(path).name, _parse(text, path))


@cache
def _ours() -> Mapping[str, JudgeForm]:
    return _parse((files(__package__) / "prompts.toml").read_text(encoding="utf-8"), "prompts.toml", complete=True)


def _parse(text: str, name: str, *, complete: bool = False) -> dict[str, JudgeForm]:
    try:
        entries = tomllib.loads(text)
        return {key: _form(key, entry, complete=complete) for key, entry in entries.items()}
    except (tomllib.TOMLDecodeError, DataError) as error:
        raise UsageError(
            f"{name} holds no judge prompts: {error}",
            advice='An entry is [form] with template = "..." and reads = ... (docs/judges.md).',
        ) from error


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value)


def _form(name: str, entry: Any, *, complete: bool) -> JudgeForm:
    """Make a form of an entry; one that replaces one of ours has all that it does not say from there."""
    if not isinstance(entry, Mapping):
        raise DataError(f"{name} is no table")
    base = None if complete else _ours().get(str(entry.get("form", name)))
    unknown = entry.keys() - {"form", "template", "reads", "tries", *_KNOWN}
    if unknown:
        raise DataError(f"[{name}] has the unknown keys {', '.join(sorted(unknown))}")
    template, reads = entry.get("template"), entry.get("reads", base.reads if base else None)
    if not isinstance(template, str) or "{prediction}" not in template:
        raise DataError(f"[{name}] has no template that holds {{prediction}}")
    if base is None and (reads is None or (not complete and "form" not in entry)):
        raise DataError(f"[{name}] is none of the forms {', '.join(_ours())}; of a benchmark, form says which is meant")
    tries = entry.get("tries", base.tries if base else 3)
    _check_values(name, {**entry, "reads": reads, "tries": tries}, base)
    known = {key: entry[key] for key in _KNOWN if key in entry}
    if base is not None and base.reads == reads:
        known = {**base.known, **known}
    if _NEEDS.get(reads, "highest") not in known and reads in _NEEDS:
        raise DataError(f"[{name}] reads {reads}, which needs {_NEEDS[reads]}")
    return JudgeForm(name, template, reads, tries, known)


def _check_values(name: str, entry: Mapping[str, Any], base: JudgeForm | None) -> None:
    """Refuse what no reply could be read by, before anything is asked."""
    reads, tries = entry["reads"], entry["tries"]
    if not isinstance(reads, str) or reads not in READERS:
        raise unknown_name("kind of reply", str(reads), READERS)
    if base is not None and reads != base.reads and not {reads, base.reads} <= _GRADES:
        raise DataError(f"[{name}] reads {reads}, but a verdict of this form is read as {base.reads}")
    if type(tries) is not int or not 1 <= tries < TRIES_APART:
        raise DataError(f"[{name}] has tries = {tries!r}, which is no number from 1 to {TRIES_APART - 1}")
    wrong = [key for key, is_one in _KNOWN.items() if key in entry and not is_one(entry[key])]
    if wrong:
        raise DataError(f"[{name}] has {wrong[0]} = {entry[wrong[0]]!r}, which is none")
