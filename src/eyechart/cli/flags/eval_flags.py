"""The flags of `eyechart eval`, from declared settings to the parser and back."""

import argparse
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, get_origin

from eyechart.cli.flags.parser import CommandParser, HelpAll, table
from eyechart.errors import UsageError
from eyechart.messages import UserMessage, join
from eyechart.settings.declare import Setting, Settings, command_line_type
from eyechart.settings.evaluation import EVALUATION, PAIRS, TOP, CommandSettings
from eyechart.settings.generation import QuestionSettings
from eyechart.settings.presets import NOT_NUMBERS, PRESETS, filled
from eyechart.settings.tasks import TASKS, nested_settings, task_flags

INSTEAD = {"model": ("pretrained_model",), "pretrained_model": ("model", "pretrained")}
"""Settings of a config file that a command-line setting also overrides: equivalent forms of it."""

NAMING = {"dataset": {"dataset"}, "model": {"model", "pretrained", "pretrained_model"}}
"""Settings that name datasets and models."""


def complete(parser: CommandParser, given: dict[str, Any]) -> dict[str, Any]:
    """Merge positional arguments and a config file into the settings given by flags, which take precedence.

    Raises:
        UsageError: If positional arguments are ambiguous or repeat a flag, or the file is not a valid config file.
    """
    words, file = given["targets"], given.get("config")
    if not words and not file:
        if given.keys() == {"targets"} and parser.prog.split()[0] != CLIP_BENCHMARK:
            advice = "For example: `eyechart eval {example}`"
            raise UsageError("No dataset and no model given.", advice=advice, example=EXAMPLES[0])
        _check_lists(given, given)
        return given
    from eyechart.cli.flags.eval_inputs import is_absent_path, read_config, sort_targets

    below = read_config(parser, file) if file else {}
    said = sort_targets(words, given, given.get("catalogue") or below.get("catalogue") or [], below)
    _check_lists(given, {**below, **said, **given})
    if words and "dataset" not in {*said, *given, *below}:
        absent = next(filter(is_absent_path, words), "")
        raise UsageError(
            "No dataset given: there is no folder or file {absent}, so it is taken for a model on a hub."
            if absent
            else "No dataset given, only models: {words}.",
            advice="Add the name of a dataset or the path of an existing folder or table, or use {--dataset}.",
            words=", ".join(words),
            absent=absent,
        )
    exclusive = [{action.dest for action in group._group_actions} for group in parser._mutually_exclusive_groups]
    for name in (*given, *said):
        for other in set(INSTEAD.get(name, ())).union(*(group - {name} for group in exclusive if name in group)):
            below.pop(other, None)
    # Pairs of the command line are added to those of the file; the last of a key counts.
    pairs = {name: [*below.get(name, []), *given[name]] for name in PAIRS if name in given}
    return below | said | given | pairs


def _check_lists(given: dict[str, Any], known: dict[str, Any]) -> None:
    """Reject a positional argument that a multi-value flag before it has consumed, which a default would replace."""
    missing = [kind for kind, names in NAMING.items() if not names & known.keys()]
    behind = [
        (name, str(value))
        for name, values in given.items()
        if isinstance(values, list) and name not in {"targets", *PAIRS}.union(*NAMING.values())
        for value in values[1:]
    ]
    if not missing or not behind:
        return
    from eyechart.cli.flags.eval_inputs import kinds_of
    from eyechart.datasets.catalogue import load_catalogue, user_files

    catalogue = load_catalogue(user_files(given.get("catalogue") or []))
    for name, value in behind:
        kind = next((kind for kind in kinds_of(value, catalogue) if kind in missing), None)
        if kind:
            raise UsageError(
                "{--{flag}} takes several values and consumed {word}, which is a known {kind}.",
                advice="Put {word} before the flags, or write {--{kind}={word}}.",
                flag=name,
                word=value,
                kind=kind,
            )


CLIP_BENCHMARK = "clip_benchmark"
"""Name of the command that applies CLIP_benchmark's defaults."""


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the given flags as values of `eyechart.config.Config`."""
    given = vars(args)
    tables = {name: dict(given[name]) for name in PAIRS if name in given}
    values = nested_settings(given | tables)
    if args.program == CLIP_BENCHMARK:
        defaults = {**PRESETS[CLIP_BENCHMARK], **PRESETS[filled(values)["preset"]]}
        values = {name: defaults[name] for name in NOT_NUMBERS} | values
    return values


EXAMPLES = (
    "photos/ ViT-B-32:openai",
    "cifar10 imagenet1k ViT-B-32:openai ViT-L-14:openai --device cuda",
    "--dataset captions.csv --model google/siglip-base-patch16-224",
    "MMBench_DEV_EN Qwen/Qwen2.5-VL-3B-Instruct --limit 100",
    "--config eval.yaml --dry-run",
)
SWITCHES: dict[str, Any] = {"on": "store_true", "off": "store_false", "both": argparse.BooleanOptionalAction}
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def eval_settings() -> Iterator[tuple[str, Setting, Any]]:
    """Yield name, declaration and type of every setting of the command, in help order."""
    command = list(settings_in(CommandSettings))
    yield from ((name, one, kind) for name, one, kind in command if one.group == TOP)
    for owner in EVALUATION:
        yield from settings_in(owner)
    types = {name: kind for task in TASKS for name, kind in task.types().items()}
    yield from ((name, one, types[name]) for name, one in task_flags().items())
    yield from ((name, one, kind) for name, one, kind in command if one.group != TOP)
    yield from settings_in(QuestionSettings)


def settings_in(owner: type[Settings]) -> Iterator[tuple[str, Setting, Any]]:
    """Yield name, declaration and type of the settings of a class that have flags."""
    for name, one in owner.fields().items():
        if one.surface == "flag":
            yield name, one, owner.types()[name]


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments of the command."""
    parser.usage = "%(prog)s [DATASET ...] [MODEL ...] [FLAGS]"
    parser.examples, parser.complete, parser.foreign = EXAMPLES, complete, foreign_flag
    about = "datasets (folders, tables, names) and models (name:weights, folders, hub ids)"
    parser.add_argument("targets", nargs="*", metavar="DATASET or MODEL", help=about)
    parser.add_argument("--help-all", action=HelpAll)
    about = "YAML, TOML or JSON file of flags; flags override it"
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=about)
    groups: dict[str, Any] = {TOP: parser}
    exclusive: dict[str, Any] = {}
    for name, one, kind in eval_settings():
        group = groups.get(one.group) or groups.setdefault(one.group, parser.add_argument_group(one.group))
        word = one.excludes or (name if one.constants else "")
        if word:
            group = exclusive.get(word) or exclusive.setdefault(word, group.add_mutually_exclusive_group())
        add_flag(group, name, one, kind)
        parser.common |= {f"--{(one.flag_name or name).replace('_', '-')}"} if one.common else set()
    parser.common |= {"--help", "--help-all", "--config"}
    if parser.prog.split()[0] == CLIP_BENCHMARK:
        _describe_clip_benchmark(parser)


