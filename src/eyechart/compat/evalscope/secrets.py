"""Keys out of everything that is written: the config, the log, messages; and out of places where they do not belong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from eyechart.api import Secret
from eyechart.api.secret import KEY_VARIABLES
from eyechart.errors import UsageError

HIDDEN = "***"
NAMES = frozenset({"api_key", "apikey", "key", "token", "authorization", "password", "secret", "credentials"})
VARIABLE, SENT = "api_key_variable", "extra_body"
ENDINGS = ("_key", "_token", "-key", "-token", "_secret", "_password")
KEY_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}"
    r"|(?:(?:xai|nvapi|pplx)-|(?:gsk|hf|ghp|gho|jina|r8|tgp)_)(?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{16,}"
    r"|AIza[A-Za-z0-9_-]{30,}|AKIA[A-Z0-9]{16}|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}"
    r"|ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}|Bearer\s+\S{8,}"
    r"|(?=[A-Za-z]*\d)(?=\w*[a-z])(?=\w*[A-Z])[A-Za-z0-9]{32,}"
    r")"
)
"""How the keys of well-known services look; and any long word of small letters, capitals and digits."""
USER_INFO = re.compile(r"^[a-z][a-z0-9+.-]*://[^/?#]*@", re.IGNORECASE)
QUERY = re.compile(r"^https?://[^?#]*[?#]", re.IGNORECASE)
SURE, LONG = 8, 16
"""A declared key of so many characters is known again as a whole value or part of an address, or anywhere in one."""


def redacted(value: Any) -> Any:
    """Return a copy of settings in which every secret is ``***``: by its type, and by the name of its field."""
    if isinstance(value, Secret):
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if _is_secret(key) and isinstance(item, str) and item else redacted(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted(item) for item in value]
    return value


def secrets_in(value: Any) -> Iterator[Secret]:
    """Find all secrets in settings."""
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if _is_secret(key) and isinstance(item, str) and item:
                yield Secret(item.removeprefix("Bearer ").strip())
            elif key == VARIABLE and isinstance(item, str) and os.environ.get(item):
                yield Secret(os.environ[item])
            else:
                yield from secrets_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from secrets_in(item)


def refuse_misplaced(settings: Mapping[Any, Any]) -> None:
    """Refuse settings in which a key stands where it would be shown: in an address, a name, a prompt, any other field.

    A key is what is declared as one elsewhere in the settings, or looks like one. The message names the field only.

    Raises:
        UsageError: If there is such a key.
    """
    declared = [secret.reveal() for secret in secrets_in(settings)]
    declared += [os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)]
    for path, text in _texts(settings):
        if USER_INFO.match(text):
            raise UsageError(f"{path} holds a user name or a password.", advice=ADVICE)
        if path.endswith("api_base") and QUERY.match(text):
            raise UsageError(f"{path} holds a query, which may be a key.", advice=ADVICE)
        named = path.rpartition(".")[2].lower() in NAMES  # only of what is sent with requests, and kept with results
        if named or KEY_SHAPES.search(text) or any(_holds(text, key) for key in declared):
            raise UsageError(f"{path} holds what looks like an API key.", advice=ADVICE)


ADVICE = "Keys belong into api_key, or better into an environment variable that api_key_variable names."


def _texts(value: Any, path: str = "", *, sent: bool = False) -> Iterator[tuple[str, str]]:
    """Yield all texts but declared keys, with where they stand; a name may be a key as well.

    In what is ``sent`` as it is, no key is declared: it would be kept with the results.
    """
    if isinstance(value, str):
        yield path or "the config", value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield f"{path or 'the config'} (the name of a setting)", str(name)
            if not _is_secret(name) or (sent and str(name).lower() in NAMES):
                yield from _texts(item, f"{path}.{name}" if path else str(name), sent=sent or name == SENT)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _texts(item, f"{path}.{number}", sent=sent)


def _holds(text: str, key: str) -> bool:
    parts = re.split(r"[/?#&=]", text) if "://" in text else [text.strip()]
    return (len(key) >= SURE and key in parts) or (len(key) >= LONG and key in text)


def without(text: str, secrets: Iterable[Secret]) -> str:
    """Blank out secrets in a text."""
    content = text.encode("utf-8", "surrogatepass")
    for secret in secrets:
        content = secret.redact(content)
    return content.decode("utf-8", "surrogatepass")


def _is_secret(name: object) -> bool:
    text = str(name).lower()
    return text in NAMES or text.endswith(ENDINGS)
