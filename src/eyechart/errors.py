"""Errors that a user can act on. Everything else keeps its traceback.

Each error says what is wrong and, in ``advice``, what to do about it. The command line prints both and exits
with ``exit_code``: 2 when the command itself must change, 1 when a job failed.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any, TypeVar


class EyechartError(Exception):
    """Base of all errors that are shown without a traceback."""

    exit_code = 1

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}\n{self.advice}" if self.advice else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions travel between processes; the default would drop the keyword argument.
        return (_rebuild, (type(self), self.message, self.advice))


def _rebuild(kind: type[EyechartError], message: str, advice: str) -> EyechartError:
    return kind(message, advice=advice)


E = TypeVar("E", bound=EyechartError)


class UsageError(EyechartError):
    """The command, flag or config must change before anything can run."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that nobody registered; the message lists the nearest ones."""


class LanguageError(UsageError):
    """A dataset does not have the language that was asked for; another one is never used instead."""


class MissingExtraError(UsageError):
    """A library that is an optional extra is not installed."""


class DataError(EyechartError):
    """A dataset is missing, damaged or does not fit its description."""


class NotHereError(DataError):
    """Data that could be fetched, where nothing may be."""

    def __init__(self, message: str, *, advice: str = "", source: str = "") -> None:
        super().__init__(message, advice=advice)
        self.source = source
        """Where it would come from."""


class ModelError(EyechartError):
    """A model cannot be loaded or gives unusable vectors or answers."""


class OutOfMemoryError(ModelError):
    """A batch is too large for the device; a smaller one may fit."""


class IncompleteError(EyechartError):
    """Too many samples failed or could not be read; what there is was saved."""


class ResultError(EyechartError):
    """A result file cannot be read or written."""


def unknown_name(kind: str, name: str, known: Iterable[str], *, advice: str = "") -> UnknownNameError:
    """Make the error for a name that is not known, with up to three nearest names."""
    options = sorted(set(known))
    near = nearest(name, options)
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    elif len(options) <= 12:
        hint = f"Known: {', '.join(options)}." if options else ""
    else:
        hint = f"There are {len(options)} known names."
    return UnknownNameError(f"Unknown {kind}: {name!r}.", advice=" ".join(part for part in (hint, advice) if part))


def nearest(name: str, options: Iterable[str], count: int = 3, *, cutoff: float = 0.6) -> list[str]:
    """Return up to ``count`` names that look like ``name``, best first, ignoring case."""
    by_lower = {option.lower(): option for option in options}
    found = difflib.get_close_matches(name.lower(), by_lower, n=count, cutoff=cutoff)
    return [by_lower[key] for key in found]


def missing_extra(library: str, extra: str) -> MissingExtraError:
    """Make the error for an optional library that is not installed, with the pip line to run."""
    return MissingExtraError(
        f"This needs the library {library!r}, which is not installed.",
        advice=f"Install it with: pip install 'eyechart[{extra}]'",
    )


def import_extra(module: str, extra: str) -> Any:
    """Import an optional library, or say which of our extras brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_extra(module.partition(".")[0], extra) from error


def first_line(error: BaseException) -> str:
    """Return the reason that a library gives, without what follows it."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


MIRRORS = {
    "huggingface": "HF_ENDPOINT=https://... names a mirror of Hugging Face; --hub modelscope takes ModelScope instead.",
    "modelscope": "MODELSCOPE_ENDPOINT=https://... names a mirror of ModelScope; --hub huggingface takes that hub.",
}
"""Where else a hub's files can come from."""
_UNREACHABLE = frozenset(
    {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "TransportError", "NetworkError", "URLError"}
)
"""Exceptions of hubs' clients for places that cannot be reached; their modules are not imported for a name."""
_UNREACHABLE_WORDS = re.compile(
    "name resolution|Name or service not known|getaddrinfo failed|Connection (refused|reset)|Network is unreachable"
    "|couldn't connect|timed out|offline mode"
)


def is_unreachable(error: BaseException | None) -> bool:
    """Tell whether an error is, or comes from, a place that cannot be reached."""
    while error is not None:
        names = {kind.__name__ for kind in type(error).__mro__}
        if isinstance(error, ConnectionError | TimeoutError) or not names.isdisjoint(_UNREACHABLE):
            return True
        if _UNREACHABLE_WORDS.search(str(error)):
            return True  # some libraries keep the words of an error and not the error
        error = error.__cause__ or error.__context__
    return False


def unreachable(kind: type[E], place: str, error: object, hub: str = "") -> E:
    """Make the error for a place that cannot be reached, with all that may help.

    Args:
        kind: Of which kind the error is: about data, or about a model.
        place: What cannot be reached.
        error: The reason, as a library gives it.
        hub: Of which hub the place is, if of one.
    """
    if hub == "huggingface" and os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        return kind(
            f"Cannot reach {place}: the cache has not all of it, and --offline (or HF_HUB_OFFLINE) forbids asking.",
            advice=f"Run once without it. {MIRRORS[hub]}",
        )
    reason = first_line(error) if isinstance(error, BaseException) else str(error)
    advice = (
        "Check the network.",
        "What was fetched before is used, and nothing asked, with --offline.",
        MIRRORS.get(hub),
    )
    return kind(f"Cannot reach {place} ({reason}).", advice=" ".join(filter(None, advice)))
