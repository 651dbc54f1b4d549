"""When failures, each of a single request, must be taken for a failure of them all."""

from __future__ import annotations

import re
from typing import Any

from eyechart.api.errors import ApiError, FatalApiError, RequestRefusedError
from eyechart.api.requests import Reply

MANY = 20
_NUMBERED = re.compile(r"[\w-]*\d[\w-]*")
"""Numbers, and the names that servers give to single requests."""


class AllAlikeError(FatalApiError):
    """Request after request fails in the same way: the run stops before it has paid for all of them."""


class InARow:
    """Counts requests that failed alike, one after the other.

    What the server refuses for what it is (an image too small, a text too long) counts only until something has been
    answered: twenty such images in a row do not make the server useless.
    """

    def __init__(self) -> None:
        self._count = 0
        self._last = ""
        self._answered = False

    def see(self, reply: Reply[Any] | None) -> None:
        """Count a reply.

        Raises:
            AllAlikeError: If it is the last of too many.
        """
        error = None if reply is None else reply.error
        if reply is not None and error is None:
            self._answered, self._count = True, 0
        if not isinstance(error, ApiError) or (self._answered and isinstance(error, RequestRefusedError)):
            return
        words = _NUMBERED.sub("#", error.message)
        self._count = self._count + 1 if words == self._last else 1
        self._last = words
        if self._count >= MANY:
            raise AllAlikeError(
                f"{MANY} requests in a row failed alike, the last with: {error.message}",
                advice=error.advice or "Correct what the server says; what was answered before is kept.",
            )
