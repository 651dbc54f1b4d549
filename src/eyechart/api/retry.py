"""When to try again, and how long to wait before."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from eyechart.api.errors import ApiError

RETRIED_STATUSES = frozenset({408, 409, 425, 429})
"""Besides these, every 5xx."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential waits with jitter: each between half and all of first, 2 x first, 4 x first ... up to longest."""

    tries: int = 6
    first_wait: float = 0.5
    longest_wait: float = 30.0
    longest_retry_after: float = 300.0
    """A server that asks for a longer pause than this is not waited for."""

    def wait(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row."""
        full = min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 32))
        return full * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


class TransientError(Exception):
    """Internal: a failure worth another try, with the error to raise when there is none left."""

    def __init__(self, error: ApiError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


def is_retried(status: int) -> bool:
    """Tell whether an HTTP status may pass by itself."""
    return status in RETRIED_STATUSES or 500 <= status <= 599


def read_retry_after(header: str | None, now: float | None = None) -> float | None:
    """Seconds that a `Retry-After` header asks for (RFC 9110: a number or a date); None when it says nothing."""
    if not header:
        return None
    header = header.strip()
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        moment = parsedate_to_datetime(header).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, moment - (time.time() if now is None else now))
