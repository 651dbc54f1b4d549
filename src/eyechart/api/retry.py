"""When to try again, and how long to wait before."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from eyechart.api.errors import ApiError

RETRIED_STATUSES = frozenset({408, 409, 425, 429})
"""Besides these, every 5xx."""
BUSY_STATUSES = frozenset({429, 529})
"""The server has too much to do, whatever the request."""
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential waits with jitter: each between half and all of first, 2 x first, 4 x first ... up to longest."""

    tries: int = 6
    first_wait: float = 0.5
    longest_wait: float = 30.0
    longest_retry_after: float = 300.0
    """A server that asks for a longer pause than this is not waited for."""

    @property
    def refusals(self) -> int:
        """How often a server may refuse everything, without an answer in between, before the run ends.

        More often than a single request is tried: limits by the minute last a minute.
        """
        return 2 * self.tries - 1

    def wait(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row."""
        full = min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 32))
        return full * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing

    def after(self, failure: TransientError, failures: int) -> float:
        """Seconds to wait after a failure: as the server asks, if it does.

        Raises:
            ApiError: If it asks for too long a pause.
        """
        if failure.retry_after is None:
            return self.wait(failures)
        if failure.retry_after > self.longest_retry_after:
            error = failure.error
            raise type(error)(
                f"{error.message} (it asks to wait {failure.retry_after:.0f} s)", advice="Run again later."
            )
        # Beyond the asked time a little spread, so that not all waiting requests come back at once.
        return failure.retry_after + min(self.wait(failures), self.first_wait)


class TransientError(Exception):
    """Internal: a failure worth another try, with the error to raise when there is none left."""

    def __init__(self, error: ApiError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after

    def last(self, tries: int, *, fatal: bool = False) -> ApiError:
        """Return the error to raise when there is no try left; a fatal one ends the run."""
        words = f"{self.error.message} (tried {tries} times)" if tries > 1 else self.error.message
        error = type(self.error)(words, advice=self.error.advice)
        error.fatal = fatal or error.fatal
        return error


class BusyError(TransientError):
    """Internal: the request was one too many; others may be answered meanwhile."""


def is_retried(status: int) -> bool:
    """Tell whether an HTTP status may pass by itself."""
    return status in RETRIED_STATUSES or 500 <= status <= 599


def read_retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that a server asks to wait; None when it says nothing.

    ``retry-after-ms`` is OpenAI's and Azure's; ``Retry-After`` is a number (RFC 9110 wants whole ones, but fractions
    are sent) or a date.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        text = (headers.get(name) or "").strip()
        if _NUMBER.fullmatch(text):
            return float(text) / unit
    try:
        moment = parsedate_to_datetime(headers.get("retry-after") or "").timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, moment - (time.time() if now is None else now))
