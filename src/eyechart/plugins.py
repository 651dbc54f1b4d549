"""Registries of named objects: built in or from entry points, imported on first use."""

import os
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
"""Prefix of user objects, ``python:module.path:name``: installed, or a file in the working folder."""
USAGE_REPORTING_OFF: Mapping[str, str] = {
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
}
"""Variables that switch off the usage reporting of libraries, which read them when they are imported."""


def disable_usage_reporting() -> None:
    """Switch off the usage reporting of libraries in this process and its children, unless the user set a variable."""
    for name, value in USAGE_REPORTING_OFF.items():
        os.environ.setdefault(name, value)


@dataclass(frozen=True)
class Registry:
    """The registered objects of one kind."""

    group: str
    """Plugins register under the entry point group ``eyechart.{group}``."""
    word: str
    """The kind of object, for messages."""
    built_in: Mapping[str, str]
    """Built-in objects as ``module:name``."""

    def names(self) -> list[str]:
        """List the registered names."""
        return sorted({*self.built_in, *self._points()})

    def load(self, name: str) -> Any:
        """Import the object registered under a name, or ``python:module:name``.

        Raises:
            UnknownNameError: If the name is not registered.
            UsageError: If a plugin cannot be imported.
        """
        disable_usage_reporting()  # before the modules import their libraries
        if name.startswith(PYTHON):
            return user_object(name, self.word)
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
            text = "The {word} {name!r} of the package {package!r} cannot be loaded ({reason})."
            fields = {"word": self.word, "name": name, "package": package, "reason": error}
            raise UsageError(text, advice="Reinstall or remove {package}.", **fields) from error

    def _points(self) -> dict[str, EntryPoint]:
        """Find the plugins; a name that is built in or claimed by two packages is an error."""
        found: dict[str, EntryPoint] = {}
        for point in _entry_points().select(group=f"eyechart.{self.group}"):
            if point.name in self.built_in or point.name in found:
                package = point.dist.name if point.dist else "a package"
                text = "{package} registers the {word} {name!r}, which already exists."
                advice = "Rename it in the package, or remove one of the packages."
                raise UsageError(text, advice=advice, package=package, word=self.word, name=point.name)
            found[point.name] = point
        return found


_entry_points = cache(entry_points)
"""Reads all entry points once: it scans every installed package."""


def split_user_name(name: str, word: str) -> tuple[str, str]:
    """Split ``python:module.path:name`` (the prefix is optional) into module and name."""
    module, colon, attribute = name.removeprefix(PYTHON).partition(":")
    if not colon or not module or not attribute:
        advice = "Use python:module:name, for example python:my_code:MyClass."
        raise UsageError("{name!r} is not a valid {word}.", advice=advice, name=name, word=word)
    return module, attribute


def user_object(name: str, word: str) -> Any:
    """Import a user object, ``python:module.path:name``."""
    module, attribute = split_user_name(name, word)
    see_working_folder()
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        text = "The {word} {name!r} cannot be loaded ({reason})."
        advice = "Modules are searched on sys.path and in the working folder."
        raise UsageError(text, advice=advice, word=word, name=name, reason=error) from error


def declared_identity(thing: Any) -> str | None:
    """Return the ``eyechart_identity`` of user code: a text, or a method that returns one; None without it.

    By declaring it, the author promises that it changes whenever the output of the code may change. Nothing else
    identifies code that may read files, environment variables or a network.
    """
    declared = getattr(thing, "eyechart_identity", None)
    found = declared() if callable(declared) else declared
    return None if found is None else str(found)


def see_working_folder() -> None:
    """Append the working folder to sys.path, so that user modules are found after installed ones."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
