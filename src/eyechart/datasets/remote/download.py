"""Resumable downloads, their errors, and the check that an address is not inside the network."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from eyechart.api.limiter import Retry, is_retried, read_retry_after
from eyechart.api.transport import is_loopback
from eyechart.errors import MIRRORS, DataError, NotHereError, unreachable
from eyechart.io.files import make_folder, open_plain, sync_folder
from eyechart.io.progress import Progress
from eyechart.io.secrets import redact_url
from eyechart.messages import UserMessage

if TYPE_CHECKING:
    import httpx2


def no_network(address: str, error: object) -> DataError:
    """Create the error for a server that cannot be reached."""
    host = urlsplit(address).hostname or ""
    return unreachable(DataError, address, error, next((hub for hub in MIRRORS if hub in host), ""))


def no_dataset(address: str) -> DataError:
    """Create the error for a location without a dataset."""
    return DataError(
        "There is no dataset at {address}.",
        advice="The server responds but has nothing there: check the name and {--dataset_root} (a private or gated "
        "repository looks the same without a login).",
        address=address,
    )


def not_allowed(address: str) -> DataError:
    """Create the error for a location that requires a login."""
    return DataError(
        "{url} denies access.", advice="Accept its terms on its page, and log in with the hub's tool.", url=address
    )


def not_listed(address: str, name: str) -> DataError:
    """Create the error for a shard that the server does not have."""
    advice = "The remote copy is incomplete: nshards.txt counts this file."
    return DataError("{address} does not contain {name}.", advice=advice, address=address, name=name)


def not_cached(address: str, name: str) -> NotHereError:
    """Create the error for a file needed with --offline that is not cached, or was modified in the cache."""
    return NotHereError(
        "{name} of {address} is not cached, and {--offline} disables downloads.",
        advice="Run once without {--offline}, which also replaces modified files in the cache, or set "
        "{--wds_cache_dir} to the folder used before.",
        source=address,
        name=name,
        address=address,
    )


def changed(address: str, what: str) -> DataError:
    """Create the error for a file or response that is not as announced."""
    return DataError(
        "{url}: {what}.", advice="Try again; if the error persists, the remote copy is damaged.", url=address, what=what
    )


_NAMES = ("localhost", "localdomain", "local", "internal", "lan", "home.arpa")
"""Top-level names that public DNS servers do not resolve."""
_UNICAST = ip_network("2000::/3")
"""The IPv6 range that can be public."""
_NOT_PUBLIC = tuple(map(ip_network, ("192.0.0.0/24", "2001::/23", "2001:db8::/32", "3fff::/20")))
"""Special ranges that some versions of Python treat as public. Teredo, whose addresses embed two others, is one."""
_CARRIERS = (
    (ip_network("::/96"), 0),  # compatible
    (ip_network("::ffff:0:0/96"), 0),  # mapped
    (ip_network("::ffff:0:0:0/96"), 0),  # translated
    (ip_network("64:ff9b::/96"), 0),  # NAT64
    (ip_network("2002::/16"), 80),  # 6to4
)
"""IPv6 networks whose addresses embed an IPv4 address, and its offset in bits from the right."""


def is_internal(host: str) -> bool:
    """True if a host is this machine, in its network, or not public; names are not resolved."""
    name = host.strip("[]").rstrip(".").lower()  # a trailing dot marks a fully qualified name
    try:
        return not _is_public(ip_address(name))
    except ValueError:
        pass
    try:
        return not _is_public(IPv4Address(socket.inet_aton(name)))  # 2130706433 and 0x7f.1 are also addresses
    except OSError:
        return "." not in name or name.endswith(tuple(f".{top}" for top in _NAMES))


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    carried = [IPv4Address(int(address) >> bits & 0xFFFFFFFF) for network, bits in _CARRIERS if address in network]
    if carried:
        return all(map(_is_public, carried))
    special = address.is_multicast or any(address in network for network in _NOT_PUBLIC)
    return address.is_global and not special and (address.version == 4 or address in _UNICAST)


# Resumable downloads: partial files are kept next to the target, and the rest is requested by Range.
#
# A download resumes only if a strong validator (RFC 9110, 8.8) or a digest proves that the rest belongs to the same
# file. The target appears atomically, complete and verified.


RETRY = Retry(tries=8, first_wait=0.25, longest_wait=20.0)
"""For transfers; attempts are counted since the last new byte."""
MAX_SMALL = 64 * 1024 * 1024
"""Maximum size of a file that is read into memory."""
TIMEOUT = 60.0
"""Seconds without a byte after which a connection is closed."""
QUICK = Retry(tries=4, first_wait=0.25)
"""For small requests, which users wait for at a terminal."""
SETTLED = timedelta(minutes=1)
"""A file modified more recently may change again within the one-second resolution of its date."""
_PLAIN = {"Accept-Encoding": "identity"}
"""Size and version of a compressed transfer differ from those of the file."""


@dataclass(frozen=True)
class ResponseHead:
    """Size and version of a file, from the headers of its response."""

    size: int | None
    version: str
    """Its ETag or date, which changes with the content."""
    validator: str = ""
    """The same if it is a strong validator (a strong ETag, or an old date): equal values mean equal bytes."""


class _BrokenError(Exception):
    """A transfer that stopped early or was temporarily refused."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def client_for(url: str) -> httpx2.Client:
    """Return the process-wide client for a server; loopback addresses bypass the proxy."""
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
    """Request size and version of a file; None if the server does not have it."""
    answer = request(client, "HEAD", url)
    if answer is None:
        return None
    response, _ = answer
    length = response.headers.get("content-length")
    tag, modified = response.headers.get("etag", ""), response.headers.get("last-modified", "")
    validator = "" if tag.startswith("W/") else str(tag)
    if not tag:
        with suppress(TypeError, ValueError):  # no date, or an invalid one
            age = parsedate_to_datetime(response.headers.get("date", "")) - parsedate_to_datetime(modified)
            validator = str(modified) if age >= SETTLED else ""
    return ResponseHead(int(length) if length else None, _version(response), validator)


