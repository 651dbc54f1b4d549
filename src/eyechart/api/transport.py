"""One HTTP exchange: bytes out, a JSON object back, every failure a clear error."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from eyechart.api import errors
from eyechart.api.answers import Json, one_line, whole
from eyechart.api.refusals import FATAL_CODES, Refusal, failure_in, read_error
from eyechart.api.retry import BUSY_STATUSES, BusyError, TransientError, is_retried, read_retry_after
from eyechart.api.secret import Secret
from eyechart.errors import UsageError

if TYPE_CHECKING:
    import ssl

    import httpx2

_QUOTED = 200  # characters of a foreign answer that an error repeats
_STATUSES = frozenset(map(str, range(400, 600)))


@dataclass(frozen=True)
class Transport:
    """Where requests go and within what limits."""

    api_base: str
    key: Secret
    timeout: float
    max_response_bytes: int

    def sessions(self, count: int) -> Iterator[httpx2.AsyncClient]:
        """Make sessions of one connection each; the caller closes them."""
        import httpx2

        certificates = httpx2.create_ssl_context()
        return (self._session(certificates) for _ in range(count))

    def _session(self, certificates: ssl.SSLContext) -> httpx2.AsyncClient:
        import httpx2

        return httpx2.AsyncClient(
            auth=_bearer(self.key),
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=1),
            verify=certificates,
            # Never followed: the request, with its key and images, goes where the user said or nowhere.
            follow_redirects=False,
            # A proxy of the environment cannot reach this machine's own loopback.
            trust_env=not is_loopback(self.api_base),
        )

    async def exchange(self, session: httpx2.AsyncClient, path: str, body: bytes | None, model: str) -> Json:
        """Send one request (GET when there is no body) and return the JSON object that answers it.

        Raises:
            TransientError: If another try may help.
            ApiError: If it will not.
        """
        import httpx2

        url, headers, times = self._head(path, is_post=body is not None)
        method = "GET" if body is None else "POST"
        request = httpx2.Request(method, url, content=body, headers=headers, extensions={"timeout": times})
        failure: Exception
        try:
            async with asyncio.timeout(self.timeout):  # httpx2's own limits are per read: a slow drip passes them
                response = await session.send(request, stream=True)
                try:
                    content = await self._read(response)
                finally:
                    await response.aclose()
        except (TimeoutError, httpx2.ReadTimeout, httpx2.WriteTimeout):
            failure = TransientError(self._late())
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            failure = TransientError(self._unreachable(error))
        except httpx2.DecodingError:
            failure = errors.BadAnswerError(f"The answer of {self.api_base} cannot be decompressed.")
        except httpx2.TransportError as error:
            failure = TransientError(self._cut(error))
        else:
            if response.status_code < 300:
                return self._parse(content, path, model)
            failure = self._refusal(response, content, path, model)
        # Raised out here, so that no traceback shows the HTTP library's frames, whose variables hold the key.
        raise failure

    @cache  # noqa: B019 - few paths, and as many transports as there are servers
    def _head(self, path: str, *, is_post: bool) -> tuple[httpx2.URL, httpx2.Headers, dict[str, float | None]]:
        """Make what all requests have in common, once: that takes longer than sending them."""
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
                raise errors.BadAnswerError(
                    f"The answer of {self.api_base} is larger than {self.max_response_bytes} bytes.",
                    advice="Ask for fewer items at a time, or raise max_response_bytes.",
                )
        return self.key.redact(bytes(content))

    def _parse(self, content: bytes, path: str, model: str) -> Json:
        """Read an answer with a status of success; it may still be an error, or half of an answer."""
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            bad = errors.BadAnswerError(
                f"{self.api_base} answered with something that is not JSON: {self._excerpt(content)}",
                advice="Is this an OpenAI-compatible server, and does api_base end where its API begins (/v1)?",
            )
            # A web page will not turn into JSON; a body that was cut may be whole the next time.
            raise (bad if content.lstrip()[:1] == b"<" else TransientError(bad)) from error
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            return {"data": value}  # what others put into an object, some servers send bare
        if not isinstance(value, dict):
            none = errors.BadAnswerError(f"{self.api_base} answered with no JSON object: {self._excerpt(content)}")
            raise TransientError(none)
        failed = failure_in(value)
        if failed is not None:
            raise self._hidden_refusal(json.dumps(failed).encode(), path, model)
        return value

    def _hidden_refusal(self, content: bytes, path: str, model: str) -> Exception:
        """Make the error for a refusal that comes with a status of success."""
        code, words = read_error(content)
        said = self.quote(words)
        status = int(code) if code in _STATUSES else 200
        if status != 200 or code in FATAL_CODES:
            return self._sorted(Refusal(self.api_base, path, model, status, code, said, model in words, ""), None)
        return TransientError(errors.BadAnswerError(f"{self.api_base} answered with an error: {said}"))

    def _excerpt(self, content: bytes) -> str:
        return self.quote(content.decode(errors="replace"))

    def quote(self, text: str) -> str:
        """Repeat the beginning of a foreign text in a message: without the key and control characters."""
        return repr(one_line(self.key.redact(whole(text).encode()).decode(), _QUOTED))

    def _refusal(self, response: httpx2.Response, content: bytes, path: str, model: str) -> Exception:
        """Make the error for a status that is no success."""
        code, words = read_error(content)
        location = response.headers.get("location", "nowhere")
        refusal = Refusal(
            self.api_base,
            path,
            model,
            response.status_code,
            code,
            said=self.quote(words or f"status {response.status_code}"),
            names_model=bool(model) and model in words,
            location=self.quote(location),
        )
        return self._sorted(refusal, read_retry_after(response.headers))

    def _sorted(self, refusal: Refusal, retry_after: float | None) -> Exception:
        """Tell what may pass from what will not."""
        error = refusal.error()
        if error.fatal or not is_retried(refusal.status):
            return error
        # A server that says when it will have time has none now.
        busy = refusal.status in BUSY_STATUSES or (refusal.status == 503 and retry_after is not None)
        return (BusyError if busy else TransientError)(error, retry_after)

    def _unreachable(self, error: Exception) -> errors.ApiError:
        return errors.UnreachableError(
            f"No server answers at {self.api_base}: {self.quote(str(error) or type(error).__name__)}",
            advice="Start the server, or correct api_base.",
        )

    def _late(self) -> errors.ApiError:
        return errors.AnswerTimeoutError(
            f"{self.api_base} gave no whole answer within {self.timeout:g} s.",
            advice="Raise the timeout, or lower the concurrency if the server is overloaded.",
        )

    def _cut(self, error: Exception) -> errors.ApiError:
        reason = self.quote(str(error) or type(error).__name__)
        return errors.ConnectionCutError(f"{self.api_base} broke off the connection: {reason}")


def check_api_base(api_base: str) -> str:
    """Return the address without a trailing slash.

    Raises:
        UsageError: If it is no http(s) address, or carries a password or a query, which would end up in logs.
    """
    parts = urlsplit(api_base.strip())
    try:
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        fine = False
    if not fine:
        raise UsageError(f"api_base is no http(s) address: {api_base!r}.", advice="Example: http://localhost:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "api_base must not hold a user name, a password or a query.", advice="Give the key as api_key."
        )
    return api_base.strip().rstrip("/")


def is_loopback(api_base: str) -> bool:
    """Tell whether the address is this machine itself."""
    host = urlsplit(api_base).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _bearer(key: Secret) -> httpx2.Auth:
    """Make the authorisation a flow of the HTTP library: no variable or argument of ours holds the key's text."""
    import httpx2

    class Bearer(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
            request.headers["Authorization"] = f"Bearer {key.reveal()}"
            yield request

    return Bearer()
