"""Downloads that resume: what has arrived is kept beside the target and the rest is asked for with a Range request.

The target appears whole, checked and at once, or not at all.
"""

from __future__ import annotations

import atexit
import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.api.retry import Retry, is_retried, read_retry_after
from eyechart.api.transport import is_loopback
from eyechart.datasets.remote.addresses import is_internal
from eyechart.datasets.remote.errors import changed, no_dataset, no_network, not_allowed, redacted
from eyechart.errors import DataError
from eyechart.io.files import make_folder, open_plain, sync_folder
from eyechart.io.progress import Progress

if TYPE_CHECKING:
    import httpx2

RETRY = Retry(tries=8, first_wait=0.25, longest_wait=20.0)
"""Tries in a row that bring nothing new; every new byte starts the count again."""
MAX_SMALL = 64 * 1024 * 1024
"""Bytes of the largest file that is read at once."""
TIMEOUT = 60.0
"""Seconds without a byte after which a connection is given up."""
QUICK = Retry(tries=4, first_wait=0.25)
"""For small requests: whoever waits at a terminal wants to know soon."""
_PLAIN = {"Accept-Encoding": "identity"}
"""Size and version of a compressed transfer are not those of the file."""


@dataclass(frozen=True)
class ResponseHead:
    """What a server says of a file before it sends it."""

    size: int | None
    version: str
    """Its ETag or date: other text, other content."""