def foreign_flag(flag: str) -> str:
    """Return what a flag of other tools is called here; empty if it is none of theirs."""
    meanings: dict[str, list[str]] = {}
    for tool, flags in table("other_tools").items():
        meaning = flags.get(flag.lstrip("-").replace("_", "-"))
        if meaning and (len(flag) == 2) == (not flag.startswith("--")):
            meanings.setdefault(meaning, []).append(tool)
    said = []
    for meaning, tools in meanings.items():
        text = "{tool}'s {flag} is {meaning} here"
        text = text if meaning[0] == "-" else "{tool}'s {flag} is not a flag here: {meaning}"
        said.append(UserMessage(text, tool="/".join(tools), flag=flag, meaning=UserMessage(meaning)))
    return join(said, "; ")


def _describe_clip_benchmark(parser: CommandParser) -> None:
    """Show what differs under the name of CLIP_benchmark: the defaults of `settings_of`, and its ``--quiet``."""
    words = {
        "quiet": "print only errors",
        "thumbnails": "store thumbnails of the N worst errors for reports (default: none)",
    }
    for action in parser._actions:
        action.help = words.get(action.dest, action.help) if action.help != argparse.SUPPRESS else action.help
        if action.dest == "output":
            text = "result file, or folder if it exists or ends with / (default: {name})"
            action.help = UserMessage(text, name=PRESETS[CLIP_BENCHMARK]["output"])


def add_flags(group: Any, owner: type[Settings], names: Collection[str] = ()) -> None:
    """Add all or some flags of a settings class to another command, with their defaults."""
    for name, one, kind in settings_in(owner):
        if not names or name in names:
            add_flag(group, name, replace(one, constants={}), kind, default=one.default)


def add_flag(group: Any, name: str, one: Setting, kind: Any, default: Any = argparse.SUPPRESS) -> None:
    """Add the flag of a setting; without a default, the namespace contains it only if it is given."""
    flags = (f"--{(one.flag_name or name).replace('_', '-')}", *one.flags)
    if one.switch == "off":
        flags = (f"--no-{name.replace('_', '-')}",)
    form: dict[str, Any] = {"dest": name, "default": default, "help": argparse.SUPPRESS if one.hidden else one.help}
    if one.metavar:
        form["metavar"] = one.metavar
    read, choices = command_line_type(kind)
    if read is bool and one.bare is None:
        form["action"] = SWITCHES[one.switch]
    elif read is not str:
        form["type"] = {dict: option_of, bool: _flag}.get(read, read)
    if choices is not None and read is not str:
        form["type"] = partial(_number_or_word, read, choices)
    elif choices is not None:
        form["choices"] = [choice for choice in choices if choice or one.bare is None]
    if one.bare is not None:
        form |= {"nargs": argparse.OPTIONAL, "const": one.bare}
    elif read is dict or get_origin(kind) is list or one.per_dataset:
        form["nargs"] = argparse.ONE_OR_MORE
    action = group.add_argument(*flags, **form)
    action.declared = one  # read by the help formatter and by config files
    for flag, (value, text) in one.constants.items():
        group.add_argument(flag, action="store_const", dest=name, const=value, default=default, help=text)


def _number_or_word(number: Callable[[str], Any], words: Collection[Any], text: str) -> Any:
    try:
        return text if text in words else number(text)
    except ValueError:
        expected = " or ".join(["a number", *map(str, words)])
        raise argparse.ArgumentTypeError(f"invalid value: {text!r} (expected {expected})") from None


def option_of(text: str) -> tuple[str, Any]:
    """Parse ``key=value``; the value is JSON if it can be."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(
            "{text!r} is not KEY=VALUE.", advice="{--model_option} and {--task_option} take KEY=VALUE.", text=text
        )
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _flag(text: str) -> bool:
    """Parse a boolean: ``--normalize False`` is false."""
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise argparse.ArgumentTypeError(UserMessage("{text!r} is neither true nor false", text=text))
