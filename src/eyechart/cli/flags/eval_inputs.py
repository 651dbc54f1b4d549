"""Inputs of `eyechart eval` besides flags: config files, and which positional words are data or models."""

import argparse
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eyechart.cli.flags.parser import LISTS, CommandParser
from eyechart.datasets.catalogue import Catalogue, load_catalogue, user_files
from eyechart.datasets.questions.question_reader import find_questions, question_names
from eyechart.datasets.resolve import DEMO, TABLES, is_dataset, is_path, no_such_path
from eyechart.demo import MODELS
from eyechart.errors import UnknownNameError, UsageError, nearest, unknown_name
from eyechart.io.config_files import PARSERS, read_file
from eyechart.messages import UserMessage, join
from eyechart.models.family import families_in, open_clip_names
from eyechart.models.registry import FAMILIES, OWN_GENERATORS
from eyechart.models.resolve import CHECKPOINTS, HUB_ID, PREFIXES, collection_names, expand_collection
from eyechart.plugins import PYTHON
from eyechart.settings.declare import Setting
from eyechart.settings.evaluation import PAIRS
from eyechart.settings.tasks import task_flags

QUESTIONS = "questions"
"""A nested table of flags, as in `Config`."""
NOT_IN_FILES = frozenset({"help", "help_all", "config", "targets", "not", "negated"})


def read_config(parser: CommandParser, file: str) -> dict[str, Any]:
    """Read a config file: settings by their names in the command's namespace.

    Raises:
        UsageError: If it is not a mapping of known settings.
    """
    path = Path(file).expanduser()
    content = read_file(path, PARSERS)
    if not isinstance(content, Mapping):
        raise UsageError("{path} contains a list.", advice="It must map names of flags to values.", path=path)
    words: list[str] = []
    unparsed: dict[str, Any] = {}
    seen: set[str] = set()
    flags = _flags(parser)
    for name, value in _settings(content):
        if name not in flags:
            kind = UserMessage("setting in {path}", path=path)
            raise unknown_name(kind, name, flags, advice="See eyechart eval --help-all")
        if value is None:
            continue
        if flags[name].dest in seen - set(PAIRS):
            advice = "Check for an alias of the same setting."
            raise UsageError("{path} sets {name!r} twice.", advice=advice, path=path, name=name)
        seen.add(flags[name].dest)
        said = _words(flags[name], name, value, path)
        if said is None:
            unparsed[flags[name].dest] = value
        else:
            words += said
    return {**parser.values(words, str(path)), **unparsed}


def _flags(parser: CommandParser) -> dict[str, argparse.Action]:
    """Return the flags by every spelling, with underscores."""
    named = {option.lstrip("-"): action for option, action in parser._option_string_actions.items()}
    by_name = {name.replace("-", "_"): action for name, action in named.items() if len(name) > 1}
    by_setting = {action.dest: action for action in parser._actions if action.option_strings}
    return {name: action for name, action in {**by_setting, **by_name}.items() if name not in NOT_IN_FILES}


