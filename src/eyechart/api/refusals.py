"""What a server means when it does not answer with success."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eyechart.api import errors
from eyechart.api.retry import is_retried

FATAL_CODES = frozenset({"insufficient_quota", "model_not_found", "invalid_api_key"})
"""What servers call a failure that will meet every request."""
_ANSWERS = ("choices", "data", "results", "models")
_WORDS = ("message", "detail", "msg", "error")
"""Where servers say what is wrong."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status of 300 or more and what is known of the request it answers. Texts are ready to be shown."""

    api_base: str
    path: str
    model: str
    status: int
    code: str
    said: str
    names_model: bool
    """The server's words repeat the name of the model."""
    location: str

    def error(self) -> errors.ApiError:
        """Make the error that says it clearly."""
        if 300 <= self.status < 400:
            return self._redirect()
        if self.code in ("insufficient_quota", "invalid_api_key") or self.status in (401, 403):
            return self._key()
        if self.code == "model_not_found" or (self.status == 404 and self.names_model):
            return errors.ModelNotServedError(
                f"{self.api_base} does not serve the model {self.model!r}: {self.said}",
                advice=f"GET {self.api_base}/models lists what it serves.",
            )
        if self.status in (404, 405):
            return errors.EndpointMissingError(
                f"{self.api_base} has no endpoint /{self.path} (status {self.status}): {self.said}",
                advice="Does api_base end where the API begins (often /v1), and can this server do that?",
            )
        if is_retried(self.status):
            return errors.ServerBusyError(f"{self.api_base} failed with status {self.status}: {self.said}")
        return errors.RequestRefusedError(f"{self.api_base} refuses the request (status {self.status}): {self.said}")

    def _redirect(self) -> errors.ApiError:
        return errors.RedirectRefusedError(
            f"{self.api_base} redirects to {self.location}; requests are not sent on, because they carry the API key.",
            advice="If you trust that address, set api_base to it.",
        )

    def _key(self) -> errors.ApiError:
        if self.code == "insufficient_quota":
            return errors.KeyRefusedError(
                f"The account behind this API key has no credit left at {self.api_base}: {self.said}",
                advice="Check the plan and the billing of the account.",
            )
        return errors.KeyRefusedError(
            f"{self.api_base} refuses the API key (status {self.status}): {self.said}",
            advice="Give another key (api_key, or the environment variable EYECHART_API_KEY).",
        )


def failure_in(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the part of an answer with a status of success that says that it is none; None if it says nothing.

    Gateways report errors like that: instead of an answer, beside an empty one, or within its first choice.
    """
    answer = next((body[name] for name in _ANSWERS if body.get(name)), None)
    if answer is None:
        return body if body.get("object") == "error" or any(body.get(name) for name in _WORDS) else None
    first = answer[0] if isinstance(answer, list) else None
    return first if isinstance(first, Mapping) and first.get("error") else None


def read_error(content: bytes) -> tuple[str, str]:
    """Find the code and the words in an error answer, in any of the usual shapes; else its text as it is."""
    text = content.decode("utf-8", "replace")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return "", text
    if not isinstance(body, Mapping):
        return "", text
    error = body.get("error")
    inner = error if isinstance(error, Mapping) else body
    words = next((inner[key] for key in _WORDS if inner.get(key)), text)
    return str(inner.get("code") or ""), words if isinstance(words, str) else json.dumps(words)
