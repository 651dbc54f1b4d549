"""A form: what a judge is asked about one answer, as data, and how its reply is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eyechart.metrics.cells import Row, as_text, options_of, text_list
from eyechart.scorers.judging.replies import READERS
from eyechart.types import digest_json

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_ -]*)\}")


def option_block(options: Mapping[str, str]) -> str:
    """List options as VLMEvalKit does for its judge."""
    return "There are several options: \n" + "".join(f"{letter}. {text}\n" for letter, text in options.items())


def _choice_line(row: Row) -> str:
    choices = text_list(row.get("choices"))
    return "Options: " + ", ".join(choices) + "\n" if choices else ""


def _answer_parts(row: Row) -> str:
    return as_text(row.get("answer")).replace("<AND>", " <AND> ").replace("<OR>", " <OR> ")


def _option_lines(row: Row) -> str:
    return "".join(f"{letter}. {text}\n" for letter, text in options_of(row).items())


FIELDS: Mapping[str, Callable[[Row], str]] = {
    "options": lambda row: option_block(options_of(row)),
    "choice_line": _choice_line,
    "option_lines": _option_lines,
    "answer_parts": _answer_parts,
}
"""What a template may name besides the columns of the table."""


@dataclass(frozen=True)
class JudgeForm:
    """How a judge is asked about one answer, and how its reply is read."""

    name: str
    template: str
    """``{column}`` stands for a cell of the row, or for one of `FIELDS`."""
    reads: str
    """The kind of reply (see `READERS`)."""
    tries: int = 3
    known: Mapping[str, Any] = field(default_factory=dict)
    """What belongs to the kind of reply: ``highest``, ``longest``, ``names``, ``words``."""

    def question(self, row: Row) -> str:
        """Write the whole question to the judge; what stands in a cell is never taken for a field."""
        return _FIELD.sub(lambda found: self._cell(found[1], row), self.template)

    @staticmethod
    def _cell(name: str, row: Row) -> str:
        return FIELDS[name](row) if name in FIELDS else as_text(row.get(name))

    def parse(self, reply: str, row: Row) -> Any:
        """Return the verdict, or None if the reply cannot be read."""
        return READERS[self.reads](reply, row, self.known)

    @property
    def columns(self) -> set[str]:
        """Return the columns of the table that the template names."""
        return set(_FIELD.findall(self.template)) - FIELDS.keys()

    @property
    def digest(self) -> str:
        """Tell this form from every other: its words, and how replies are read."""
        return digest_json([self.template, self.reads, self.tries, dict(self.known)])
