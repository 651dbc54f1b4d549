"""Reading the catalogue files, ours and the user's, and looking names up."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from eyechart.benchmarks import catalogue_facts
from eyechart.datasets.catalogue.entry import CatalogueEntry, make_entry
from eyechart.errors import UsageError

COLLECTIONS = "collections.toml"


@dataclass(frozen=True)
class Catalogue:
    """Datasets and collections by name."""

    entries: Mapping[str, CatalogueEntry]
    collections: Mapping[str, tuple[str, ...]]
    _by_alias: Mapping[str, str] = field(repr=False, default_factory=dict)

    def find(self, name: str) -> CatalogueEntry | None:
        """Return the entry for a name or an alias of it; ``vtab_x`` is ``vtab/x``, case does not matter."""
        known = self._by_alias.get(name.lower())
        return self.entries[known] if known else None

    def collections_of(self, name: str) -> list[str]:
        """List the collections that a dataset is in."""
        entry = self.find(name)
        return [
            collection
            for collection, members in self.collections.items()
            if entry and any(self.find(member) is entry for member in members)
        ]

    def expand(self, name: str) -> Sequence[str]:
        """Return the members of a collection, or the name itself."""
        return self.collections.get(name, (name,))

    def spellings(self) -> list[str]:
        """List everything that can be written for a dataset: names, aliases and collections."""
        return sorted({*self._by_alias, *self.collections})


def user_files(files: Sequence[str] = ()) -> list[str]:
    """Return the user's catalogue files: those given, then those in ``$EYECHART_CATALOGUE``."""
    return [*files, *(file for file in os.environ.get("EYECHART_CATALOGUE", "").split(os.pathsep) if file)]


def load_catalogue(files: Sequence[str] = ()) -> Catalogue:
    """Read our catalogue and the user's own files, which may add datasets and collections but not change ours.

    A user's file is TOML with ``[datasets.NAME]`` tables and a ``[collections]`` table of lists.
    """
    return _load(tuple(dict.fromkeys(files)))


@cache
def _load(files: tuple[str, ...]) -> Catalogue:
    base = _built_in()
    entries, collections = dict(base.entries), dict(base.collections)
    for file in files:
        data = _read_user_file(Path(file))
        for name in (*data.get("datasets", {}), *data.get("collections", {})):
            if base.find(name) or name in entries or name in collections:
                raise UsageError(f"{file}: {name!r} is in the catalogue already.", advice="Choose another name.")
        entries |= {name: make_entry(name, values, file) for name, values in data.get("datasets", {}).items()}
        collections |= {name: tuple(members) for name, members in data.get("collections", {}).items()}
    return Catalogue(entries, collections, _aliases(entries))


@cache
def _built_in() -> Catalogue:
    entries: dict[str, CatalogueEntry] = {}
    collections: dict[str, tuple[str, ...]] = {}
    for file in sorted(resources.files(__package__).iterdir(), key=lambda item: item.name):
        if not file.name.endswith(".toml"):
            continue
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        if file.name == COLLECTIONS:
            collections = {name: tuple(members) for name, members in data.items()}
        else:
            entries |= {
                name: make_entry(name, values | catalogue_facts(name), file.name) for name, values in data.items()
            }
    return Catalogue(entries, collections, _aliases(entries))


def _aliases(entries: Mapping[str, CatalogueEntry]) -> dict[str, str]:
    found: dict[str, str] = {}
    for alias, name in _spellings(entries):
        if found.setdefault(alias, name) != name:
            raise UsageError(f"The catalogue uses {alias!r} for {found[alias]!r} and for {name!r}.")
    return found


def _spellings(entries: Mapping[str, CatalogueEntry]) -> Iterator[tuple[str, str]]:
    for entry in entries.values():
        for name in (entry.name, *entry.aliases):
            yield name.lower(), entry.name
        if entry.name.startswith("vtab/"):
            yield entry.name.lower().replace("/", "_", 1), entry.name


def _read_user_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read the catalogue file {path} ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML ({error}).") from error
    unknown = set(data) - {"datasets", "collections"}
    if unknown:
        raise UsageError(
            f"{path}: unknown table {min(unknown)!r}.",
            advice="A catalogue file has [datasets.NAME] and [collections] tables.",
        )
    if not all(isinstance(table, dict) for table in data.values()):
        raise UsageError(f"{path}: datasets and collections must be tables.")
    for name, members in data.get("collections", {}).items():
        if not isinstance(members, list) or not all(isinstance(member, str) for member in members):
            raise UsageError(f"{path}: the collection {name!r} must be a list of names.")
    return data