class _BrokenError(Exception):
    """Internal: a transfer that stopped early or was refused for now."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def client_for(url: str) -> httpx2.Client:
    """Return the client of this process for a server; a proxy is not asked for this machine itself."""
    return _client(is_loopback(url))


@cache
def _client(loopback: bool) -> httpx2.Client:
    import httpx2

    hooks = {"response": [refuse_inward]}
    client = httpx2.Client(
        follow_redirects=True, timeout=httpx2.Timeout(TIMEOUT), trust_env=not loopback, event_hooks=hooks
    )
    atexit.register(client.close)
    return client


def read_head(client: httpx2.Client, url: str) -> ResponseHead | None:
    """Ask for size and version of a file; nothing if the server does not have it."""
    answer = request(client, "HEAD", url)
    if answer is None:
        return None
    response, _ = answer
    length = response.headers.get("content-length")
    return ResponseHead(int(length) if length else None, _version(response))


def _version(response: httpx2.Response) -> str:
    return str(response.headers.get("etag") or response.headers.get("last-modified") or "")


def read_small(client: httpx2.Client, url: str) -> bytes | None:
    """Read a small file at once; nothing if the server does not have it."""
    answer = request(client, "GET", url)
    return None if answer is None else answer[1]


def request(client: httpx2.Client, method: str, url: str) -> tuple[httpx2.Response, bytes] | None:
    """Send a request, with patience, and read its answer, which must be small; nothing for 404.

    Raises:
        DataError: If the server cannot be reached, refuses access or keeps failing.
    """
    import httpx2

    for failures in range(1, QUICK.tries + 1):
        try:
            with client.stream(method, url, headers=_PLAIN if method == "HEAD" else None) as response:
                content = _content(response, url)
        except httpx2.RequestError as error:
            problem = no_network(redacted(url), error)
        else:
            if response.status_code in (404, 410):
                return None
            if response.is_success:
                return response, content
            problem = _refusal(response, url)
            if not is_retried(response.status_code):
                break
        if failures < QUICK.tries:
            time.sleep(QUICK.wait(failures))
    raise problem


def _content(response: httpx2.Response, url: str) -> bytes:
    content = bytearray()
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > MAX_SMALL:
            raise changed(redacted(url), f"a small file is expected, not one of more than {MAX_SMALL} bytes")
    return bytes(content)


def refuse_inward(response: httpx2.Response) -> None:
    """Refuse a redirect from a public server into this machine's network, or from https to http (a response hook).

    Names that a public server of names points inwards are not recognised.
    """
    if not response.has_redirect_location:
        return
    import httpx2

    try:
        target = response.url.join(response.headers["location"])
    except httpx2.InvalidURL as error:
        raise changed(redacted(str(response.url)), f"it redirects to an address that is none ({error})") from error
    inward = is_internal(target.host) and not is_internal(response.url.host)
    if inward or (response.url.scheme == "https" and target.scheme != "https"):
        raise changed(redacted(str(response.url)), f"it redirects to {redacted(str(target))}, which is not followed")


def download(
    client: httpx2.Client, url: str, target: Path, head: ResponseHead, progress: Progress, *, md5: str = ""
) -> None:
    """Fetch a file, going on from what an earlier attempt left.

    Raises:
        DataError: If the server fails again and again, or the content is not of the promised size or MD5 digest.
    """
    make_folder(target.parent)
    mark = hashlib.blake2b(f"{url}\0{head.version}\0{head.size}".encode(), digest_size=6).hexdigest()
    part = target.with_name(f"{target.name}.{mark}.part")
    with progress.step(f"fetching {target.name}", head.size) as bar:
        bar.advance(_size(part))
        failures = 0
        while head.size is None or _size(part) < head.size or not part.is_file():
            before = _size(part)
            try:
                for count in _continue(client, url, part, head):
                    bar.advance(count)
                break
            except _BrokenError as broken:
                failures = 1 if _size(part) > before else failures + 1
                if failures >= RETRY.tries:
                    raise changed(redacted(url), f"the transfer stops again and again ({broken})") from broken
                time.sleep(RETRY.wait(failures) if broken.wait is None else broken.wait)
        _check(part, url, head, md5)
        part.replace(target)
        sync_folder(target.parent)


def _continue(client: httpx2.Client, url: str, part: Path, head: ResponseHead) -> Iterator[int]:
    """Append what is missing to the partial file, yielding the number of bytes as they arrive."""
    import httpx2

    start = _size(part) if head.version else 0  # what may be another file by now is not gone on with
    headers = dict(_PLAIN)
    if start:
        headers["Range"] = f"bytes={start}-"
        if not head.version.startswith("W/"):
            headers["If-Range"] = head.version
    try:
        with client.stream("GET", url, headers=headers) as response:
            _check_status(response, url)
            resumed = response.status_code == httpx2.codes.PARTIAL_CONTENT
            if resumed and not _goes_on(response, start, head):
                part.unlink()
                raise _BrokenError("the server sends another part, or of another version")
            with open_plain(part, "ab" if resumed else "wb") as stream:
                for chunk in response.iter_raw():  # as it arrives: a chunk size would hold back what a break then loses
                    stream.write(chunk)
                    yield len(chunk)
                    if head.size is not None and stream.tell() > head.size:
                        break  # more than was promised: `_check` refuses it, before it fills the disk
    except httpx2.RequestError as error:
        raise _BrokenError(str(error) or type(error).__name__) from error
    if head.size is not None and _size(part) < head.size:
        raise _BrokenError(f"{_size(part)} of {head.size} bytes")


def _goes_on(response: httpx2.Response, start: int, head: ResponseHead) -> bool:
    """Tell whether a partial answer begins where we stopped, in the same file."""
    sent = response.headers.get("content-range", f"bytes {start}-")
    return sent.startswith(f"bytes {start}-") and _version(response) in ("", head.version)


def _check_status(response: httpx2.Response, url: str) -> None:
    if response.is_success:
        return
    if is_retried(response.status_code):
        raise _BrokenError(f"status {response.status_code}", read_retry_after(response.headers))
    raise _refusal(response, url)


def _check(part: Path, url: str, head: ResponseHead, md5: str) -> None:
    size = _size(part)
    if head.size is not None and size != head.size:
        part.unlink()
        raise changed(redacted(url), f"{size} bytes arrived instead of {head.size}")
    if md5:
        with part.open("rb") as stream:
            found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if found != md5:
            part.unlink()
            raise DataError(
                f"{redacted(url)} is not the file that is expected: its MD5 digest is {found}, not {md5}.",
                advice="It may have a new version, which you can use if you trust it.",
            )


def _refusal(response: httpx2.Response, url: str) -> DataError:
    if response.status_code in (401, 403):
        return not_allowed(redacted(url))
    if response.status_code in (404, 410):
        return no_dataset(redacted(url))
    return changed(redacted(url), f"the server answers with status {response.status_code}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Let one process at a time fetch a file; the others wait, and should then look whether it is there."""
    make_folder(target.parent)
    try:
        import fcntl
    except ImportError:  # Windows: two processes may both download; the last one to finish wins, whole
        yield
        return
    # The lock file stays: whoever removed it could remove one that another process has just locked.
    with open_plain(target.with_name(f".{target.name}.lock"), "a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
