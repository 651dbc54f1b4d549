"""Class names and prompt templates: user files, files of the dataset, the prompt pack, ImageNet's classes."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from eyechart.datasets import prompt_pack
from eyechart.datasets.row_dataset import describe
from eyechart.errors import DataError, UsageError
from eyechart.io.files import check_name
from eyechart.io.safe_parse import read_json, read_text, split_lines
from eyechart.languages import MAIN, find_same, is_main
from eyechart.messages import UserMessage
from eyechart.types import DatasetInfo, DatasetSpec, Kind, Notice

SUBSETS = {"imagenet-a": "a", "imagenet-r": "r", "imagenet-o": "o"}
N_CLASSES = 1000


@cache
def wnids() -> dict[str, str]:
    """Return the 1000 WordNet ids in class order, each with the letters of its subsets."""
    text = resources.files(__package__).joinpath("imagenet_wnids.txt").read_text(encoding="ascii")
    rows = (line.partition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {wnid: subsets for wnid, _, subsets in rows}


def subset_indices(name: str) -> tuple[int, ...]:
    """Return the ImageNet class indices of a subset such as imagenet-a, ascending; without a name, all."""
    letter = SUBSETS.get(name, "")
    return tuple(i for i, subsets in enumerate(wnids().values()) if letter in subsets)


_SPACE = " \t\r\u00a0\u3000"
"""Stripped from an entry; other whitespace characters are kept."""


def languages_in(folder: Path, stem: str = "classnames") -> list[str]:
    """List the languages for which a folder has a list."""
    found = {MAIN} if (folder / f"{stem}.txt").is_file() else set()
    found |= {path.name[len(stem) + 1 : -len(".txt")] for path in folder.glob(f"{stem}.*.txt")}
    return sorted(found)


def list_for(folder: Path, stem: str, language: str, *, allow_blank: bool = False) -> tuple[str, ...]:
    """Read ``stem.txt`` (English) or ``stem.de.txt``; the language code may have any spelling."""
    own = find_same(language, languages_in(folder, stem))
    if own is None:
        return ()
    plain = folder / f"{stem}.txt"
    path = plain if is_main(own) and plain.is_file() else folder / f"{stem}.{own}.txt"
    return read_lines(path, allow_blank=allow_blank)


def parse_lines(text: str) -> list[str]:
    """Split a text into stripped entries, one per line."""
    return [line.strip(_SPACE) for line in split_lines(text)]


def read_lines(path: Path, *, allow_blank: bool = False) -> tuple[str, ...]:
    """Read one stripped entry per line. A blank line would be a phantom entry, so it is an error."""
    lines = parse_lines(read_text(path))
    for number, line in enumerate(lines, 1):
        if not line and not allow_blank:
            raise DataError(
                "{path}, line {n}: a blank line would be a class without a name.",
                advice="Remove the line. If a class really has an empty name, use {--allow_blank_classnames}.",
                path=path,
                n=number,
            )
    return tuple(lines)


def find_entry(file: str, keys: Sequence[str], *, fallback: str = "", offline: bool = False) -> tuple[Any, str]:
    """Read a user file and return its entry for a dataset, and the key of that entry.

    The file is a plain list, or JSON: a list, or a mapping from dataset name to its entry. The name of a file of the
    prompt pack selects that file. ``keys`` are looked up in order, then ``fallback``.
    """
    path = Path(file)
    if path.is_file():
        content = read_json(path, UsageError) if path.suffix == ".json" else list(read_lines(path))
    elif file in prompt_pack.digests():
        content = prompt_pack.read_member(file, offline=offline)
    else:
        raise UsageError("There is no file {path}.", advice="Check the path after --custom_*_file.", path=path)
    if not isinstance(content, dict):
        return content, ""
    for key in (*keys, fallback):
        if key in content:
            return content[key], key
    raise UsageError(
        "{path} has no entry for {first!r}.",
        advice="Searched for {keys}; it contains {content}.",
        path=path,
        first=keys[0],
        keys=", ".join(keys),
        content=", ".join(sorted(content)[:10]),
    )


def as_names(entry: Any, file: str, *, allow_blank: bool) -> tuple[str, ...]:
    """Check that an entry is a list of class names."""
    if not isinstance(entry, list) or not all(isinstance(name, str) for name in entry):
        raise UsageError("{file}: class names must be a list of texts.", file=file)
    blank = [i for i, name in enumerate(entry) if not name.strip()]
    if blank and not allow_blank:
        raise DataError(
            "{file}: class {first} has no name.",
            advice="If that is intended, use {--allow_blank_classnames}.",
            file=file,
            first=blank[0],
        )
    return tuple(entry)


def as_templates(entry: Any, file: str) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Accept a list of templates, or a mapping from class name to its prompts."""
    if isinstance(entry, list) and entry and all(isinstance(text, str) for text in entry):
        return tuple(entry), {}
    if isinstance(entry, dict) and all(isinstance(texts, list) and texts for texts in entry.values()):
        if not all(isinstance(text, str) and text.strip() for texts in entry.values() for text in texts):
            raise UsageError("{file}: a class prompt is blank or not text.", file=file)
        return (), {name: tuple(texts) for name, texts in entry.items()}
    raise UsageError(
        "{file}: templates must be a list of texts, or a mapping from class name to a list of texts.",
        advice="None of the lists may be empty.",
        file=file,
    )


