"""One HTTP exchange: bytes out, a JSON object back, every failure and refusal a clear error."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from eyechart.api import errors
from eyechart.api.limiter import BUSY_STATUSES, BusyError, TransientError, is_retried, read_retry_after
from eyechart.api.requests import Json, one_line, whole
from eyechart.errors import UsageError
from eyechart.io.secrets import Secret

if TYPE_CHECKING:
    import httpx2


FATAL_CODES = frozenset({"insufficient_quota", "model_not_found", "invalid_api_key"})
"""Error codes that apply to every request."""
_ANSWERS = ("choices", "data", "results", "models", "embeddings")
_WORDS = ("message", "detail", "msg", "error")
"""Fields that hold the error text."""


def failure_in(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the error inside a response with a success status; None if there is none.

    Gateways report errors that way: instead of a result, next to an empty one, or within its first choice.
    """
    answer = next((body[name] for name in _ANSWERS if body.get(name)), None)
    if answer is None:
        return body if body.get("object") == "error" or any(body.get(name) for name in _WORDS) else None
    first = answer[0] if isinstance(answer, list) else None
    return first if isinstance(first, Mapping) and first.get("error") else None


def read_error(content: bytes) -> tuple[str, str]:
    """Extract code and text from an error response of any of the usual shapes; by default its whole text."""
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


T = TypeVar("T")
_QUOTED = 200  # characters of a response quoted in an error
_STATUSES = frozenset(map(str, range(400, 600)))