def _settings(content: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and values; entries of nested tables are flags, or become KEY=VALUE."""
    for key, value in content.items():
        name = str(key).removeprefix("--").replace("-", "_")
        if name == QUESTIONS and isinstance(value, Mapping):
            yield from _settings(value)
        elif name in PAIRS and isinstance(value, Mapping):
            own = {inner: one for inner, one in value.items() if name == "model_options" or inner not in task_flags()}
            yield from ((inner, one) for inner, one in value.items() if inner not in own)
            if own:
                yield name, [f"{inner}={json.dumps(one)}" for inner, one in own.items()]
        else:
            yield name, value


def _words(action: argparse.Action, name: str, value: Any, path: Path) -> list[str] | None:
    """Return a setting as command-line arguments; None if it has no such form and `Config` validates it."""
    flag = action.option_strings[0]
    declared: Setting = getattr(action, "declared", Setting())
    if isinstance(value, Mapping) or (isinstance(value, str) and action.nargs == 0 and declared.words):
        return None
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UsageError("{path}: {name} takes true or false.", path=path, name=name)
        if isinstance(action, argparse.BooleanOptionalAction):
            return [action.option_strings[0 if value else 1]]
        # `xlsx: false` is the flag --no-xlsx, whose const is the value of the setting.
        wanted = value == action.const if name == action.dest and isinstance(action.const, bool) else value
        return [flag] if wanted else []
    if isinstance(value, list):
        if action.nargs not in LISTS:
            raise UsageError("{path}: {name} takes one value, not a list.", path=path, name=name)
        return [flag, *(str(_plain(item, action, name, path)) for item in value)] if value else []
    if value is False and not declared.default:
        return []
    return [f"{flag}={_plain(value, action, name, path)}"]


def _plain(value: Any, action: argparse.Action, name: str, path: Path) -> Any:
    """Return a value in command-line form; YAML parses bare yes, no, on and off as booleans."""
    if not isinstance(value, bool):
        return value
    if action.choices and {"yes", "no"} <= set(action.choices):
        return "yes" if value else "no"
    if action.nargs == argparse.OPTIONAL:
        return action.const if value and not isinstance(action.const, bool) else str(value).lower()
    advice = "Quote words such as no and on, which YAML parses as booleans."
    text = "{path}: {name} cannot be {value}."
    raise UsageError(text, advice=advice, path=path, name=name, value=str(value).lower())


NEAR_MISS = 0.75
"""Similarity from which an unknown word is taken for a mistyped dataset; names of API models are below it."""
BY_FLAGS = "Specify which: {--dataset={word}} or {--model={word}}."
BY_LIST = "Specify which: {--dataset={word}} or {--pretrained_model={word}}."


def sort_targets(
    words: Sequence[str], flags: Collection[str], catalogue_files: Sequence[str], in_file: Collection[str] = ()
) -> dict[str, list[str]]:
    """Sort positional arguments into values of ``dataset`` and ``model``; a setting without values is left out.

    A single unknown word next to a dataset is a model, such as one that a server names.

    Raises:
        UsageError: If an argument could be both, is neither, or repeats one of the given flags.
    """
    catalogue = load_catalogue(user_files(catalogue_files))
    found: dict[str, list[str]] = {}
    kinds_by_word = {word: kinds_of(word, catalogue) for word in words}
    unknown = [word for word, kinds in kinds_by_word.items() if not kinds]
    has_data = "dataset" in {*flags, *in_file} or ["dataset"] in kinds_by_word.values()
    if unknown and (len(unknown) > 1 or not has_data or "model" in flags or _is_mistyped(unknown[0], catalogue)):
        raise _unknown(unknown[0], catalogue)
    for word in words:
        kinds = kinds_by_word[word] or ["model"]
        if len(kinds) > 1:
            advice = BY_LIST if Path(word).is_file() else BY_FLAGS
            raise UsageError("{word} could be a dataset or a model.", advice=advice, word=word)
        names = [word]
        if kinds == ["dataset"]:
            # Shells complete the name of a folder with a slash, which is not part of a dataset's name.
            names = [word.rstrip("/") or word]
        elif (pairs := expand_collection(word)) is not None:
            names = [f"{name}:{weights}" for name, weights in pairs]
        found.setdefault(kinds[0], []).extend(names)
    for flag, kind in {"dataset": "dataset", "model": "model", "pretrained_model": "model"}.items():
        if flag in flags and kind in found:
            advice = "Use positional arguments or flags, not both."
            text = "{names} and {--{flag}} both specify a {kind}."
            raise UsageError(text, advice=advice, names=" ".join(found[kind]), flag=flag, kind=kind)
    return found


def kinds_of(word: str, catalogue: Catalogue) -> list[str]:
    """Return what a word may name: ``dataset``, ``model``, both or neither."""
    path = Path(word).expanduser()
    if word in {*DEMO, *MODELS} and not path.exists():  # part of the package
        return ["dataset" if word in DEMO else "model"]
    named = is_dataset(word, catalogue) or word.startswith(PYTHON)
    if path.is_file():
        model_file = path.suffix in (".onnx", ".json", *CHECKPOINTS)
        data, model = named or not model_file, model_file or path.suffix.lower() == ".txt"  # a list of either
    elif path.is_dir() and any(families_in(path, role) for role in FAMILIES):
        data, model = named, True
    else:
        data, model = named or path.is_dir() or find_questions(word) is not None, _is_model(word, catalogue)
    return ["dataset"] * data + ["model"] * model


def _is_model(word: str, catalogue: Catalogue) -> bool:
    """Whether a word that is not the path of a model may name one."""
    if word.startswith((PYTHON, *PREFIXES)) or word in MODELS or word in collection_names():
        return True
    name, colon, tag = word.partition(":")
    if colon and len(name) > 1 and tag and not tag.startswith("//"):
        return True
    plugins = (name for families in FAMILIES.values() for name in families.names() if name not in families.built_in)
    if word.replace("/", "-") in open_clip_names() or word in (*plugins, *OWN_GENERATORS.names()):
        return True
    # A hub id is owner/name, and neither a path below an existing folder nor a dataset.
    return (
        HUB_ID.fullmatch(word) is not None
        and not is_dataset(word, catalogue)
        and is_path(word, catalogue)
        and not Path(word.partition("/")[0]).exists()
        and Path(word).suffix.lower() not in TABLES
    )


def _is_mistyped(word: str, catalogue: Catalogue) -> bool:
    """Whether an unknown word is a path, or close to a dataset's name (food101 if it is ``food``) or to data here."""
    begins = re.compile(rf"(?:.*/)?{re.escape(word)}[\d_.-]", re.IGNORECASE).match
    # A file or folder such as gpt-4o.log is named after a model.
    here = [item.name for item in Path().iterdir() if not begins(item.name) or item.suffix.lower() in TABLES]
    names = _data_names(catalogue)
    near = nearest(word, (*here, *names), cutoff=NEAR_MISS) or any(map(begins, names))
    return is_path(word, catalogue) or "," in word or bool(near)


def _data_names(catalogue: Catalogue) -> list[str]:
    return [*DEMO, *catalogue.spellings(), *question_names()]


def is_absent_path(word: str) -> bool:
    """Whether a word may be a mistyped path that was taken for a hub id."""
    return HUB_ID.fullmatch(word) is not None and not Path(word).exists()


def _unknown(word: str, catalogue: Catalogue) -> UsageError:
    if is_path(word, catalogue):
        return no_such_path(word)
    here = (item.name for item in Path().iterdir())
    near = nearest(word, (*here, *_data_names(catalogue), *MODELS, *open_clip_names()))
    name, comma, weights = word.partition(",")
    if comma and name in open_clip_names():  # the syntax of --pretrained-model
        near = [f"{name}:{weights}"]
    hint = UserMessage("Did you mean {names}?", names=" or ".join(near)) if near else ""
    advice = join((hint, UserMessage(BY_FLAGS, word=word)))
    return UnknownNameError("Unknown dataset, model or path: {word!r}.", advice=advice, word=word)