CLASSNAMES = "classnames"
TEMPLATES = "zeroshot_classification_templates"
DEFAULT_TEMPLATES = ("a photo of a {c}.",)
DEFAULT_KEY = "imagenet1k"
"""The dataset whose templates are used for named datasets without their own, as is usual in the CLIP literature."""


@dataclass(frozen=True)
class ClassTexts:
    """Names and prompts of a dataset's classes in one language."""

    classnames: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    class_prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[Notice, ...] = ()


def read_class_texts(folder: Path | None, spec: DatasetSpec, names: tuple[str, ...] = ()) -> ClassTexts:
    """Collect names and templates: from user files, the folder (``classnames.de.txt``), the catalogue, the reader.

    ``names`` are those that the reader found (folder names), in English.
    """
    prompts = spec.options.get("prompts") or {}
    classnames = _classnames(folder, spec, names, prompts)
    subset = prompts.get("subset")
    if subset and len(classnames) == N_CLASSES:
        classnames = tuple(classnames[i] for i in subset_indices(subset))
    return replace(_templates(folder, spec, prompts, has_classes=bool(classnames)), classnames=classnames)


def class_info(spec: DatasetSpec, kind: Kind, texts: ClassTexts, source: object) -> DatasetInfo:
    """Describe a dataset with classes."""
    for name in texts.classnames:
        check_name(name, f"{spec.name}: the class name")
    return replace(
        describe(spec, kind, source),
        classnames=texts.classnames,
        templates=texts.templates,
        class_prompts=texts.class_prompts,
        notes=texts.notes,
    )


