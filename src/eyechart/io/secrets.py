"""API keys and other secrets: finding, recognising and redacting them.

Messages, logs, errors, settings, commands and addresses are redacted. Model responses never are: one that contains the
key is a failed request (see `Secret.is_in`).
"""

from __future__ import annotations

import base64
import hmac
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from eyechart.errors import UsageError
from eyechart.messages import UserMessage

HIDDEN = "***"
NO_KEY = "EMPTY"
"""Sent when there is no key: local servers require the header but ignore its value."""
KEY_VARIABLES = ("EYECHART_API_KEY", "OPENAI_API_KEY")
MIN_LENGTH = 12
"""Shorter keys (EMPTY, None, sk-none, ...) are placeholders for servers without authentication, and ordinary words."""
NAMES = frozenset({"api_key", "apikey", "key", "token", "authorization", "password", "secret", "credentials"})
SECRET_NAME = re.compile(rf"(?:.*[-_])?(?:{'|'.join(sorted(NAMES))})", re.IGNORECASE)
"""The name of a flag, a setting or an option (``--model_option api_key=...``) whose value is a secret."""
VARIABLE, SENT = "api_key_variable", ("extra_body", "settings")
SERVICE_KEYS = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,}"
    r"|(?:(?:xai|nvapi|pplx)-|(?:gsk|hf|ghp|gho|jina|r8|tgp)_)(?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{16,}"
    r"|AIza[A-Za-z0-9_-]{30,}|AKIA[A-Z0-9]{16}|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}"
    r"|ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}|Bearer\s+\S{8,})"
)
"""Keys of well-known services."""
LONG_WORD = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z]*\d)(?=\w*[a-z])(?=\w*[A-Z])[A-Za-z0-9]{32,}")
"""Any long word that mixes lower case, upper case and digits."""
USER_INFO = re.compile(r"^[a-z][a-z0-9+.-]*://[^/?#]*@", re.IGNORECASE)
QUERY = re.compile(r"^https?://[^?#]*[?#]", re.IGNORECASE)
SURE, LONG = 8, 16
"""Minimum length of a declared key to be recognised as a whole value or part of an address, and anywhere in a text."""
ADVICE = UserMessage("Put keys into api_key, or better into an environment variable named by api_key_variable.")


class Secret:
    """A string whose representation is ``***``; only `reveal` and pickling (for worker processes) expose it."""

    __slots__ = ("_pattern", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        self._pattern: re.Pattern[str] | None = None

    def reveal(self) -> str:
        """Return the secret itself, for the one place that sends it."""
        return self._value

    @property
    def is_real(self) -> bool:
        """False for placeholders, which are not secret and may occur in any text."""
        return len(self._value) >= MIN_LENGTH

    def redact(self, text: str) -> str:
        """Replace the secret in a message, plain or encoded: servers may quote a wrong key."""
        return self._matcher().sub(HIDDEN, text) if self.is_real else text

    def is_in(self, value: object) -> bool:
        """Whether parsed JSON, or a dataclass made from it, contains the secret in any of its texts."""
        if not self.is_real:
            return False
        matcher, left = self._matcher(), [value]
        while left:  # not recursive: a hostile answer may be nested deeply
            one = left.pop()
            if isinstance(one, str):
                if matcher.search(one):
                    return True
            elif isinstance(one, Mapping):
                left += [*one.keys(), *one.values()]
            elif isinstance(one, list | tuple):
                left += [item for item in one if not isinstance(item, float | int)]
            elif is_dataclass(one):
                left += [getattr(one, field.name) for field in fields(one)]
        return False

    def _matcher(self) -> re.Pattern[str]:
        """Match the secret as it is, or in hexadecimal, Base64, or with JSON, URL or HTML escapes."""
        if self._pattern is None:
            raw = self._value.encode()
            escaped = "".join(
                rf"(?:{re.escape(char)}|\\{re.escape(char)}|\\u{ord(char):04x}|%{ord(char):02x}"
                rf"|&#(?:0*{ord(char)}|x0*{ord(char):x});)"
                for char in self._value
            )
            coded = [re.escape(text) for text in (raw.hex(), base64.b64encode(raw).decode().rstrip("="))]
            # Hexadecimal digits come in either case; ignoring it for the key as well does no harm.
            self._pattern = re.compile(f"(?i:{escaped}|{coded[0]})|{coded[1]}")
        return self._pattern

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._value,)


def find_key(key: Secret | str | None = None, variable: str | None = None) -> Secret:
    """Return the key as given, else from an environment variable, else the placeholder ``EMPTY``.

    `variable` names the one to read (it must then be set); without it `KEY_VARIABLES` are tried in order.
    """
    if isinstance(key, Secret):
        return key
    if key:
        return _checked(key, "The API key")
    for name in (variable,) if variable else KEY_VARIABLES:
        if os.environ.get(name):
            return _checked(os.environ[name], f"The API key in {name}")
    if variable and not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,60}", variable):  # it may be the key: it is not repeated
        text = "{--api_key_variable} must name an environment variable that is set."
        raise UsageError(text, advice="It takes no key.")
    if variable:
        advice = "Set it to the API key, or name another variable."
        raise UsageError("The environment variable {name} is not set.", advice=advice, name=variable)
    return Secret(NO_KEY)


