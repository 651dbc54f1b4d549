"""The one HTTP client for OpenAI-compatible servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from eyechart.api.answers import Json, one_line
from eyechart.api.budget import Budget
from eyechart.api.errors import EndpointMissingError, ModelNotServedError
from eyechart.api.requests import Reply, Request
from eyechart.api.retry import Retry
from eyechart.api.secret import Secret, find_key
from eyechart.api.sending.flow import Flow
from eyechart.api.sending.pump import Emit, pump
from eyechart.api.sending.workers import Sending
from eyechart.api.transport import Transport, check_api_base
from eyechart.errors import nearest

T = TypeVar("T")

MAX_RESPONSE_BYTES = 128 * 1024 * 1024
_CHECK_SECONDS = 15.0


class ApiClient:
    """Sends requests to one server with bounded concurrency, timeouts, retries, a budget and a hidden key.

    It holds no connection between calls: there is nothing to close. `budget.used` counts what was sent.
    """

    def __init__(
        self,
        api_base: str,
        api_key: Secret | str | None = None,
        *,
        api_key_variable: str | None = None,
        concurrency: int = 8,
        timeout: float = 120.0,
        retry: Retry | None = None,
        budget: Budget | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        if concurrency < 1 or timeout <= 0:
            raise ValueError(f"need concurrency >= 1 and timeout > 0, not {concurrency} and {timeout}")
        self.api_base = check_api_base(api_base)
        self.concurrency = concurrency
        self.retry = retry or Retry()
        self.budget = budget or Budget()
        self._transport = Transport(self.api_base, find_key(api_key, api_key_variable), timeout, max_response_bytes)
        self._flow = Flow(concurrency)

    def __repr__(self) -> str:
        return f"ApiClient({self.api_base!r}, concurrency={self.concurrency})"

    def map(self, requests: Iterable[Request[T]]) -> Iterator[Reply[T]]:
        """Send all requests, at most `concurrency` at a time, and yield the replies as they arrive.

        How many are under way follows the server: see `sending.flow`. Replies come in the order of completion
        and carry the ids of their requests. `requests` is read only as fast as answers come. A request that fails
        for good yields a reply with its error, unless the error is fatal (wrong key, unknown model, server down,
        budget spent, nothing but refusals): then nothing new is sent, what is in flight still arrives, and the error
        is raised at the end. Leaving the loop early cancels what is in flight.
        """

        async def produce(emit: Emit[Reply[T]]) -> None:
            await Sending(self._transport, self.retry, self.budget, self._flow, iter(requests), emit).run()

        return pump(produce, room=self.concurrency)

    def call(self, request: Request[T]) -> T:
        """Send one request and return its value, or raise its error."""
        [reply] = self._alone().map([request])
        return reply.result()

    def check(self, model: str | None = None) -> tuple[str, ...]:
        """See whether the server is there, takes the key and serves the model, before anything is paid.

        Asks GET {api_base}/models and returns the names; none when the server has no such list, in which
        case only the connection and the key are known to be good.
        """
        quick = self._alone(timeout=min(_CHECK_SECONDS, self._transport.timeout))
        try:
            names = quick.call(Request("models", "models", None, _model_names))
        except EndpointMissingError:
            return ()
        if model is not None and names and model not in names and "*" not in names:
            near = nearest(model, names)
            raise ModelNotServedError(
                f"{self.api_base} does not serve the model {model!r} (it serves: {_shortlist(names)}).",
                advice=f"Did you mean {' or '.join(near)}?" if near else "Give one of these names.",
            )
        return names

    def _alone(self, timeout: float | None = None) -> ApiClient:
        return ApiClient(
            self.api_base,
            self._transport.key,
            concurrency=1,
            timeout=timeout or self._transport.timeout,
            retry=self.retry if timeout is None else Retry(tries=min(3, self.retry.tries), first_wait=0.2),
            budget=self.budget if timeout is None else None,
            max_response_bytes=self._transport.max_response_bytes,
        )


def _model_names(body: Json) -> tuple[str, ...]:
    listed = body.get("data", body.get("models"))
    rows = [listed] if isinstance(listed, Mapping) else listed if isinstance(listed, list) else []
    names = [row.get("id", row.get("name")) if isinstance(row, Mapping) else row for row in rows]
    return tuple(name for name in names if isinstance(name, str))


def _shortlist(names: tuple[str, ...], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(one_line(name, 80) for name in names[:limit]) + more
