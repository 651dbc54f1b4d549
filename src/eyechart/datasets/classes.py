"""Class names and prompt templates: the user's own files, lists in a dataset's folder, and the prompt pack."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eyechart.datasets import prompt_pack
from eyechart.datasets.imagenet_classes import N_CLASSES, subset_indices
from eyechart.datasets.rows import describe
from eyechart.datasets.text_lists import as_names, as_templates, find_entry, list_for
from eyechart.errors import DataError
from eyechart.io.names import check_name
from eyechart.languages import is_main
from eyechart.types import DatasetInfo, DatasetSpec, Kind, Notice

CLASSNAMES = "classnames"
TEMPLATES = "zeroshot_classification_templates"
DEFAULT_TEMPLATES = ("a photo of a {c}.",)
DEFAULT_KEY = "imagenet1k"
"""Whose templates are used for a named dataset that has none of its own, as everywhere in the CLIP literature."""


@dataclass(frozen=True)
class ClassTexts:
    """The names and prompts of a dataset's classes in one language."""

    classnames: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    class_prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[Notice, ...] = ()


def read_class_texts(folder: Path | None, spec: DatasetSpec, names: tuple[str, ...] = ()) -> ClassTexts:
    """Collect names and templates: the user's files, those in the folder, the catalogue's, then what the reader knows.

    Args:
        folder: Where ``classnames.txt`` and ``zeroshot_classification_templates.txt`` may lie; for another
            language than English, ``classnames.de.txt`` and so on.
        spec: The options ``classname_file``, ``template_file``, ``allow_blank_classnames`` and ``prompts`` count.
        names: Class names that the reader found itself (folder names), in English.
    """
    classnames = _classnames(folder, spec, names)
    subset = _prompts(spec).get("subset")
    if subset and len(classnames) == N_CLASSES:
        classnames = tuple(classnames[i] for i in subset_indices(subset))
    return replace(_templates(folder, spec, has_classes=bool(classnames)), classnames=classnames)


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
    """Refuse a list of class names whose order is plainly not that of the names in the data, which are sorted.

    Raises:
        DataError: If a name stands where another class is, however it is spelt, or if the data name numbers and their
            sorted order (0, 1, 10, 2) is not that of a list by number.
    """
    numbers = [int(name) for name in names if name.isdecimal() and len(name) < 10]
    if listed != names and len(numbers) == len(names) and numbers != sorted(numbers):
        raise DataError(
            f"{where} are numbers, which as texts stand in another order: {', '.join(names[:4])}, ...",
            advice="A list of names may mean either order: write numbers of the same length (00, 01, ...).",
        )
    places: dict[str, set[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(_letters(name), set()).add(place)
    for place, name in enumerate(listed):
        if place not in places.get(_letters(name), {place}):
            raise DataError(
                f"{where} are listed in another order: {name!r} stands where {names[place]!r} is.",
                advice="The list has a name for each of them in sorted order: sort it, or remove it.",
            )


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _classnames(folder: Path | None, spec: DatasetSpec, names: tuple[str, ...]) -> tuple[str, ...]:
    own = spec.options.get("classname_file")
    blank = bool(spec.options.get("allow_blank_classnames"))
    prompts = _prompts(spec)
    if own:
        entry, _ = find_entry(own, _keys(spec, prompts.get("classnames", "")), offline=_offline(spec))
        given = as_names(entry, own, allow_blank=blank or prompt_pack.has_member(own))
        _refuse_turned(spec, given, _known_names(folder, spec, names))
        return given
    listed = list_for(folder, CLASSNAMES, spec.language, allow_blank=blank) if folder else ()
    if listed:
        return listed
    if prompts.get("own_classnames") and is_main(spec.language):
        return tuple(prompts["own_classnames"])
    if prompts.get("classnames"):
        packed = prompt_pack.classnames(prompts["classnames"], spec.language, offline=_offline(spec))
        if packed:
            return packed
    return names if is_main(spec.language) else ()


def _known_names(folder: Path | None, spec: DatasetSpec, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that a list of the user replaces, as far as they lie at hand and can be read."""
    listed: tuple[str, ...] = ()
    with suppress(DataError):
        listed = list_for(folder, CLASSNAMES, spec.language, allow_blank=True) if folder else ()
    return listed or tuple(_prompts(spec).get("own_classnames") or names)


def _refuse_turned(spec: DatasetSpec, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Refuse the very names of a dataset in another order: labels are numbers, so each would mean another class."""
    turned = next((pair for pair in zip(given, known, strict=False) if _letters(pair[0]) != _letters(pair[1])), None)
    if turned and sorted(map(_letters, given)) == sorted(map(_letters, known)):
        raise DataError(
            f"{spec.name}: the list has the dataset's own class names in another order: {turned[0]!r} stands where "
            f"{turned[1]!r} is.",
            advice="Labels are places in the list: keep the order of the dataset.",
        )


def _templates(folder: Path | None, spec: DatasetSpec, *, has_classes: bool) -> ClassTexts:
    own = spec.options.get("template_file")
    prompts = _prompts(spec)
    if own:
        keys = _keys(spec, prompts.get("templates", ""))
        entry, key = find_entry(own, keys, fallback=DEFAULT_KEY, offline=_offline(spec))
        templates, class_prompts = as_templates(entry, own)
        borrowed = key == DEFAULT_KEY and DEFAULT_KEY not in keys
        return ClassTexts((), templates, class_prompts, (_fallback(spec, own),) if borrowed else ())
    listed = list_for(folder, TEMPLATES, spec.language) if folder else ()
    if listed:
        return ClassTexts(templates=listed)
    if prompts.get("own_templates") and is_main(spec.language):
        return ClassTexts(templates=tuple(prompts["own_templates"]))
    if has_classes and prompts:
        return _packed_templates(spec)
    if not has_classes or not is_main(spec.language):
        return ClassTexts()
    note = Notice("default_templates", 1, f"{spec.name} has no templates: {DEFAULT_TEMPLATES[0]!r} is used.")
    return ClassTexts(templates=DEFAULT_TEMPLATES, notes=(note,))


def _packed_templates(spec: DatasetSpec) -> ClassTexts:
    prompts = _prompts(spec)
    found = None
    if not prompts.get("fallback"):
        found = prompt_pack.templates(prompts.get("templates", ""), spec.language, offline=_offline(spec))
    if found:
        return ClassTexts(templates=found)
    borrowed = prompt_pack.templates(DEFAULT_KEY, spec.language, offline=_offline(spec))
    return ClassTexts(templates=borrowed, notes=(_fallback(spec, "the prompt pack"),)) if borrowed else ClassTexts()


def _fallback(spec: DatasetSpec, where: str) -> Notice:
    return Notice(
        "fallback_templates", 1, f"{spec.name} has no templates of its own in {where}: those of {DEFAULT_KEY} are used."
    )


def _prompts(spec: DatasetSpec) -> Mapping[str, Any]:
    prompts: Mapping[str, Any] = spec.options.get("prompts") or {}
    return prompts


def _offline(spec: DatasetSpec) -> bool:
    return bool(spec.options.get("offline"))


def _keys(spec: DatasetSpec, key: str) -> list[str]:
    """Return the names under which a user's file may hold an entry: wds/vtab/x, vtab/x, x, then the catalogue's key."""
    parts = spec.name.split("/")
    forms = ["/".join(parts[i:]) for i in range(len(parts))]
    known = spec.options.get("entry", "")
    return list(dict.fromkeys(form for form in (*forms, known, key) if form))