def _checked(key: str, what: str) -> Secret:
    # A header cannot hold these, and the HTTP library's error would quote the key.
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        text = "{what} is empty or contains a space, a line break or a non-ASCII character."
        raise UsageError(text, advice="Copy it again, without quotes and line breaks.", what=what)
    return Secret(key)


def environment_keys() -> list[Secret]:
    """Return the keys in the environment variables that are read without being named."""
    return [Secret(os.environ[name].strip()) for name in KEY_VARIABLES if os.environ.get(name)]


def redact_text(text: str, secrets: Iterable[Secret]) -> str:
    """Replace secrets in a text."""
    for secret in secrets:
        text = secret.redact(text)
    return text


def redact_message(text: str) -> str:
    """Replace keys in a message for people: those of the environment, and whatever looks like a service's key."""
    return SERVICE_KEYS.sub(HIDDEN, redact_text(text, environment_keys()))


def redact_settings(value: Any) -> Any:
    """Return a copy of settings in which every secret is ``***``: by its type, and by the name of its field."""
    if isinstance(value, Secret):
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if _is_secret(key) and isinstance(item, str) and item else redact_settings(item)
            for key, item in value.items()
        }
    return [redact_settings(item) for item in value] if isinstance(value, list | tuple) else value


def redact_command(command: Sequence[str]) -> list[str]:
    """Replace the values of flags and options that carry a secret, credentials in addresses, and the keys in use."""
    keys, out, hide = environment_keys(), list[str](), False
    for word in command:
        name, equals, _ = word.partition("=")
        secret = _is_secret(name)
        shown = redact_text(_without_credentials(word), keys)
        out.append(HIDDEN if hide else f"{name}={HIDDEN}" if secret and equals else shown)
        hide = secret and not equals and word.startswith("-")
    return out


def _without_credentials(word: str) -> str:
    """Redact an address with a user name or a query, alone or as the value of a flag (``--flag=address``)."""
    start = re.match(r"(?:-[^=:]*=)?(?=[a-z][a-z0-9+.-]*://\S+$)", word, re.IGNORECASE)
    address = word[start.end() :] if start else ""
    if start is None or not (USER_INFO.match(address) or QUERY.match(address)):
        return word
    try:
        return start[0] + redact_url(address)
    except ValueError:  # not an address after all, but it may hold a password
        return start[0] + HIDDEN


def redact_url(url: str) -> str:
    """Return an address without user name, password, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, (parts.hostname or "") + port, parts.path, "", ""))


def secrets_in(settings: Any) -> Iterator[Secret]:
    """Yield all secrets in settings."""
    if isinstance(settings, Secret):
        yield settings
    elif isinstance(settings, Mapping):
        for key, item in settings.items():
            if _is_secret(key) and isinstance(item, str) and item:
                yield Secret(item.removeprefix("Bearer ").strip())
            elif key == VARIABLE and isinstance(item, str) and os.environ.get(item):
                yield Secret(os.environ[item])
            else:
                yield from secrets_in(item)
    elif isinstance(settings, list | tuple):
        for item in settings:
            yield from secrets_in(item)


def refuse_misplaced(settings: Mapping[Any, Any]) -> None:
    """Reject settings with a key where it would be shown: in an address, a name, a prompt or any other field.

    A key is any value declared as one elsewhere in the settings, or one that looks like one. The message names the
    field only.
    """
    declared = [secret.reveal() for secret in (*secrets_in(settings), *environment_keys())]
    for path, text in _texts(settings):
        if USER_INFO.match(text):
            raise UsageError("{path} contains a user name or a password.", advice=ADVICE, path=path)
        if path.endswith("api_base") and QUERY.match(text):
            raise UsageError("{path} contains a query, which may be a key.", advice=ADVICE, path=path)
        # Only fields that are sent with requests and stored with results have such a name here.
        named = path.rpartition(".")[2].lower() in NAMES
        shaped = SERVICE_KEYS.search(text) or (LONG_WORD.search(text) and not os.path.exists(text))  # noqa: PTH110 - Path.exists raises for long texts
        if named or shaped or any(_holds(text, key) for key in declared):
            raise UsageError("{path} contains what looks like an API key.", advice=ADVICE, path=path)


def _texts(value: Any, path: str = "", *, sent: bool = False) -> Iterator[tuple[str, str]]:
    """Yield all texts except declared keys, with their path; the name of a setting may be a key as well.

    Nothing that is ``sent`` verbatim counts as declared: it would be stored with the results.
    """
    if isinstance(value, str):
        yield path or "the config", value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield f"{path or 'the config'} (the name of a setting)", str(name)
            if not _is_secret(name) or (sent and str(name).lower() in NAMES):
                yield from _texts(item, f"{path}.{name}" if path else str(name), sent=sent or name in SENT)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _texts(item, f"{path}.{number}", sent=sent)


def _holds(text: str, key: str) -> bool:
    parts = re.split(r"[/?#&=]", text) if "://" in text else [text.strip()]
    return (len(key) >= SURE and key in parts) or (len(key) >= LONG and key in text)


def _is_secret(name: object) -> bool:
    return SECRET_NAME.fullmatch(str(name)) is not None
