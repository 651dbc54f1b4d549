"""What can go wrong with an API, each with one clear message.

A `fatal` error will meet every further request as well: a run stops there. The others concern one request.
"""

from __future__ import annotations

from eyechart.errors import ModelError


class ApiError(ModelError):
    """Base of all API errors."""

    fatal = False


class UnreachableError(ApiError):
    """No server answers at the address."""

    fatal = True


class KeyRefusedError(ApiError):
    """The key is wrong, lacks a right, or its account has no credit."""

    fatal = True


class ModelNotServedError(ApiError):
    """The server does not know the model."""

    fatal = True


class EndpointMissingError(ApiError):
    """The server has no such endpoint."""

    fatal = True


class RedirectRefusedError(ApiError):
    """The server points elsewhere; the key is not taken there."""

    fatal = True


class BudgetExceededError(ApiError):
    """The cap on requests or tokens is reached."""

    fatal = True


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
