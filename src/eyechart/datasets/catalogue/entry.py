"""What the catalogue knows of one dataset, and what is wrong with an entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_args

from eyechart.datasets.imagenet_classes import SUBSETS
from eyechart.errors import UsageError, nearest
from eyechart.io.untrusted import is_number
from eyechart.languages import find_same, flores_codes
from eyechart.types import Kind

FLORES = "flores"


@dataclass(frozen=True)
class Manual:
    """What a person must do before the data can be read."""

    what: str
    url: str
    where: str
    """Where to put it; ``{root}`` is --dataset_root."""

    def advice(self, root: str) -> str:
        """Tell the steps for one root folder."""
        where = self.where.replace("{root}", root.rstrip("/") or "/")
        return f"Get {self.what} (from {self.url}) and put it at {where}."


@dataclass(frozen=True)
class Source:
    """One way to read a dataset."""

    reader: str = ""
    present: tuple[str, ...] = ()
    splits: Mapping[str, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    huggingface: str = ""
    modelscope: str = ""
    base: str = ""
    download: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the entry says: for the reader."""


@dataclass(frozen=True)
class CatalogueEntry:
    """One named dataset; the fields are described in the package's docstring."""

    name: str
    title: str
    kind: Kind
    languages: tuple[str, ...]
    splits: tuple[str, ...]
    sources: tuple[Source, ...]
    licence: str
    citation: str
    metric: str
    chance: float | None = None
    aliases: tuple[str, ...] = ()
    classes: int | None = None
    classes_by_language: Mapping[str, int] = field(default_factory=dict)
    samples: int | None = None
    captions: int | None = None
    whole: bool = False
    classnames: str = ""
    templates: str = ""
    subset: str = ""
    own_classnames: tuple[str, ...] = ()
    own_templates: tuple[str, ...] = ()
    domain: str = ""
    homepage: str = ""
    note: str = ""
    manual: Manual | None = None
    datacomp: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Any] = field(default_factory=dict)

    def own_language(self, language: str) -> str | None:
        """Return this dataset's own code for a language, or nothing if it does not have it."""
        return find_same(language, self.languages)


def make_entry(name: str, values: Any, where: str) -> CatalogueEntry:
    """Turn a table of a catalogue file into an entry.

    Raises:
        UsageError: If a field is missing, unknown or of the wrong type; all problems at once.
    """
    problems = list(_problems(values)) if isinstance(values, dict) else ["it must be a table"]
    if problems:
        raise UsageError(f"{where}: the dataset {name!r} is described wrongly:\n  " + "\n  ".join(problems))
    known = {key: _frozen(value) for key, value in values.items() if key not in ("sources", "manual")}
    if values["languages"] == FLORES:
        known["languages"] = flores_codes()
    sources = tuple(_make_source(source) for source in values["sources"])
    manual = Manual(**values["manual"]) if "manual" in values else None
    return CatalogueEntry(name=name, sources=sources, manual=manual, **known)


def _make_source(values: Mapping[str, Any]) -> Source:
    own = {key: _frozen(value) for key, value in values.items() if key in _SOURCE_FIELDS}
    return Source(**own, settings={key: value for key, value in values.items() if key not in own})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_FIELDS = {item.name: str(item.type) for item in fields(CatalogueEntry) if item.name != "name"}
_SOURCE_FIELDS = {item.name: str(item.type) for item in fields(Source) if item.name != "settings"}
_REQUIRED = ("title", "kind", "languages", "splits", "sources", "licence", "citation", "metric")
_TYPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda value: isinstance(value, str), "a text"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "int | None": (lambda value: type(value) is int and value > 0, "a positive number"),
    "float | None": (is_number, "a number"),
    "tuple[str, ...]": (_is_texts, "a list of texts"),
    "Mapping[str, str]": (lambda value: isinstance(value, dict), "a table"),
    "Mapping[str, int]": (lambda value: isinstance(value, dict), "a table"),
    "Mapping[str, Any]": (lambda value: isinstance(value, dict), "a table"),
}
"""What a file must hold for a field, by the type that the field has here; the other types have checks of their own."""
_CHOICES = {"kind": get_args(Kind), "subset": tuple(SUBSETS)}


def _problems(values: Mapping[str, Any]) -> Iterator[str]:
    for key in values:
        if key not in _FIELDS:
            near = nearest(key, _FIELDS)
            yield f"{key}: unknown field" + (f"; did you mean {' or '.join(near)}?" if near else "")
    yield from (f"{key}: missing" for key in _REQUIRED if key not in values)
    yield from _wrong_types({key: value for key, value in values.items() if key != "languages"}, _FIELDS)
    yield from (
        f"{key}: {values[key]!r} is none of {', '.join(some)}"
        for key, some in _CHOICES.items()
        if values.get(key, some[0]) not in some
    )
    languages = values.get("languages", FLORES)
    if languages != FLORES and not (_is_texts(languages) and languages):
        yield f"languages: must be a list of codes, or {FLORES!r}"
    manual = values.get("manual", {"what": "", "url": "", "where": ""})
    if not isinstance(manual, dict) or set(manual) != {"what", "url", "where"}:
        yield "manual: must have what, url and where"
    sources = values.get("sources", [{"reader": "x"}])
    if not isinstance(sources, list) or not sources or not all(isinstance(source, dict) for source in sources):
        yield "sources: must be a list of at least one table"
        return
    if not all(source.get("reader") or source.get("base") for source in sources):
        yield "sources: each needs a reader or a base"
    yield from (f"sources: {problem}" for source in sources for problem in _wrong_types(source, _SOURCE_FIELDS))


def _wrong_types(values: Mapping[str, Any], types: Mapping[str, str]) -> Iterator[str]:
    for key, value in values.items():
        fits, wanted = _TYPES.get(types.get(key, ""), (lambda _: True, ""))
        if not fits(value):
            yield f"{key}: must be {wanted}"
