"""API errors. A `fatal` error ends the run; any other concerns a single request."""

from eyechart.errors import ModelError


class ApiError(ModelError):
    """Base of all API errors."""

    fatal = False


class FatalApiError(ApiError):
    """An error that every further request would raise as well."""

    fatal = True


class UnreachableError(FatalApiError):
    """No server responds at the address."""


class KeyRefusedError(FatalApiError):
    """The key is wrong, lacks a permission, or its account has no credit."""


class ModelNotServedError(FatalApiError):
    """The server does not know the model."""


class EndpointMissingError(FatalApiError):
    """The server has no such endpoint."""


class RedirectRefusedError(FatalApiError):
    """The server redirects; the key is not sent to another address."""


class BudgetExceededError(FatalApiError):
    """The limit on requests or tokens is reached."""


class RequestRefusedError(ApiError):
    """The server rejects this request: too long, an unknown parameter, an unreadable image."""

    body: str = ""
    """The error response, redacted."""


class KeyInAnswerError(ApiError):
    """A response contains the API key and is discarded."""


class ServerBusyError(ApiError):
    """The server was overloaded or failed on every attempt."""


class AnswerTimeoutError(ApiError):
    """No complete response arrived in time on any attempt."""


class ConnectionCutError(ApiError):
    """The connection was closed before the response was complete, on every attempt."""


class BadAnswerError(ApiError):
    """The response violates the API: not JSON, a different shape, too large."""
