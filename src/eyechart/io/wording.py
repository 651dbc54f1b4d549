"""Advice in the words of the caller. Errors name settings as flags; other surfaces say it their way.

wording = Wording({"on_error": "on_error", "dataset_root": "data_dir"}, "{name}: {value}")
wording.of("Check --dataset_root, or use --on-error skip.")   # Check data_dir, or use on_error: skip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from eyechart.errors import EyechartError

_FLAG = re.compile(
    r"(?<![\w-])--(?:(?:model|task)_option[ =](?=[a-z_]+=))?(?P<name>[a-z][a-z_-]*)"
    r"(?:[ =](?P<value>skip|fail|infer|eval|auto|full|gbk|shift_jis|windows-1252|utf-16[lb]e|[\d.]*\d|[\w]+\|[\w|]+))?"
)
"""A flag, perhaps with a value that cannot be the next word of the sentence."""


_UNDERSCORES = re.compile(r"(?<![\w-])--[a-z]+(?:_[a-z]+)+")


def as_flags(text: object) -> str:
    """Return a message in the words of the command line: its flags are shown with hyphens."""
    return _UNDERSCORES.sub(lambda found: found[0].replace("_", "-"), str(text))


@dataclass(frozen=True)
class Wording:
    """How a surface calls settings."""

    names: Mapping[str, str]
    """By the name of the flag, with underscores; what is not there is a flag in this surface, too."""
    assignment: str
    """How a value is given: a format with ``name`` and ``value``."""

    def of(self, text: str) -> str:
        """Return a message or an advice in this surface's words."""
        return _FLAG.sub(self._said, text)

    def _said(self, found: re.Match[str]) -> str:
        name, value = self.names.get(found["name"].replace("-", "_")), found["value"]
        if name is None:
            return found[0]
        given = int(value) if value and value.isdigit() else value
        return self.assignment.format(name=name, value=given) if value else name

    def reword(self, error: EyechartError) -> None:
        """Change the words of an error in place; its kind and its traceback stay."""
        error.message, error.advice = self.of(error.message), self.of(error.advice)
        error.args = (error.message,)

    @contextmanager
    def spoken(self) -> Iterator[None]:
        """Let errors leave in these words."""
        try:
            yield
        except EyechartError as error:
            self.reword(error)
            raise