@dataclass(frozen=True)
class Transport:
    """Address, key and limits of a server."""

    api_base: str
    key: Secret
    timeout: float
    max_response_bytes: int
    key_header: str = ""
    """Header of the key; empty for the Bearer scheme."""

    def sessions(self, count: int) -> Iterator[httpx2.AsyncClient]:
        """Create sessions of one connection each; the caller closes them."""
        import httpx2

        certificates = httpx2.create_ssl_context()
        for _ in range(count):
            yield httpx2.AsyncClient(
                auth=self._authorise,
                limits=httpx2.Limits(max_connections=1, max_keepalive_connections=1),
                verify=certificates,
                # Not followed: a request carries the key and images, which only the configured address may get.
                follow_redirects=False,
                # A proxy from the environment cannot reach this machine's loopback.
                trust_env=not is_loopback(self.api_base),
            )

    def _authorise(self, request: httpx2.Request) -> httpx2.Request:
        """Set the header of the key; no variable or argument of ours holds its text."""
        bearer = "" if self.key_header else "Bearer "
        request.headers[self.key_header or "Authorization"] = f"{bearer}{self.key.reveal()}"
        return request

    async def exchange(self, session: httpx2.AsyncClient, path: str, body: bytes | None, model: str) -> Json:
        """Send one request (GET without a body) and return the JSON object. TransientError: a retry may help."""
        import httpx2

        url, headers, times = self._head(path, is_post=body is not None)
        method = "GET" if body is None else "POST"
        request = httpx2.Request(method, url, content=body, headers=headers, extensions={"timeout": times})
        failure: Exception
        try:
            async with asyncio.timeout(self.timeout):  # httpx2's limits are per read: a slow drip passes them
                response = await session.send(request, stream=True)
                try:
                    content = await self._read(response)
                finally:
                    await response.aclose()
        except (TimeoutError, httpx2.ReadTimeout, httpx2.WriteTimeout):
            late = errors.AnswerTimeoutError(
                "{address} sent no complete response within {n:g} s.",
                advice="Raise the timeout, or lower the concurrency if the server is overloaded.",
                address=self.api_base,
                n=self.timeout,
            )
            failure = TransientError(late)
        except httpx2.DecodingError:
            failure = errors.BadAnswerError(
                "The response of {api_base} cannot be decompressed.", api_base=self.api_base
            )
        except httpx2.TransportError as error:
            fields = {"address": self.api_base, "reason": self.quote(str(error) or type(error).__name__)}
            unreachable = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError)
            failure = TransientError(
                errors.UnreachableError(
                    "Cannot connect to {address}: {reason}", advice="Start the server, or fix {--api_base}.", **fields
                )
                if unreachable
                else errors.ConnectionCutError("{address} closed the connection: {reason}", **fields)
            )
        else:
            if response.status_code < 300:
                found = self._parse(content, path, model)
            else:
                found = self._refused(response.status_code, *read_error(content), path, model, response.headers)
                if isinstance(found, errors.RequestRefusedError):
                    found.body = self.key.redact(content.decode(errors="replace"))
            # A response may echo the key: no frame of a traceback may have it among its variables.
            del content, response
            if not isinstance(found, Exception):
                return found
            failure = found
        # Raised here so that no traceback shows frames of the HTTP library, whose variables hold the key.
        raise failure

    @cache  # noqa: B019 - few paths, and one transport per server
    def _head(self, path: str, *, is_post: bool) -> tuple[httpx2.URL, httpx2.Headers, dict[str, float | None]]:
        """Build URL, headers and timeouts once: that takes longer than sending a request."""
        import httpx2

        from eyechart import __version__

        headers = {"User-Agent": f"eyechart/{__version__}", "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
        kind = {"Content-Type": "application/json"} if is_post else {}
        times = httpx2.Timeout(self.timeout, connect=min(self.timeout, 15.0), pool=None).as_dict()
        return httpx2.URL(f"{self.api_base}/{path}"), httpx2.Headers({**headers, **kind}), times

    async def _read(self, response: httpx2.Response) -> bytes:
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > self.max_response_bytes:
                del content, chunk
                raise errors.BadAnswerError(
                    "The response of {api_base} is larger than {max_response_bytes} bytes.",
                    advice="Request fewer items at a time, or raise max_response_bytes.",
                    api_base=self.api_base,
                    max_response_bytes=self.max_response_bytes,
                )
        return bytes(content)

    def _parse(self, content: bytes, path: str, model: str) -> Json | Exception:
        """Parse a response with a success status; it may still be an error or truncated."""
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            bad = errors.BadAnswerError(
                "{address} did not return JSON: {text}",
                advice="Check that the server is OpenAI-compatible and that api_base ends at the API root (/v1).",
                address=self.api_base,
                text=self.quote(content.decode(errors="replace")),
            )
            # A web page is permanent; a truncated body may be complete on the next attempt.
            return bad if content.lstrip()[:1] == b"<" else TransientError(bad)
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            return {"data": value}  # some servers send the list without the enclosing object
        if not isinstance(value, dict):
            none = errors.BadAnswerError(
                "{api_base} did not return a JSON object: {excerpt}",
                api_base=self.api_base,
                excerpt=self.quote(content.decode(errors="replace")),
            )
            return TransientError(none)
        failed = failure_in(value)
        if failed is None:
            return value
        code, words = read_error(json.dumps(failed).encode())
        if code in _STATUSES or code in FATAL_CODES:
            return self._refused(int(code) if code in _STATUSES else 200, code, words, path, model, {})
        said = self.quote(words)
        return TransientError(
            errors.BadAnswerError("{api_base} returned an error: {said}", api_base=self.api_base, said=said)
        )

    def read(self, answer: Json, parse: Callable[[Json], T]) -> T | Exception:
        """Parse a response; one of the wrong shape is retried, as it may be truncated.

        Responses are never redacted: one that contains the key, before or after parsing, is an error.
        """
        echo = errors.KeyInAnswerError(
            "The response of {api_base} contains the API key and is discarded.", api_base=self.api_base
        )
        if self.key.is_in(answer):
            return echo
        try:
            value = parse(answer)
        except errors.BadAnswerError as error:
            return TransientError(type(error)(self.key.redact(error.message), advice=error.advice))
        return echo if self.key.is_in(value) else value

    def quote(self, text: str) -> str:
        """Quote the beginning of a foreign text, without the key and control characters."""
        return repr(one_line(self.key.redact(whole(text)), _QUOTED))

    def _refused(
        self, status: int, code: str, words: str, path: str, model: str, headers: Mapping[str, str]
    ) -> Exception:
        """Return the error for a refused request, to be retried or to be raised."""
        said = self.quote(words or f"status {status}")
        fields: dict[str, Any] = {"address": self.api_base, "status": status, "reason": said}
        error: errors.ApiError
        if 300 <= status < 400:
            error = errors.RedirectRefusedError(
                "{api_base} redirects to {location}; redirects are not followed, because requests carry the API key.",
                advice="If you trust that address, set api_base to it.",
                api_base=self.api_base,
                location=self.quote(headers.get("location", "nowhere")),
            )
        elif code == "insufficient_quota" or status == 402:
            error = errors.KeyRefusedError(
                "The account behind this API key has no credit left at {address}: {reason}",
                advice="Check the plan and billing of the account.",
                **fields,
            )
        elif code == "invalid_api_key" or status in (401, 403) or "API key not valid" in words:  # as Gemini says it
            error = errors.KeyRefusedError(
                "{address} rejected the API key (status {status}): {reason}",
                advice="Set another key (api_key, or the environment variable EYECHART_API_KEY).",
                **fields,
            )
        elif code == "model_not_found" or (status == 404 and model and model in words):
            error = errors.ModelNotServedError(
                "{address} does not serve the model {name!r}: {reason}",
                advice="GET {address}/models lists the served models.",
                name=model,
                **fields,
            )
        elif status in (404, 405):
            error = errors.EndpointMissingError(
                "{address} has no endpoint /{path} (status {status}): {reason}",
                advice="Check that api_base ends at the API root (often /v1) and that the server has this endpoint.",
                path=path,
                **fields,
            )
        elif is_retried(status):
            # A Retry-After means that the server is overloaded.
            retry_after = read_retry_after(headers)
            busy = status in BUSY_STATUSES or (status == 503 and retry_after is not None)
            error = errors.ServerBusyError("{address} failed with status {status}: {reason}", **fields)
            return (BusyError if busy else TransientError)(error, retry_after)
        else:
            error = errors.RequestRefusedError("{address} rejected the request (status {status}): {reason}", **fields)
            error.body = self.key.redact(whole(words))
        return error


def check_api_base(api_base: str) -> str:
    """Return the address without a trailing slash.

    Anything but http(s) is a UsageError; so is a password or a query, which would end up in logs.
    """
    parts = urlsplit(api_base.strip())
    try:
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        fine = False
    if not fine:
        raise UsageError(
            "api_base is not an http(s) URL: {address!r}.", advice="Example: http://localhost:8000/v1", address=api_base
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "api_base must not contain a user name, a password or a query.", advice="Set the key as api_key."
        )
    return api_base.strip().rstrip("/")


def is_loopback(api_base: str) -> bool:
    """Whether the address is this machine."""
    host = urlsplit(api_base).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
