"""What holds for ``eval`` besides its flags: words at positions, and a config file under all of them."""

from __future__ import annotations

from typing import Any

from eyechart.cli.flags.parser import CommandParser
from eyechart.errors import UsageError

INSTEAD = {
    "model": ("pretrained_model",),
    "pretrained_model": ("model", "pretrained"),
    "precision": ("amp", "no_amp"),
    "amp": ("precision",),
    "no_amp": ("precision",),
}
"""What a setting of the command line replaces in a file besides itself: they say the same in other words."""

NAMING = {"dataset": {"dataset"}, "model": {"model", "pretrained", "pretrained_model"}}
"""The settings that name data and models."""
PAIRS = ("model_option", "task_option")
"""KEY=VALUE: those of the command line are added to those of a file."""


def complete(parser: CommandParser, given: dict[str, Any]) -> dict[str, Any]:
    """Return what was given on the command line, and what positions and a config file give besides it.

    Args:
        parser: Of the command.
        given: What is on the command line. It wins over the file; flags and words for the same thing are refused.

    Raises:
        UsageError: If words are unclear, or the file holds something else than settings.
    """
    words, file = given["targets"], given.get("config")
    if not words and not file:
        _check_lists(given, given)
        return given
    below = _of_file(parser, file) if file else {}
    said = _of_words(words, given, given.get("catalogue") or below.get("catalogue") or []) if words else {}
    _check_lists(given, {**below, **said, **given})
    if words and not {"dataset"} & {*said, *given, *below}:
        are = "is a model" if len(words) == 1 else "are models"
        raise UsageError(
            f"{' and '.join(words)} {are} by name, and no dataset is given.",
            advice="Name a folder or a table that is there, or a dataset, or use --dataset.",
        )
    for name in (*given, *said):
        for other in (*INSTEAD.get(name, ()), *_exclusive(parser, name)):
            below.pop(other, None)
    options = {
        name: [*below.get(name, []), *given[name]] for name in PAIRS if name in given
    }  # the last of a key counts
    return below | said | given | options


def _of_words(words: list[str], given: dict[str, Any], catalogue: list[str]) -> dict[str, Any]:
    from eyechart.cli.flags.positions import sort_targets

    said = sort_targets(words, catalogue)
    for kind, names in said.items():
        for flag in (kind, *(("pretrained_model",) if kind == "model" else ())):
            if flag in given:
                raise UsageError(
                    f"{' '.join(names)} and --{flag.replace('_', '-')} both name a {kind}.",
                    advice="Name them all in one way.",
                )
    return said


def _check_lists(given: dict[str, Any], known: dict[str, Any]) -> None:
    """Refuse a word that stands after a flag of several values, which took it, while a default stands for the word."""
    missing = [kind for kind, names in NAMING.items() if not names & known.keys()]
    behind = [
        (name, str(value))
        for name, values in given.items()
        if isinstance(values, list) and name not in {"targets", *PAIRS}.union(*NAMING.values())
        for value in values[1:]
    ]
    if not missing or not behind:
        return
    from eyechart.cli.flags.positions import kinds_of

    for name, value in behind:
        kind = next((kind for kind in kinds_of(value, given.get("catalogue") or []) if kind in missing), None)
        if kind:
            raise UsageError(
                f"--{name.replace('_', '-')} takes several values, and took {value}, which is a {kind} by name.",
                advice=f"Put {value} before the flags, or write --{kind} {value}.",
            )


def _of_file(parser: CommandParser, file: str) -> dict[str, Any]:
    from eyechart.cli.flags.config_file import read_config

    return read_config(parser, file)


def _exclusive(parser: CommandParser, name: str) -> set[str]:
    """List the settings that cannot stand beside one."""
    groups = [{action.dest for action in group._group_actions} for group in parser._mutually_exclusive_groups]
    return set().union(*(group - {name} for group in groups if name in group))
