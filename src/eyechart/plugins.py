"""Names to objects: a room's own from its table, everybody else's from entry points, both imported only when used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from eyechart.errors import UsageError, unknown_name

PYTHON = "python:"
"""``python:module.path:name`` is an object of the user's own: installed, or a file in the working folder."""


@dataclass(frozen=True)
class Registry:
    """The objects of one kind that are known by name."""

    group: str
    """Third parties register theirs under the entry point group ``eyechart.{group}``."""
    word: str
    """What one of them is called in messages."""
    built_in: Mapping[str, str]
    """What ships with Eyechart, as ``module:name``."""

    def names(self) -> list[str]:
        """List the known names."""
        return sorted({*self.built_in, *self._points()})

    def load(self, name: str) -> Any:
        """Import the object behind a name, or behind ``python:module:name``.

        Raises:
            UnknownNameError: If nobody registered the name; the nearest ones are named.
            UsageError: If a third party's plugin cannot be imported.
        """
        if name.startswith(PYTHON):
            return own_object(name, self.word)
        target = self.built_in.get(name)
        if target is not None:
            module, _, attribute = target.partition(":")
            return getattr(import_module(module), attribute)
        point = self._points().get(name)
        if point is None:
            raise unknown_name(self.word, name, self.names())
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            package = point.dist.name if point.dist else "unknown package"
            raise UsageError(
                f"The {self.word} {name!r} of the package {package!r} cannot be loaded ({error}).",
                advice=f"Reinstall or remove {package}.",
            ) from error

    def _points(self) -> dict[str, EntryPoint]:
        """Find third parties' plugins; a name that two packages claim, or that is built in, is an error."""
        found: dict[str, EntryPoint] = {}
        for point in _entry_points().select(group=f"eyechart.{self.group}"):
            if point.name in self.built_in or point.name in found:
                package = point.dist.name if point.dist else "a package"
                raise UsageError(
                    f"{package} registers the {self.word} {point.name!r}, which exists already.",
                    advice="Rename it there, or remove one of the packages.",
                )
            found[point.name] = point
        return found


@cache
def _entry_points() -> Any:
    """Find the plugins of all groups at once: that takes a look into every installed package."""
    return entry_points()


def split_own(name: str, word: str) -> tuple[str, str]:
    """Split ``python:module.path:name`` (the prefix may be missing) into module and name."""
    module, colon, attribute = name.removeprefix(PYTHON).partition(":")
    if not colon or not module or not attribute:
        raise UsageError(
            f"{name!r} names no {word}.", advice="Write python:module:name, for example python:my_code:MyClass."
        )
    return module, attribute


def own_object(name: str, word: str) -> Any:
    """Import an object of the user's own: ``python:module.path:name``.

    Raises:
        UsageError: If there is no such module, it cannot be imported, or it has no such name.
    """
    module, attribute = split_own(name, word)
    see_working_folder()
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"The {word} {name!r} cannot be loaded ({error}).",
            advice="Modules are looked for where Python looks, and in the working folder.",
        ) from error


def see_working_folder() -> None:
    """Let the user's own file be found, after everything that is installed."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
