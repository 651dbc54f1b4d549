"""The parser of every command: both spellings of flags, suggestions, short errors, and a help of common flags."""

import argparse
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import Any, NoReturn

from eyechart.errors import nearest
from eyechart.io.terminal import translate, wrap, write_message
from eyechart.messages import UserMessage, join

LISTS = (argparse.ONE_OR_MORE, argparse.ZERO_OR_MORE)
"""``nargs`` of arguments that take any number of values, up to the next flag."""
Completion = Callable[["CommandParser", dict[str, Any]], dict[str, Any]]


_NAMING = ("the following arguments are required: {names}", "not allowed with argument {names}")
"""Messages of `argparse` that end with names of arguments."""


_ABOUT_KEYS = re.compile(r"-(?:api-?)?(?:key|token|secret|password)(?:-|$)", re.IGNORECASE)
"""Flags without abbreviations, which would read like a flag that takes the secret itself."""


@cache
def table(name: str) -> dict[str, Any]:
    """Return a table of ``tables.toml``."""
    found: dict[str, Any] = tomllib.loads(files("eyechart.cli").joinpath("tables.toml").read_text(encoding="utf-8"))
    return dict(found[name])


class CommandParser(argparse.ArgumentParser):
    """Flags are declared and shown with hyphens; underscores, as in CLIP_benchmark, are accepted too."""

    examples: Sequence[str] = ()
    """Example arguments, shown first in the help."""
    common: frozenset[str] = frozenset()
    """Flags that ``--help`` shows; ``--help-all`` shows the others. Empty: it shows all."""
    sections: Mapping[str, Collection[str]] = {}
    """Headings of the help, each with the names of its subcommands."""
    alone: bool = False
    """Whether the command without arguments prints its help."""
    foreign: Callable[[str], str] | None = None
    """Returns the error for a flag of another tool, or an empty text."""
    complete: Completion | None = None
    """Merges further sources, such as a config file, into the parsed arguments."""

    _source = ""
    """Source of the arguments, if not the command line; prefixed to errors."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse, and reject unknown arguments here, where the valid names are known."""
        words = sys.argv[1:] if args is None else args
        if self.alone and not words:
            write_message(self.format_help(), sys.stdout)
            self.exit()
        found, rest = self._parsed(words, namespace)
        end = rest.index("--") if "--" in rest else len(rest)
        unknown = [word for word in rest[:end] if word.startswith("-")]
        rest = [*rest[:end], *rest[end + 1 :]]
        if unknown:
            self.error(self._unknown(unknown[0].partition("=")[0]))
        if rest and not self.positions:
            self.error(UserMessage("unexpected arguments: {words}", words=" ".join(rest)))
        if self.positions:
            # argparse considers an optional list empty if a flag comes first, and returns what follows as the rest.
            setattr(found, self.positions, [*(getattr(found, self.positions) or []), *rest])
        if self.complete is not None:
            found = argparse.Namespace(**self.complete(self, dict(vars(found))))
        return found, []

    @property
    def positions(self) -> str:
        """The positional argument that takes any number of values, wherever they are among the flags."""
        taking = (action for action in self._get_positional_actions() if action.nargs == argparse.ZERO_OR_MORE)
        return next((action.dest for action in taking), "")

    def values(self, words: Sequence[str], source: str) -> dict[str, Any]:
        """Parse arguments from another source, without defaults; errors name the source."""
        self._source = f"{source}: "
        try:
            found, _ = self._parsed(words, argparse.Namespace())
            return {name: value for name, value in vars(found).items() if name != self.positions}
        finally:
            self._source = ""

    def _parsed(self, words: Sequence[str], namespace: Any) -> tuple[argparse.Namespace, list[str]]:
        self.exit_on_error = False  # raises errors as objects instead of formatted text
        spelled = self._spelled(words)
        flags = (word.partition("=")[0] for word in takewhile(lambda word: word != "--", spelled))
        unknown = [flag for flag in flags if flag.startswith("-") and flag not in self._option_string_actions]
        if self.foreign and (said := list(filter(None, map(self.foreign, dict.fromkeys(unknown))))):
            self.error(join(said, "\n"))
        try:
            return super().parse_known_args(spelled, namespace)
        except argparse.ArgumentError as error:
            message = UserMessage(error.message)
            for text in _NAMING:
                beginning = text.removesuffix("{names}")
                if error.message.startswith(beginning):
                    message = UserMessage(text, names=error.message.removeprefix(beginning))
            if error.argument_name is not None:
                message = UserMessage("argument {name}: {message}", name=error.argument_name, message=message)
            self.error(message)

    def error(self, message: str) -> NoReturn:
        """Print the error and a pointer to the help, and exit with 2."""
        text = "{program}: {where}{message}\nsee {program} --help\n"
        write_message(text, sys.stderr, program=self.prog, where=self._source, message=message)
        sys.exit(2)

    def format_help(self) -> str:
        """Show examples, then the common flags by group."""
        return self.describe(everything=not self.common)

    def describe(self, *, everything: bool) -> str:
        """Return the help, with all flags or the common ones."""
        head, groups = self._get_formatter(), self._get_formatter()
        head.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        head.add_text(self.description)
        shown: dict[str | None, list[argparse.Action]] = {title: [] for title in self.sections}
        for group in self._action_groups:
            for action in group._group_actions:
                flags = action.option_strings
                if self.sections and isinstance(action, argparse._SubParsersAction):
                    for title, names in self.sections.items():
                        shown[title] += [one for one in action._choices_actions if one.dest in names]
                elif everything or not flags or not self.common.isdisjoint(flags):
                    shown.setdefault(group.title, []).append(action)
        for heading, actions in shown.items():
            groups.start_section(heading)
            groups.add_arguments(actions)
            groups.end_section()
        if not everything:
            text = "These are the common flags. All of them: {program} --help-all"
            groups.add_text(UserMessage(text, program=self.prog))
        examples = "".join(f"  {self.prog} {line}\n" for line in self.examples)
        if examples:
            examples = f"\n{translate('examples:')}\n{examples}"
        return f"{head.format_help()}{examples}\n{groups.format_help()}"

    def _spelled(self, words: Iterable[str]) -> list[str]:
        """Spell known flags with hyphens; arguments after ``--`` stay as they are."""
        spelled, ended = [], False
        for word in words:
            name, equals, value = word.partition("=")
            ended = ended or word == "--"
            hyphens = name.replace("_", "-")
            known = any(option.startswith(hyphens) for option in self._option_string_actions)
            meant = not ended and name.startswith("--") and known
            spelled.append(f"{hyphens}{equals}{value}" if meant else word)
        return spelled

    def _get_option_tuples(self, option_string: str) -> Any:
        """Expand abbreviations, except to flags about secrets: ``--api-key SECRET`` is never accepted."""
        return [found for found in super()._get_option_tuples(option_string) if not _ABOUT_KEYS.search(found[1])]

    def _unknown(self, flag: str) -> str:
        about_keys = [name for name in sorted(self._option_string_actions) if _ABOUT_KEYS.search(name)]
        meant = [name for name in about_keys if name.startswith(flag.replace("_", "-"))]
        meant = meant or (about_keys if _ABOUT_KEYS.search(flag.replace("_", "-")) else [])
        if meant and flag != "--":
            text = "unknown flag {flag}; keep keys off the command line, name an environment variable with {known}"
            return UserMessage(text, flag=flag, known=meant[0])
        names = (name for name in self._option_string_actions if name.startswith("--"))
        near = nearest(flag.replace("_", "-"), names, count=1)
        if near:
            return UserMessage("unknown flag {flag}; did you mean {near}?", flag=flag, near=near[0])
        return UserMessage("unknown flag {flag}", flag=flag)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Parse a value; an invalid one may be a positional argument that a multi-value flag consumed."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if not isinstance(error.__context__, argparse.ArgumentTypeError):
                name = getattr(action.type, "__name__", repr(action.type))
                error.message = UserMessage("invalid {kind} value: {value!r}", kind=name, value=arg_string)
            if self.positions and not self._source and action.option_strings and action.nargs in LISTS:
                error.message = UserMessage(
                    "{reason}; {flag} takes several values: put positional arguments before it",
                    reason=error.message,
                    flag=action.option_strings[0],
                )
            raise

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Reject a value that is not one of the choices, suggesting the nearest."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = nearest(str(value), choices)
        if near:
            text = UserMessage("invalid choice: {value!r}; did you mean {near}?", value=value, near=" or ".join(near))
        else:
            known = ", ".join(filter(None, choices))
            text = UserMessage("invalid choice: {value!r}; choose from {choices}", value=value, choices=known)
        raise argparse.ArgumentError(action, text)


