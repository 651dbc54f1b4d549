"""The catalogue of named datasets and collections, as data: the ``.toml`` files in this folder.

Fields of an entry; those with a star are required:

``title``*, ``kind``*, ``languages``* (the codes used by its files, or "flores"), ``splits``*, ``sources``* (see below),
``licence``*, ``citation``*, ``metric``* (the main one), ``chance`` (its chance level), ``aliases``, ``classes``,
``classes_by_language``, ``samples`` and ``captions`` (of the test split), ``whole`` (there is no standard split, all
data are read), ``classnames`` and ``templates`` (keys in the prompt pack), ``subset`` (of ImageNet's classes),
``own_classnames`` and ``own_templates`` (the texts themselves), ``domain``, ``homepage``, ``note``, ``manual`` (what to
get, where from, where to put it), ``datacomp`` (its figures there), ``groups`` (the metadata column that defines
groups).

``aliases`` and ``samples`` of built-in entries are in ``eyechart/benchmarks.toml``, since result tables also use them.

A source defines how the data are read: ``reader``, ``present`` (paths under the root, any of which shows that the data
exist), ``splits`` (the source's name by ours), ``languages`` (if it has fewer than the entry), ``huggingface`` and
``modelscope`` (dataset repositories), ``base`` (another entry whose images are used), ``download`` (false if its
library can no longer download it); further keys are for the reader. Sources are tried in order: first those with local
data, then those that can be downloaded.

Built-in files leave out what follows from other fields: an entry takes the fields that it lacks, except ``datacomp``,
from the earlier entry that it ``extends``, else from ``[defaults]``. ``{name}`` is the last part of its name,
``{words}`` the same with spaces, ``{stem}`` the part after the first ``_``. A table with ``members`` is the entry of
each of them; ``collections`` are those that they belong to. `_complete` derives the rest.
"""

import os
import tomllib
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple, get_args

from eyechart.benchmarks import FACTS, catalogue_facts, collection_name
from eyechart.datasets.class_texts import SUBSETS
from eyechart.datasets.locations import fill
from eyechart.errors import UsageError, nearest
from eyechart.io.safe_parse import is_number
from eyechart.languages import find_same, flores_codes
from eyechart.messages import UserMessage
from eyechart.types import Kind

__all__ = ["Catalogue", "CatalogueEntry", "Manual", "Source", "load_catalogue", "user_files"]


FLORES = "flores"


@dataclass(frozen=True)
class Manual:
    """What the user must do before the data can be read."""

    what: str
    url: str
    where: str
    """Where to put it; ``{root}`` is --dataset_root."""

    def advice(self, root: str) -> str:
        """Return the instructions for a root folder."""
        where = self.where.replace("{root}", root.rstrip("/") or "/")
        return UserMessage(
            "Download {what} (from {url}) and put it at {where}.", what=self.what, url=self.url, where=where
        )


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
    """Further keys of the entry, for the reader."""


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
        """Return the dataset's own code for a language, or None if it lacks the language."""
        return find_same(language, self.languages)


def make_entry(name: str, values: Any, where: str) -> CatalogueEntry:
    """Convert a table of a catalogue file to an entry; an error lists all problems at once."""
    problems = list(_problems(values)) if isinstance(values, dict) else ["it must be a table"]
    if problems:
        raise UsageError(
            "{where}: the entry of the dataset {name!r} is invalid:\n  {problems}",
            where=where,
            name=name,
            problems="\n  ".join(problems),
        )
    known = _frozen(values)
    if values["languages"] == FLORES:
        known["languages"] = flores_codes()
    known["sources"] = tuple(
        Source(
            **{key: value for key, value in _frozen(source).items() if key in _SOURCE_FIELDS},
            settings={key: value for key, value in source.items() if key not in _SOURCE_FIELDS},
        )
        for source in values["sources"]
    )
    if "manual" in values:
        known["manual"] = Manual(**values["manual"])
    return CatalogueEntry(name=name, **known)