def check_order(where: str, names: tuple[str, ...], listed: tuple[str, ...]) -> None:
    """Reject a list of class names whose order contradicts the names in the data, which are sorted."""
    numbers = [int(name) for name in names if name.isdecimal() and len(name) < 10]
    if listed != names and len(numbers) == len(names) and numbers != sorted(numbers):
        raise DataError(
            "{where} are numbers whose text order is not numeric: {names}, ...",
            advice="A list of names could follow either order: use numbers of the same length (00, 01, ...).",
            where=where,
            names=", ".join(names[:4]),
        )
    places: dict[str, set[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(_letters(name), set()).add(place)
    for place, name in enumerate(listed):
        if place not in places.get(_letters(name), {place}):
            raise DataError(
                "{where} are listed in a different order: {name!r} is at the position of {expected!r}.",
                advice="The list must have one name for each of them, in sorted order: sort it, or remove it.",
                where=where,
                name=name,
                expected=names[place],
            )


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _classnames(
    folder: Path | None, spec: DatasetSpec, names: tuple[str, ...], prompts: Mapping[str, Any]
) -> tuple[str, ...]:
    own = spec.options.get("classname_file")
    blank = bool(spec.options.get("allow_blank_classnames"))
    offline = bool(spec.options.get("offline"))
    if own:
        entry, _ = find_entry(own, _keys(spec, prompts.get("classnames", "")), offline=offline)
        given = as_names(entry, own, allow_blank=blank or own in prompt_pack.digests())
        _check_permutation(folder, spec, given, tuple(prompts.get("own_classnames") or names))
        return given
    listed = list_for(folder, CLASSNAMES, spec.language, allow_blank=blank) if folder else ()
    if listed:
        return listed
    if prompts.get("own_classnames") and is_main(spec.language):
        return tuple(prompts["own_classnames"])
    if prompts.get("classnames"):
        packed = prompt_pack.classnames(prompts["classnames"], spec.language, offline=offline)
        if packed:
            return packed
    return names if is_main(spec.language) else ()


def _check_permutation(folder: Path | None, spec: DatasetSpec, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Reject the dataset's own names in a different order: labels are positions, so each would name another class."""
    with suppress(DataError):
        known = (list_for(folder, CLASSNAMES, spec.language, allow_blank=True) if folder else ()) or known
    turned = next((pair for pair in zip(given, known, strict=False) if _letters(pair[0]) != _letters(pair[1])), None)
    if turned and sorted(map(_letters, given)) == sorted(map(_letters, known)):
        raise DataError(
            "{name}: the list has the dataset's class names in a different order: {first!r} is at the position "
            "of {expected!r}.",
            advice="Labels are positions in the list: keep the order of the dataset.",
            name=spec.name,
            first=turned[0],
            expected=turned[1],
        )


def _templates(folder: Path | None, spec: DatasetSpec, prompts: Mapping[str, Any], *, has_classes: bool) -> ClassTexts:
    own = spec.options.get("template_file")
    if own:
        keys = _keys(spec, prompts.get("templates", ""))
        entry, key = find_entry(own, keys, fallback=DEFAULT_KEY, offline=bool(spec.options.get("offline")))
        templates, class_prompts = as_templates(entry, own)
        borrowed = key == DEFAULT_KEY and DEFAULT_KEY not in keys
        return ClassTexts((), templates, class_prompts, (_borrowed(spec, own),) if borrowed else ())
    listed = list_for(folder, TEMPLATES, spec.language) if folder else ()
    if listed:
        return ClassTexts(templates=listed)
    if prompts.get("own_templates") and is_main(spec.language):
        return ClassTexts(templates=tuple(prompts["own_templates"]))
    if has_classes and prompts:
        return _packed_templates(spec, prompts)
    if not has_classes or not is_main(spec.language):
        return ClassTexts()
    text = UserMessage("{name} has no templates: using {pattern!r}.", name=spec.name, pattern=DEFAULT_TEMPLATES[0])
    return ClassTexts(templates=DEFAULT_TEMPLATES, notes=(Notice("default_templates", 1, text),))


def _packed_templates(spec: DatasetSpec, prompts: Mapping[str, Any]) -> ClassTexts:
    offline = bool(spec.options.get("offline"))
    if not prompts.get("fallback"):
        found = prompt_pack.templates(prompts.get("templates", ""), spec.language, offline=offline)
        if found:
            return ClassTexts(templates=found)
    borrowed = prompt_pack.templates(DEFAULT_KEY, spec.language, offline=offline)
    if not borrowed:
        return ClassTexts()
    return ClassTexts(templates=borrowed, notes=(_borrowed(spec, UserMessage("the prompt pack")),))


def _borrowed(spec: DatasetSpec, where: str) -> Notice:
    template = "{name} has no templates in {where}: using those of {other}."
    return Notice("fallback_templates", 1, UserMessage(template, name=spec.name, where=where, other=DEFAULT_KEY))


def _keys(spec: DatasetSpec, key: str) -> list[str]:
    """Return candidate keys of a user file: wds/vtab/x, vtab/x, x, then the catalogue's key."""
    parts = spec.name.split("/")
    forms = ["/".join(parts[i:]) for i in range(len(parts))]
    known = spec.options.get("entry", "")
    return list(dict.fromkeys(form for form in (*forms, known, key) if form))
