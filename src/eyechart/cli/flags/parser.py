"""The parser of every command: both spellings of a flag, near names for unknown ones, short errors, help by rank."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from eyechart.errors import nearest
from eyechart.io.terminal import visible, wrap, write_message
from eyechart.io.translate import translate

LISTS = (argparse.ONE_OR_MORE, argparse.ZERO_OR_MORE)
"""Of arguments that take any number of words, up to the next flag."""
Completion = Callable[["CommandParser", dict[str, Any]], dict[str, Any]]


class CommandParser(argparse.ArgumentParser):
    """Flags are declared and shown with hyphens; underscores, which CLIP_benchmark has, are taken as well."""

    examples: Sequence[str] = ()
    """Commands that the help shows first."""
    common: frozenset[str] = frozenset()
    """Flags that ``--help`` shows, the others are for ``--help-all``; empty if it shows all."""
    complete: Completion | None = None
    """From what was given on the command line to what holds instead of defaults: more of it may be in a file."""

    _source = ""
    """Where the words are from, if not from the command line."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse, and refuse what is not known here, where the names that it could be are known."""
        words = self._spelled(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(words, namespace)
        end = rest.index("--") if "--" in rest else len(rest)
        unknown = [word for word in rest[:end] if word.startswith("-")]
        rest = [*rest[:end], *rest[end + 1 :]]
        if unknown:
            self.error(self._unknown(unknown[0].partition("=")[0]))
        if rest and not self.positions:
            self.error(f"unexpected: {' '.join(rest)}")
        if self.positions:
            # A list that may be empty is taken for empty as soon as a flag comes first: what follows is left over.
            setattr(found, self.positions, [*(getattr(found, self.positions) or []), *rest])
        if self.complete is not None:
            given = self._given(words) | ({self.positions: getattr(found, self.positions)} if self.positions else {})
            found = argparse.Namespace(**{**vars(found), **self.complete(self, given)})
        return found, []

    @property
    def positions(self) -> str:
        """Return the argument that takes any number of words, from wherever they stand among the flags."""
        taking = (action for action in self._get_positional_actions() if action.nargs == argparse.ZERO_OR_MORE)
        return next((action.dest for action in taking), "")

    def values(self, words: Sequence[str], source: str) -> dict[str, Any]:
        """Return what words stand for, without defaults; what is wrong with them is said of their source."""
        self._source = f"{source}: "
        try:
            return self._given(self._spelled(words))
        finally:
            self._source = ""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in two lines; whoever wants more is told where it is."""
        # Words are repeated visibly: a shell may have taken them from the names of files.
        write_message(f"{self.prog}: {visible(self._source + message)}\nsee {self.prog} --help\n", sys.stderr)
        sys.exit(2)

    def format_help(self) -> str:
        """Show examples, then the common flags by group."""
        return self.describe(everything=not self.common)

    def describe(self, *, everything: bool) -> str:
        """Write the help, with all flags or with the common ones."""
        head, groups = self._get_formatter(), self._get_formatter()
        head.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        head.add_text(self.description)
        for group in self._action_groups:
            shown = [action for action in group._group_actions if everything or self._is_common(action)]
            groups.start_section(group.title)
            groups.add_text(group.description)
            groups.add_arguments(shown)
            groups.end_section()
        if not everything:
            groups.add_text(f"These are the common flags. All of them: {self.prog} --help-all")
        examples = "".join(f"  {self.prog} {line}\n" for line in self.examples)
        return (
            head.format_help()
            + (f"\n{translate('examples:')}\n{examples}" if examples else "")
            + "\n"
            + groups.format_help()
        )

    def _is_common(self, action: argparse.Action) -> bool:
        return not action.option_strings or not self.common.isdisjoint(action.option_strings)

    def _given(self, words: Sequence[str]) -> dict[str, Any]:
        """Parse once more, into a namespace where every default is taken already: what is new there was given."""
        nothing = object()
        known = {action.dest: nothing for action in self._actions if action.dest != self.positions}
        found, _ = super().parse_known_args(list(words), argparse.Namespace(**known))
        return {name: value for name, value in vars(found).items() if value is not nothing and name != self.positions}

    def _spelled(self, words: Iterable[str]) -> list[str]:
        """Write the flags that are meant with hyphens; what follows a lone ``--`` is no flag."""
        spelled, ended = [], False
        for word in words:
            name, equals, value = word.partition("=")
            ended = ended or word == "--"
            hyphens = name.replace("_", "-")
            meant = not ended and name.startswith("--") and any(map(_starts(hyphens), self._option_string_actions))
            spelled.append(f"{hyphens}{equals}{value}" if meant else word)
        return spelled

    def _unknown(self, flag: str) -> str:
        names = (name for name in self._option_string_actions if name.startswith("--"))
        near = nearest(flag.replace("_", "-"), names, count=1)
        return f"unknown flag {flag}" + (f"; did you mean {near[0]}?" if near else "")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Read a value; one that a list took by mistake may be a word of its own."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if self.positions and not self._source and action.option_strings and action.nargs in LISTS:
                error.message += f"; {action.option_strings[0]} takes several values: words stand before it"
            raise

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is none of the choices, with the nearest ones."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = nearest(str(value), choices)
        hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(filter(None, choices))}"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {hint}")


class HelpAll(argparse.Action):
    """``--help-all``: shows every flag."""

    def __init__(self, option_strings: Sequence[str], dest: str = argparse.SUPPRESS, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help="show all flags and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print and leave."""
        text = parser.describe(everything=True) if isinstance(parser, CommandParser) else parser.format_help()
        write_message(text, sys.stdout)
        parser.exit()


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, not ``(default: None)``, and values by a short word: ``--limit N``, ``--task TASK ...``."""

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        return {int: "N", float: "X"}.get(action.type, action.dest.rpartition("_")[2].upper())  # type: ignore[call-overload, no-any-return]

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """Begin with the word for it in the reader's language."""
        super().add_usage(usage, actions, groups, f"{translate('usage:')} " if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        """Head a group of flags."""
        super().start_section(heading and translate(heading))

    def add_text(self, text: str | None) -> None:
        """Add a paragraph."""
        super().add_text(text and translate(text))

    def _split_lines(self, text: str, width: int) -> list[str]:
        # argparse counts characters, of which Chinese ones take two columns and have no spaces between them.
        return super()._split_lines(text, width) if text.isascii() else wrap(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.isascii():
            return super()._fill_text(text, width, indent)
        return "\n".join(indent + line for line in wrap(text, width - len(indent)))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        plain = action.nargs == 0 or action.default in (None, False, [], [""], "")
        return action.help if plain else super()._get_help_string(action)

    def _expand_help(self, action: argparse.Action) -> str:
        text = super()._expand_help(action)
        if isinstance(action.default, list):
            text = text.replace(f"(default: {action.default})", f"(default: {' '.join(map(str, action.default))})")
        return translate(text)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs in LISTS:
            return "{} ...".format(*self._metavar_formatter(action, default_metavar)(1))
        return super()._format_args(action, default_metavar)


def _starts(beginning: str) -> Callable[[str], bool]:
    return lambda option: option.startswith(beginning)