def _frozen(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_FIELDS: Mapping[str, Any] = {item.name: item.type for item in fields(CatalogueEntry) if item.name != "name"}
_SOURCE_FIELDS: Mapping[str, Any] = {item.name: item.type for item in fields(Source) if item.name != "settings"}
_REQUIRED = ("title", "kind", "languages", "splits", "sources", "licence", "citation", "metric")
_TYPES: Mapping[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "a text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int | None: (lambda value: type(value) is int and value > 0, "a positive number"),
    float | None: (is_number, "a number"),
    tuple[str, ...]: (_is_texts, "a list of texts"),
    **dict.fromkeys(
        (Mapping[str, str], Mapping[str, int], Mapping[str, Any]), (lambda value: isinstance(value, dict), "a table")
    ),
}
"""Validity checks by field type; other types are checked separately."""
_CHOICES = {"kind": get_args(Kind), "subset": tuple(SUBSETS)}


def _problems(values: Mapping[str, Any]) -> Iterator[str]:
    for key in values:
        if key not in _FIELDS:
            near = nearest(key, _FIELDS)
            yield f"{key}: unknown field" + (f"; did you mean {' or '.join(near)}?" if near else "")
    yield from (f"{key}: missing" for key in _REQUIRED if key not in values)
    yield from _wrong_types({key: value for key, value in values.items() if key != "languages"}, _FIELDS)
    yield from (
        f"{key}: {values[key]!r} is not one of {', '.join(some)}"
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


def _wrong_types(values: Mapping[str, Any], types: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        fits, wanted = _TYPES.get(types.get(key), (lambda _: True, ""))
        if not fits(value):
            yield f"{key}: must be {wanted}"


COLLECTIONS = "collections.toml"


class _Content(NamedTuple):
    entries: Mapping[str, CatalogueEntry]
    collections: Mapping[str, tuple[str, ...]]
    aliases: Mapping[str, str]
    """The names of entries by every spelling in lower case."""


@dataclass(frozen=True)
class Catalogue:
    """Datasets and collections by name: the built-in ones, and those of user files."""

    files: tuple[str, ...] = ()

    @property
    def _content(self) -> _Content:
        return _parse(self.files, tuple(map(_file_state, self.files)))

    @property
    def entries(self) -> Mapping[str, CatalogueEntry]:
        """Datasets by name."""
        return self._content.entries

    @property
    def collections(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the members by collection."""
        return self._content.collections

    def __contains__(self, name: str) -> bool:
        """True if the name is that of a dataset or collection; the built-in files are not parsed if they lack it."""
        if collection_name(name):
            return True
        if not self.files and name.lower().replace("vtab_", "vtab/") not in _built_in_text():
            return False
        return name in self.collections or name.lower() in self._content.aliases

    def find(self, name: str) -> CatalogueEntry | None:
        """Return the entry for a name or alias; ``vtab_x`` is ``vtab/x``, case is ignored."""
        known = self._content.aliases.get(name.lower()) if name in self else None
        return self.entries[known] if known else None

    def collections_of(self, name: str) -> list[str]:
        """List the collections that contain a dataset."""
        entry = self.find(name)
        return [
            collection
            for collection, members in self.collections.items()
            if entry and any(self.find(member) is entry for member in members)
        ]

    def expand(self, name: str) -> Sequence[str]:
        """Return the members of a collection, or the name itself."""
        if mteb := collection_name(name):
            from eyechart.datasets.mteb import collection_tasks

            return [f"mteb/{task.metadata.name}" for task in collection_tasks(mteb)]
        return self.collections.get(name, (name,)) if name in self else (name,)

    def spellings(self) -> list[str]:
        """List every accepted spelling of a dataset: names, aliases and collections."""
        return sorted({*self._content.aliases, *self.collections})


def user_files(files: Sequence[str] = ()) -> list[str]:
    """Return the user's catalogue files: those given, then those in ``$EYECHART_CATALOGUE``."""
    return [*files, *filter(None, os.environ.get("EYECHART_CATALOGUE", "").split(os.pathsep))]


def load_catalogue(files: Sequence[str] = ()) -> Catalogue:
    """Load the built-in catalogue and user files, which may add datasets and collections but not change built-in ones.

    A user file is TOML with ``[datasets.NAME]`` tables and a ``[collections]`` table of lists.
    """
    catalogue = Catalogue(tuple(dict.fromkeys(files)))
    if files:
        catalogue.collections  # noqa: B018 - reports errors in the files
    return catalogue


def _file_state(file: str) -> tuple[object, ...]:
    """What changes when a file is edited, or when a relative path names another file."""
    try:
        state = Path(file).stat()
    except OSError:
        return ()
    return Path(file).absolute(), state.st_size, state.st_mtime_ns, state.st_ino


@cache
def _parse(files: tuple[str, ...], states: tuple[object, ...]) -> _Content:  # noqa: ARG001 - invalidates the cache
    if not files:
        return _built_in()
    base = Catalogue()
    entries, collections = dict(base.entries), dict(base.collections)
    for file in files:
        data = _read_user_file(Path(file))
        for name in (*data.get("datasets", {}), *data.get("collections", {})):
            if name in base or name in entries or name in collections:
                raise UsageError(
                    "{file}: {name!r} is already in the catalogue.", advice="Choose another name.", file=file, name=name
                )
        entries |= {name: make_entry(name, values, file) for name, values in data.get("datasets", {}).items()}
        collections |= {name: tuple(members) for name, members in data.get("collections", {}).items()}
    return _Content(entries, collections, _aliases({name: entry.aliases for name, entry in entries.items()}))


def _built_in() -> _Content:
    tables: dict[str, Any] = {}
    collections: dict[str, tuple[str, ...]] = {}
    for file in _built_in_files():
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        if file.name == COLLECTIONS:
            collections |= {name: tuple(members) for name, members in data.items()}
            continue
        defaults = data.pop("defaults")
        for label, own in data.items():
            inherited = tables[own.pop("extends")] if "extends" in own else defaults
            names, parts = own.pop("members", [label]), own.pop("collections", ())
            full = {key: value for key, value in inherited.items() if key != "datacomp"} | own
            tables |= dict.fromkeys(names, full)
            collections |= {part: (*collections.get(part, ()), *names) for part in parts}
    aliases = _aliases({name: catalogue_facts(name).get("aliases", ()) for name in tables})
    return _Content(_BuiltInEntries(tables), collections, aliases)


def _built_in_files() -> list[Traversable]:
    found = [file for file in resources.files(__package__).iterdir() if file.name.endswith(".toml")]
    return sorted(found, key=lambda file: file.name)


@cache
def _built_in_text() -> str:
    """The built-in files in lower case. They contain every spelling of a name, with ``vtab/`` for ``vtab_``."""
    return "\n".join(file.read_text(encoding="utf-8") for file in (FACTS, *_built_in_files())).lower()


class _BuiltInEntries(UserDict[str, Any]):
    """The tables of the built-in entries, each converted on first use."""

    def __getitem__(self, name: str) -> CatalogueEntry:
        found = self.data[name]  # read once: another thread may convert it meanwhile
        if not isinstance(found, CatalogueEntry):
            found = make_entry(name, _complete(name, found) | catalogue_facts(name), "built-in catalogue")
            self.data[name] = found
        return found


def _complete(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Derive the fields that an entry of a built-in file leaves out.

    ``chance`` is that of its ``classes``; ``languages`` are those of ``classes_by_language``, a list of pairs.
    DataComp's ``metric`` and ``random`` score are the entry's metric and chance; false means that DataComp has none.
    """
    full = _with_name(name, values)
    if full["kind"] == "classification" and "classes" in full:
        full.setdefault("chance", round(1 / full["classes"], 6))
    if "classes_by_language" in full:
        full["classes_by_language"] = dict(full["classes_by_language"])
        full["languages"] = list(full["classes_by_language"])
    if "datacomp" in full:
        known = {"name": "", "size": 0, "metric": full["metric"], "random": full.get("chance")} | full["datacomp"]
        full["datacomp"] = {key: value for key, value in known.items() if value}
    full["sources"] = [_complete_source(name, source) for source in full["sources"]]
    return full


def _complete_source(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Derive the fields of a source: ``wds`` is the owner of its repositories, ``splits`` are those of VTAB."""
    full = _with_name(name, values)
    if owner := full.pop("wds", ""):
        full["reader"] = "wds"
        full["huggingface"] = f"{owner}/wds_{name.replace('/', '-')}"
        full["modelscope"] = f"{owner}/wds_{name.replace('/', '_')}"
    if full.get("reader") == "tfds":
        derived = {"label": "label", "present": [full["dataset"].partition("/")[0]]}
        full = derived | full | {"splits": _vtab_splits(**full.get("splits", {}))}
    return full


def _with_name(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    last = name.rpartition("/")[2]
    stem = last.partition("_")[2].removesuffix("_multilingual")
    known = {"name": last, "words": last.replace("_", " "), "stem": stem}

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(item) for item in value]
        return fill(value, known) if isinstance(value, str) else value

    return {key: filled(value) for key, value in values.items()}


def _vtab_splits(train: str = "train", val: str = "validation", test: str = "test") -> dict[str, str]:
    """Add the joined splits of VTAB and its first 800 and 200 samples, as expressions of TensorFlow Datasets."""
    source, _, cut = val.partition("[")
    start, _, stop = cut.removesuffix("]").partition(":")
    adjacent = train == f"train[:{start}]"
    trainval = f"train[:{stop}]".removesuffix("[:]") if adjacent else f"{train}+{val}"
    splits = {"train": train, "val": val, "trainval": trainval, "test": test, "train800": "train[:800]"}
    if not start.endswith("%"):
        val200 = f"{source}[{start}:{int(start or 0) + 200}]"
        splits |= {"val200": val200, "train800val200": f"train[:800]+{val200}"}
    return splits


def _aliases(names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the name for each spelling: itself, an alias, or ``vtab_x`` for ``vtab/x``."""
    found: dict[str, str] = {}
    for name, aliases in names.items():
        for spelling in (name, *aliases, name.replace("vtab/", "vtab_")):
            if found.setdefault(spelling.lower(), name) != name:
                raise UsageError(
                    "The catalogue alias {alias!r} is ambiguous: {found!r} and {name!r}.",
                    alias=spelling.lower(),
                    found=found[spelling.lower()],
                    name=name,
                )
    return found


def _read_user_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            "Cannot read the catalogue file {path} ({reason}).", path=path, reason=error.strerror
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError("{path} is not valid TOML ({reason}).", path=path, reason=error) from error
    if unknown := set(data) - {"datasets", "collections"}:
        raise UsageError(
            "{path}: unknown table {unknown!r}.",
            advice="A catalogue file may contain [datasets.NAME] and [collections] tables.",
            path=path,
            unknown=min(unknown),
        )
    if not all(isinstance(table, dict) for table in data.values()):
        raise UsageError("{path}: datasets and collections must be tables.", path=path)
    for name, members in data.get("collections", {}).items():
        if not _is_texts(members):
            raise UsageError("{path}: the collection {name!r} must be a list of names.", path=path, name=name)
    return data


EXTRAS = {"torchvision": "torchvision", "tfds": "tfds", "imagenet_w": "imagenet-w"}
"""Readers that need an optional dependency: the extra to install."""


def needs_of(entry: CatalogueEntry, catalogue: Catalogue) -> list[str]:
    """List the ways to get the data, preferred ones first: download, extra, manual step, or nothing."""
    ways = list(dict.fromkeys(way for source in entry.sources for way in _ways(source, catalogue)))
    manual = entry.manual or any(base.manual for source in entry.sources if (base := catalogue.find(source.base)))
    return ways + (["manual step"] if manual else [])


def _ways(source: Source, catalogue: Catalogue) -> Iterator[str]:
    extra = EXTRAS.get(source.reader)
    base = catalogue.find(source.base) if source.base else None
    if base:
        yield from ([f"extra {extra}"] if extra else [])
        yield from (way for one in base.sources for way in _ways(one, catalogue))
    elif source.huggingface or source.modelscope:
        yield "download"
    elif extra and source.download:
        yield f"download by extra {extra}"
    elif not source.present:
        yield "nothing"