def _version(response: httpx2.Response) -> str:
    return str(response.headers.get("etag") or response.headers.get("last-modified") or "")


def request(client: httpx2.Client, method: str, url: str) -> tuple[httpx2.Response, bytes] | None:
    """Send a request with retries and read its response, which must be small; None for 404."""
    import httpx2

    for failures in range(1, QUICK.tries + 1):
        content = bytearray()
        try:
            with client.stream(method, url, headers=_PLAIN if method == "HEAD" else None) as response:
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > MAX_SMALL:
                        raise changed(redact_url(url), UserMessage("the file is larger than {n} bytes", n=MAX_SMALL))
        except httpx2.RequestError as error:
            problem = no_network(redact_url(url), error)
        else:
            if response.status_code in (404, 410):
                return None
            if response.is_success:
                return response, bytes(content)
            problem = _refusal(response, url)
            if not is_retried(response.status_code):
                break
        if failures < QUICK.tries:
            time.sleep(QUICK.wait(failures))
    raise problem


def refuse_inward(response: httpx2.Response) -> None:
    """Reject redirects from a public server into the local network, or from https to http (a response hook).

    Public names that resolve to internal addresses are not detected.
    """
    if not response.has_redirect_location:
        return
    import httpx2

    source = redact_url(str(response.url))
    try:
        target = response.url.join(response.headers["location"])
    except httpx2.InvalidURL as error:
        raise changed(source, UserMessage("it redirects to an invalid URL ({reason})", reason=error)) from error
    inward = is_internal(target.host) and not is_internal(response.url.host)
    if inward or (response.url.scheme == "https" and target.scheme != "https"):
        what = UserMessage("unsafe redirect to {target}, not followed", target=redact_url(str(target)))
        raise changed(source, what)