class HelpAll(argparse.Action):
    """``--help-all``: shows every flag."""

    def __init__(self, option_strings: Sequence[str], dest: str = argparse.SUPPRESS, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help="show all flags and exit")

    def __call__(self, parser: Any, *_: Any) -> None:
        """Print the help and exit."""
        write_message(parser.describe(everything=True), sys.stdout)
        parser.exit()


class HelpFormatter(argparse.HelpFormatter):
    """Shows defaults, except ``(default: None)``, and short metavars: ``--limit N``, ``--task TASK ...``."""

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        return {int: "N", float: "X"}.get(action.type, action.dest.rpartition("_")[2].upper())  # type: ignore[call-overload, no-any-return]

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """Add the usage line with a translated prefix."""
        super().add_usage(usage, actions, groups, f"{translate('usage:')} " if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        """Start a section with a translated heading."""
        super().start_section(heading and translate(heading))

    def add_text(self, text: str | None) -> None:
        """Add a translated paragraph."""
        super().add_text(text and translate(text))

    def _split_lines(self, text: str, width: int) -> list[str]:
        # argparse counts characters and splits at spaces; Chinese characters are two columns wide and have no spaces.
        return super()._split_lines(text, width) if text.isascii() else wrap(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.isascii():
            return super()._fill_text(text, width, indent)
        return "\n".join(indent + line for line in wrap(text, width - len(indent)))

    def _expand_help(self, action: argparse.Action) -> str:
        text = action.help if isinstance(action.help, UserMessage) else super()._expand_help(action)
        declared = getattr(action, "declared", None)  # the setting that a flag is derived from
        default = action.default if declared is None or action.default is not argparse.SUPPRESS else declared.default
        if action.nargs == 0 or default in (None, False, [], [""], "", argparse.SUPPRESS) or "(default: " in text:
            return translate(text)
        shown = " ".join(map(str, default)) if isinstance(default, list) else str(default)
        return translate(UserMessage("{help} (default: {value})", help=text, value=shown))

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs in LISTS:
            return "{} ...".format(*self._metavar_formatter(action, default_metavar)(1))
        return super()._format_args(action, default_metavar)
