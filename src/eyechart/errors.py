"""Errors that a user can act on, shown without a traceback.

Each error has a message and, in ``advice``, what to do about it. The command line prints both and exits with
``exit_code``: 2 for wrong usage, 1 for a failed job.
"""

import difflib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from eyechart.messages import Surface, UserMessage, join


class EyechartError(Exception):
    """Base of all errors that are shown without a traceback.

    The message says what is wrong, the advice what to do about it: templates (see `eyechart.messages`) for the same
    fields, or plain text if there are none.
    """

    exit_code = 1

    def __init__(self, message: str, /, *, advice: str = "", **fields: object) -> None:
        self.message = UserMessage(message, **fields)
        self.advice = UserMessage(advice, **fields)
        super().__init__(self.message)

    @property
    def user_message(self) -> UserMessage:
        """Message and advice, one per line."""
        return join((self.message, self.advice), "\n")

    def show_on(self, surface: Surface) -> None:
        """Render settings for a surface, in place."""
        self.message, self.advice = self.message.on(surface), self.advice.on(surface)
        self.args = (self.message,)

    def __str__(self) -> str:
        return str(self.user_message)

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled between processes; the default would drop the keyword arguments.
        return partial(type(self), advice=self.advice), (self.message,), self.__dict__


@contextmanager
def errors_on(surface: Surface) -> Iterator[None]:
    """Render errors raised in the block for a surface; type and traceback are unchanged."""
    try:
        yield
    except EyechartError as error:
        error.show_on(surface)
        raise


def check_platform() -> None:
    """Refuse Windows: stored vectors, downloads and cache keys rely on guarantees of POSIX systems."""
    if sys.platform == "win32":
        raise UsageError(
            "Windows is not supported, because Eyechart needs POSIX file locks, signals and file change times: "
            "use WSL 2, Linux or macOS."
        )


E = TypeVar("E", bound=EyechartError)


class UsageError(EyechartError):
    """The command, flags or config are invalid."""

    exit_code = 2


class UnknownNameError(UsageError):
    """An unknown name; the advice lists the nearest ones."""


class LanguageError(UsageError):
    """A dataset does not have the requested language; there is no fallback to another."""


class MissingExtraError(UsageError):
    """An optional library is not installed."""


class DataError(EyechartError):
    """A dataset is missing, damaged or inconsistent with its description."""


class NotHereError(DataError):
    """Data that would have to be downloaded while downloads are disabled."""

    def __init__(self, message: str, /, *, advice: str = "", source: str = "", **fields: object) -> None:
        super().__init__(message, advice=advice, **fields)
        self.source = source
        """Where it would be downloaded from."""


class ModelError(EyechartError):
    """A model cannot be loaded or returns unusable vectors or answers."""


class OutOfMemoryError(ModelError):
    """A batch is too large for the device; a smaller one may fit."""


class IncompleteError(EyechartError):
    """Too many samples failed or could not be read; the partial result was saved."""


class ResultError(EyechartError):
    """A result file cannot be read or written."""


def unknown_name(kind: str, name: str, known: Iterable[str], *, advice: str = "") -> UnknownNameError:
    """Build the error for an unknown name, suggesting up to three similar names."""
    options = sorted(set(known))
    otherwise = UserMessage("There are {n} known names.", n=len(options))
    if len(options) <= 12:
        otherwise = UserMessage("Known: {names}.", names=", ".join(options)) if options else UserMessage("")
    hint = join((did_you_mean(name, options, otherwise), UserMessage(advice)))
    return UnknownNameError("Unknown {kind}: {name!r}.", advice=hint, kind=kind, name=name)


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> UserMessage:
    """Return advice that suggests up to three similar names; without any, other advice."""
    near = nearest(name, known)
    return UserMessage("Did you mean {names}?", names=" or ".join(near)) if near else UserMessage(otherwise)


def nearest(name: str, options: Iterable[str], count: int = 3, *, cutoff: float = 0.6) -> list[str]:
    """Return up to ``count`` names similar to ``name``, best first, ignoring case."""
    by_lower = {option.lower(): option for option in options}
    found = difflib.get_close_matches(name.lower(), by_lower, n=count, cutoff=cutoff)
    return [by_lower[key] for key in found]


def missing_extra(library: str, extra: str) -> MissingExtraError:
    """Build the error for a missing optional library, with the pip command."""
    text = "The library {name!r} is required but not installed."
    advice = "Install it with: pip install 'eyechart[{extra}]'"
    return MissingExtraError(text, advice=advice, name=library, extra=extra)


def import_extra(module: str, extra: str) -> Any:
    """Import an optional library, or raise an error that names the extra to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_extra(module.partition(".")[0], extra) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, without advice."""
    if isinstance(error, EyechartError) and "\n" not in error.message:
        return error.message
    return str(error).strip().partition("\n")[0] or type(error).__name__


MIRRORS = {
    "huggingface": "Set HF_ENDPOINT=https://... to use a mirror of Hugging Face, or use {--hub=modelscope}.",
    "modelscope": "Set MODELSCOPE_ENDPOINT=https://... to use a mirror of ModelScope, or use {--hub=huggingface}.",
}
"""Advice on alternative sources, by hub."""
_UNREACHABLE = {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "TransportError", "NetworkError", "URLError"}
"""Names of the hub clients' exceptions for unreachable servers, compared without importing the clients."""
_UNREACHABLE_WORDS = re.compile(
    "name resolution|Name or service not known|getaddrinfo failed|Connection (refused|reset)|Network is unreachable"
    "|couldn't connect|timed out|offline mode"
)


def is_unreachable(error: BaseException | None) -> bool:
    """Whether an error is, or was caused by, an unreachable server."""
    while error is not None:
        names = {kind.__name__ for kind in type(error).__mro__}
        if isinstance(error, ConnectionError | TimeoutError) or not names.isdisjoint(_UNREACHABLE):
            return True
        if _UNREACHABLE_WORDS.search(str(error)):
            return True  # some libraries keep only the text of the original error
        error = error.__cause__ or error.__context__
    return False


def unreachable(kind: type[E], place: str, error: object, hub: str = "") -> E:
    """Build the error for an unreachable server, with advice that depends on the hub it belongs to, if any."""
    mirror = UserMessage(MIRRORS.get(hub, ""))
    if hub == "huggingface" and os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        text = "Cannot reach {place}: the cache is incomplete, and {--offline} (or HF_HUB_OFFLINE) forbids downloads."
        return kind(text, advice="Run once without it. {mirror}", place=place, mirror=mirror)
    reason = first_line(error) if isinstance(error, BaseException) else str(error)
    advice = "Check the network, or use {--offline} to work with cached files only. {mirror}"
    return kind("Cannot reach {place} ({reason}).", advice=advice, place=place, reason=reason, mirror=mirror)