def download(
    client: httpx2.Client, url: str, target: Path, head: ResponseHead, progress: Progress, *, md5: str = ""
) -> None:
    """Download a file, resuming an earlier attempt if it is known to be the same file."""
    make_folder(target.parent)
    mark = hashlib.blake2b(f"{url}\0{head.version}\0{head.size}".encode(), digest_size=6).hexdigest()
    part = target.with_name(f"{target.name}.{mark}.part")
    resumes = bool(head.validator or md5)
    if not resumes and _size(part) != head.size:
        part.unlink(missing_ok=True)
    with progress.step(UserMessage("downloading {name}", name=target.name), head.size) as bar:
        bar.advance(_size(part))
        failures, furthest = 0, _size(part)
        while head.size is None or _size(part) < head.size or not part.is_file():
            try:
                for count in _continue(client, url, part, head, resumes=resumes):
                    bar.advance(count)
                break
            except _BrokenError as broken:
                failures = 1 if _size(part) > furthest else failures + 1
                furthest = max(furthest, _size(part))
                if failures >= RETRY.tries:
                    raise changed(
                        redact_url(url), UserMessage("the transfer keeps stopping ({reason})", reason=broken)
                    ) from broken
                time.sleep(RETRY.wait(failures) if broken.wait is None else broken.wait)
        try:
            _check(part, url, head, md5)
        except DataError:
            part.unlink()
            raise
        part.replace(target)
        sync_folder(target.parent)


def _check(part: Path, url: str, head: ResponseHead, md5: str) -> None:
    size = _size(part)
    if head.size is not None and size != head.size:
        raise changed(redact_url(url), UserMessage("received {n} bytes instead of {size}", n=size, size=head.size))
    if not md5:
        return
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        raise DataError(
            "{url} is not the expected file: its MD5 digest is {found}, not {md5}.",
            advice="It may be a new version, which you can use if you trust it.",
            url=redact_url(url),
            found=found,
            md5=md5,
        )


def _continue(client: httpx2.Client, url: str, part: Path, head: ResponseHead, *, resumes: bool) -> Iterator[int]:
    """Append the missing bytes to the partial file, or restart it; yield the number of bytes of each chunk."""
    import httpx2

    start = _size(part) if resumes else 0
    headers = dict(_PLAIN)
    if start:
        headers["Range"] = f"bytes={start}-"
        if head.validator:
            headers["If-Range"] = head.validator
    try:
        with client.stream("GET", url, headers=headers) as response:
            if is_retried(response.status_code):
                raise _BrokenError(f"status {response.status_code}", read_retry_after(response.headers))
            if not response.is_success:
                raise _refusal(response, url)
            resumed = response.status_code == httpx2.codes.PARTIAL_CONTENT
            sent = response.headers.get("content-range", f"bytes {start}-")
            same = sent.startswith(f"bytes {start}-") and _version(response) in ("", head.version)
            if resumed and not same:
                part.unlink()
                raise _BrokenError("the server sent a different range or version")
            with open_plain(part, "ab" if resumed else "wb") as stream:
                for chunk in response.iter_raw():  # without a chunk size, which would lose buffered bytes on a break
                    stream.write(chunk)
                    yield len(chunk)
                    if head.size is not None and stream.tell() > head.size:
                        break  # `_check` rejects more bytes than announced, before they fill the disk
    except httpx2.RequestError as error:
        raise _BrokenError(str(error) or type(error).__name__) from error
    if head.size is not None and _size(part) < head.size:
        raise _BrokenError(f"{_size(part)} of {head.size} bytes")


def _refusal(response: httpx2.Response, url: str) -> DataError:
    if response.status_code in (401, 403):
        return not_allowed(redact_url(url))
    if response.status_code in (404, 410):
        return no_dataset(redact_url(url))
    return changed(redact_url(url), UserMessage("the server returned status {status}", status=response.status_code))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Let one process at a time download a file; the others wait, and should then check whether it exists."""
    make_folder(target.parent)
    # The lock file stays: removing it could remove one that another process has just locked.
    with open_plain(target.with_name(f".{target.name}.lock"), "a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
