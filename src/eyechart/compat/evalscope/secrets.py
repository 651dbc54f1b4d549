"""Keys out of everything that is written: the config, the log, messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from eyechart.api import Secret

HIDDEN = "***"
NAMES = frozenset({"api_key", "apikey", "key", "token", "authorization", "password", "secret", "credentials"})
ENDINGS = ("_key", "_token", "-key", "-token", "_secret", "_password")


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
                yield Secret(item)
            else:
                yield from secrets_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from secrets_in(item)


def without(text: str, secrets: Iterable[Secret]) -> str:
    """Blank out secrets in a text."""
    content = text.encode("utf-8", "surrogatepass")
    for secret in secrets:
        content = secret.redact(content)
    return content.decode("utf-8", "surrogatepass")


def _is_secret(name: object) -> bool:
    text = str(name).lower()
    return text in NAMES or text.endswith(ENDINGS)
