"""``eyechart completion SHELL``: a completion script generated from the parser."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from eyechart.io.terminal import write_output

MOST_LETTERS = 2000
"""Length of a list of names above which it is offered only after the first letter of a word."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.description = "Print a completion script. In bash: source <(eyechart completion bash)"
    parser.add_argument("shell", choices=list(SCRIPTS), help="shell to complete in")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    write_output(SCRIPTS[args.shell](list(_commands())), sys.stdout)
    return 0


@dataclass(frozen=True)
class CompletedCommand:
    """Completions of a command."""

    path: str
    """Path of the command: ``/eval``, ``/vlm/convert``; empty for the program itself."""
    words: Sequence[str]
    """Positional arguments other than files."""
    flags: Mapping[str, Sequence[str]]
    """Values by flag; empty if any value is possible."""
    about: Mapping[str, str]


def _commands() -> Iterator[CompletedCommand]:
    from eyechart.cli import COMMANDS, make_parser

    yield CompletedCommand("", list(COMMANDS), {"--help": (), "--version": ()}, {})
    names = _names()
    for command in COMMANDS:
        (sub,) = (a for a in make_parser("eyechart", command)._actions if isinstance(a, argparse._SubParsersAction))
        yield from _inside(sub.choices[command], f"/{command}", names)


def _inside(parser: argparse.ArgumentParser, path: str, names: dict[str, list[str]]) -> Iterator[CompletedCommand]:
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    values = {action: [str(name) for name in (action.choices or names.get(action.dest) or ())] for action in shown}
    flags = {option: values[action] for action in shown for option in action.option_strings if option.startswith("--")}
    words = [word for action in shown if not action.option_strings for word in values[action]]
    about = {option: action.help or "" for action in shown for option in action.option_strings}
    yield CompletedCommand(path, words, flags, about)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from _inside(inner, f"{path}/{name}", names)


def _names() -> dict[str, list[str]]:
    from eyechart.datasets.catalogue import load_catalogue, user_files
    from eyechart.datasets.questions.question_reader import question_names
    from eyechart.datasets.resolve import DEMO
    from eyechart.models.registry import ENCODERS
    from eyechart.models.resolve import known_models
    from eyechart.tasks.registry import TASKS

    catalogue = load_catalogue(user_files())
    datasets = [*DEMO, *catalogue.entries, *catalogue.collections, *question_names()]
    models = [name for name, _, _ in known_models()]
    return {
        "targets": [*datasets, *models],
        "name": [*datasets, *models],
        "dataset": datasets,
        "collection": list(catalogue.collections),
        "model": models,
        "model_type": ENCODERS.names(),
        "task": TASKS.names(),
    }


def _bash(commands: Sequence[CompletedCommand]) -> str:
    values = [
        f'    "{one.path} {flag}") words="{_joined(known)}" ;;'
        for one in commands
        for flag, known in one.flags.items()
        if known
    ]
    script = files(__package__).joinpath("completion.bash").read_text(encoding="utf-8")
    script = script.replace("@paths@", "|".join(one.path for one in commands if one.path))
    script = script.replace("@values@", "\n".join(values)).replace("@most@", str(MOST_LETTERS))
    for name in ("flags", "words"):
        lines = [f'            "{one.path}") words="{_joined(getattr(one, name))}" ;;' for one in commands]
        script = script.replace(f"@{name}@", "\n".join(lines))
    return script


def _zsh(commands: Sequence[CompletedCommand]) -> str:
    return f"autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: Sequence[CompletedCommand]) -> str:
    lines = []
    for one in commands:
        seen = [f"__fish_seen_subcommand_from {part}" for part in one.path.split("/") if part]
        when = "; and ".join(seen) or "__fish_use_subcommand"
        if one.words:
            lines.append(f"complete -c eyechart -n '{when}{_begun(one.words)}' -a '{_joined(one.words)}'")
        for flag, known in one.flags.items():
            values = f" -xa '{_joined(known)}'" if known else ""
            about = one.about.get(flag, "").replace("\\", "").replace("'", "")
            lines.append(
                f"complete -c eyechart -n '{when}{_begun(known)}' -l {flag.removeprefix('--')} -d '{about}'{values}"
            )
    return "\n".join(lines) + "\n"


def _begun(words: Iterable[str]) -> str:
    """Return fish's condition that a long list is offered only after the first letter."""
    return "; and string length -q -- (commandline -ct)" if len(_joined(words)) > MOST_LETTERS else ""


def _joined(words: Iterable[str]) -> str:
    """Join names, leaving out those with shell metacharacters."""
    return " ".join(word for word in dict.fromkeys(words) if word and not set(word) & set(" \"'$`\\!*?;&|<>()"))


SCRIPTS: dict[str, Callable[[Sequence[CompletedCommand]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
