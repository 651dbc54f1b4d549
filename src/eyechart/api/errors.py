"""What can go wrong with an API, each with one clear message.

At a `fatal` error a run stops. The others concern one request.
"""

from __future__ import annotations

from eyechart.errors import ModelError


class ApiError(ModelError):
    """Base of all API errors."""

    fatal = False


class FatalApiError(ApiError):
    """Will meet every further request as well."""

    fatal = True


class UnreachableError(FatalApiError):
    """No server answers at the address."""


class KeyRefusedError(FatalApiError):
    """The key is wrong, lacks a right, or its account has no credit."""


class ModelNotServedError(FatalApiError):
    """The server does not know the model."""


class EndpointMissingError(FatalApiError):
    """The server has no such endpoint."""


class RedirectRefusedError(FatalApiError):
    """The server points elsewhere; the key is not taken there."""


class BudgetExceededError(FatalApiError):
    """The cap on requests or tokens is reached."""


class RequestRefusedError(ApiError):
    """The server refuses this request: too long, a parameter it does not know, an image it cannot read."""


class ServerBusyError(ApiError):
    """The server was overloaded or failed at every try."""


class AnswerTimeoutError(ApiError):
    """No whole answer came in time, at any try."""


class ConnectionCutError(ApiError):
    """The connection broke off before the answer was complete, at every try."""


class BadAnswerError(ApiError):
    """The answer is not what the API promises: no JSON, another shape, too large."""
