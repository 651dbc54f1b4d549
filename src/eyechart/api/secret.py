"""An API key that cannot be printed or logged by accident."""

from __future__ import annotations

import hmac
import os

from eyechart.errors import UsageError

NO_KEY = "EMPTY"
"""What is sent when there is no key: local servers want a header but do not read it."""
KEY_VARIABLES = ("EYECHART_API_KEY", "OPENAI_API_KEY")


class Secret:
    """A string that shows itself as ``***``; only `reveal` gives it away, and a pickle on its way to a worker."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself, for the one place that sends it."""
        return self._value

    def redact(self, content: bytes) -> bytes:
        """Replace the secret wherever an answer repeats it: servers like to quote a wrong key."""
        if len(self._value) < 4 or self._value == NO_KEY:
            return content
        return content.replace(self._value.encode(), b"***")

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self._value)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Secret:
        return self

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._value,)


def find_key(key: Secret | str | None = None, variable: str | None = None) -> Secret:
    """Return the key as given, else from an environment variable, else the placeholder ``EMPTY``.

    `variable` names the one to read (it must then be set); without it `KEY_VARIABLES` are tried in order.
    """
    if isinstance(key, Secret):
        return key
    if key:
        return _checked(key, "the API key")
    if variable:
        if not os.environ.get(variable):
            raise UsageError(
                f"The environment variable {variable} is not set.", advice="Set it to the API key, or name another."
            )
        return _checked(os.environ[variable], f"the API key in {variable}")
    for name in KEY_VARIABLES:
        if os.environ.get(name):
            return _checked(os.environ[name], f"the API key in {name}")
    return Secret(NO_KEY)


def _checked(key: str, what: str) -> Secret:
    # A header cannot hold these, and the HTTP library's error would quote the key.
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"{what[0].upper()}{what[1:]} is empty or holds a space, a line break or a letter outside ASCII.",
            advice="Copy it again, without quotes and line breaks.",
        )
    return Secret(key)
