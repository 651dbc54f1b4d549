"""Class names and prompt templates: lists in a dataset's folder, and the user's own files that replace them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, UsageError
from eyechart.types import DatasetSpec, Notice

CLASSNAMES = "classnames"
TEMPLATES = "zeroshot_classification_templates"
DEFAULT_TEMPLATES = ("a photo of a {c}.",)
MAIN_LANGUAGE = "en"
"""Files without a language in their name are in this one."""


@dataclass(frozen=True)
class ClassTexts:
    """The names and prompts of a dataset's classes in one language."""

    classnames: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    class_prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[Notice, ...] = ()


def read_class_texts(folder: Path, spec: DatasetSpec, names: tuple[str, ...] = ()) -> ClassTexts:
    """Collect names and templates: the user's files first, then those in the folder, then what the reader knows.

    Args:
        folder: Where ``classnames.txt`` and ``zeroshot_classification_templates.txt`` may lie; for another
            language than English, ``classnames.de.txt`` and so on.
        spec: The options ``classname_file``, ``template_file`` and ``allow_blank_classnames`` count.
        names: Class names that the reader found itself (folder names), in English.
    """
    own_names = spec.options.get("classname_file")
    own_templates = spec.options.get("template_file")
    blank = bool(spec.options.get("allow_blank_classnames"))
    if own_names:
        classnames = _as_names(_entry(Path(own_names), spec.name), Path(own_names), allow_blank=blank)
    else:
        classnames = _list_for(folder, CLASSNAMES, spec.language, allow_blank=blank) or (
            names if spec.language == MAIN_LANGUAGE else ()
        )
    notes: list[Notice] = []
    prompts: dict[str, tuple[str, ...]] = {}
    if own_templates:
        templates, prompts = _as_templates(_entry(Path(own_templates), spec.name), Path(own_templates))
    else:
        templates = _list_for(folder, TEMPLATES, spec.language)
        if classnames and not templates and spec.language == MAIN_LANGUAGE:
            templates = DEFAULT_TEMPLATES
            notes.append(
                Notice("default_templates", 1, f"{spec.name} has no templates: {DEFAULT_TEMPLATES[0]!r} is used.")
            )
    return ClassTexts(classnames, templates, prompts, tuple(notes))


def languages_in(folder: Path, stem: str = CLASSNAMES) -> list[str]:
    """List the languages for which a folder has a list."""
    found = {MAIN_LANGUAGE} if (folder / f"{stem}.txt").is_file() else set()
    found |= {path.name[len(stem) + 1 : -len(".txt")] for path in folder.glob(f"{stem}.*.txt")}
    return sorted(found)


def read_lines(path: Path, *, allow_blank: bool = False) -> tuple[str, ...]:
    """Read one entry a line, each stripped. A blank line would be a phantom entry, so it is an error."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error.reason}).") from error
    for number, line in enumerate(lines, 1):
        if not line and not allow_blank:
            raise DataError(
                f"{path}, line {number}: a blank line would be a class without a name.",
                advice="Remove the line. If a class really has an empty name, use --allow-blank-classnames.",
            )
    return tuple(lines)


def _list_for(folder: Path, stem: str, language: str, *, allow_blank: bool = False) -> tuple[str, ...]:
    name = f"{stem}.txt" if language == MAIN_LANGUAGE else f"{stem}.{language}.txt"
    path = folder / name
    return read_lines(path, allow_blank=allow_blank) if path.is_file() else ()


def _entry(path: Path, dataset: str) -> Any:
    """Read a user's file: a plain list, or JSON (a list, or a mapping from dataset name to its entry)."""
    if not path.is_file():
        raise UsageError(f"There is no file {path}.", advice="Check the path after --custom_*_file.")
    if path.suffix != ".json":
        return list(read_lines(path))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is not valid JSON ({error}).") from error
    if not isinstance(content, dict):
        return content
    names = _name_forms(dataset)
    for name in names:
        if name in content:
            return content[name]
    raise UsageError(
        f"{path} has no entry for {dataset!r}.",
        advice=f"Looked for {', '.join(names)}; it has {', '.join(sorted(content)[:10])}.",
    )


def _name_forms(dataset: str) -> list[str]:
    """Return the name with fewer and fewer prefixes: wds/vtab/x, vtab/x, x."""
    parts = dataset.split("/")
    return ["/".join(parts[i:]) for i in range(len(parts))]


def _as_names(entry: Any, path: Path, *, allow_blank: bool) -> tuple[str, ...]:
    if not isinstance(entry, list) or not all(isinstance(name, str) for name in entry):
        raise UsageError(f"{path}: class names must be a list of texts.")
    blank = [i for i, name in enumerate(entry) if not name.strip()]
    if blank and not allow_blank:
        raise DataError(
            f"{path}: class {blank[0]} has no name.", advice="Use --allow-blank-classnames if that is right."
        )
    return tuple(entry)


def _as_templates(entry: Any, path: Path) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Accept a list of templates, or a mapping from class name to its texts."""
    if isinstance(entry, list) and entry and all(isinstance(text, str) for text in entry):
        return tuple(entry), {}
    if isinstance(entry, dict) and all(isinstance(texts, list) and texts for texts in entry.values()):
        return (), {name: tuple(map(str, texts)) for name, texts in entry.items()}
    raise UsageError(
        f"{path}: templates must be a list of texts, or a mapping from class name to a list of texts.",
        advice="None of the lists may be empty.",
    )
