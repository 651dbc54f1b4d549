"""A webdataset folder behind a plain web server."""

from __future__ import annotations

import atexit
import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from eyechart.api.transport import is_loopback
from eyechart.datasets.remote.download import Head, download, read_head, read_small
from eyechart.datasets.remote.errors import no_dataset, not_cached, redacted
from eyechart.datasets.remote.files import COMMON_SPLITS
from eyechart.datasets.tarshard import check_whole
from eyechart.errors import DataError
from eyechart.files import write_atomic
from eyechart.progress import NoProgress, Progress

if TYPE_CHECKING:
    import httpx2

INDEX = ".eyechart-index.json"
"""What is known of the files in a cache folder: size and version of those that exist, null for those that do not."""
TIMEOUT = 60.0


@dataclass(frozen=True)
class HttpFiles:
    """Files under one address, mirrored in the cache."""

    root: str
    cache: Path
    offline: bool = False

    @property
    def address(self) -> str:
        """Return the address without secrets."""
        return redacted(self.root)

    @cached_property
    def folder(self) -> Path:
        """Return the mirror: a folder named after host and path."""
        parts = urlsplit(self.root)
        path = parts.path.strip("/").replace("/", "--") or "root"
        return self.cache / f"{parts.hostname}-{parts.port or parts.scheme}" / path

    @property
    def _client(self) -> httpx2.Client:
        return _client(is_loopback(self.root))

    @cached_property
    def _index(self) -> dict[str, Any]:
        path = self.folder / INDEX
        if not path.is_file():
            return {}
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content

    def small(self, name: str) -> Path | None:
        """Read the file again each time, unless offline: it is small, and a stale list of classes would be worse."""
        path = self.folder / name
        if self.offline:
            self._need_known(name)
            return path if path.is_file() else None
        data = read_small(self._client, self._url(name))
        if data is None:
            path.unlink(missing_ok=True)
            self._remember(name, None)
            return None
        if not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)
        self._remember(name, Head(len(data), ""))
        return path

    def size(self, name: str) -> int | None:
        """Return the size that the server states, or the one of the cached file if it states none."""
        head = self._head(name)
        if head is None:
            return None
        if head.size is not None:
            return head.size
        return self.fetch(name, NoProgress()).stat().st_size

    def fetch(self, name: str, progress: Progress) -> Path:
        """Download the file, unless the cache has this version of it."""
        path = self.folder / name
        known = self._index.get(name)
        head = self._head(name)
        if head is None:
            raise DataError(
                f"{self.address} has no {name}.", advice="nshards.txt counts it: the copy there is incomplete."
            )
        if path.is_file():
            if known and known.get("fetched") == head.version and path.stat().st_size == (head.size or known["size"]):
                return path
            path.unlink()
        if self.offline:
            raise not_cached(self.address, name)
        download(self._client, self._url(name), path, head, progress)
        if name.endswith(".tar"):
            self._check_tar(name, path)
        self._remember(name, Head(path.stat().st_size, head.version), fetched=True)
        return path

    def splits(self) -> list[str]:
        """Try the usual names, for a web folder cannot be listed."""
        return [split for split in COMMON_SPLITS if self.small(f"{split}/nshards.txt")]

    def exists(self) -> bool:
        """Tell whether the server has any of the files that a dataset has."""
        names = ("classnames.txt", "dataset_type.txt", *(f"{split}/nshards.txt" for split in COMMON_SPLITS))
        return any(self.small(name) for name in names)

    def _head(self, name: str) -> Head | None:
        if self.offline:
            self._need_known(name)
            known = self._index[name]
            return None if known is None else Head(known["size"], known["version"])
        head = read_head(self._client, self._url(name))
        known = self._index.get(name) or {}
        if head is None or (known.get("size"), known.get("version")) != (head.size, head.version):
            self._remember(name, head)
        return head

    def _need_known(self, name: str) -> None:
        if name not in self._index:
            raise not_cached(self.address, name)

    def _remember(self, name: str, head: Head | None, *, fetched: bool = False) -> None:
        entry = None if head is None else {"size": head.size, "version": head.version}
        if entry is not None:
            before = self._index.get(name) or {}
            entry["fetched"] = head.version if fetched and head else before.get("fetched")
        if name in self._index and self._index[name] == entry:
            return
        self._index[name] = entry
        write_atomic(self.folder / INDEX, json.dumps(self._index, indent=1, sort_keys=True).encode())

    def _check_tar(self, name: str, path: Path) -> None:
        """Refuse a shard that is already cut short on the server, and do not keep it."""
        try:
            check_whole(path)
        except DataError as error:
            path.unlink()
            raise DataError(
                f"{self.address}/{name} is cut short on the server: it has no end mark.",
                advice="Tell whoever keeps it; fetching it again will not help.",
            ) from error

    def _url(self, name: str) -> str:
        parts = urlsplit(self.root)
        return parts._replace(path=f"{parts.path.rstrip('/')}/{quote(name)}").geturl()


@cache
def _client(loopback: bool) -> httpx2.Client:
    """Return the one client of this process; a proxy is not asked for this machine itself."""
    import httpx2

    client = httpx2.Client(follow_redirects=True, timeout=httpx2.Timeout(TIMEOUT), trust_env=not loopback)
    atexit.register(client.close)
    return client


def open_http(root: str, cache: Path, *, offline: bool) -> HttpFiles:
    """Open a folder on a web server."""
    if not urlsplit(root).hostname:
        raise no_dataset(root)
    return HttpFiles(root, cache, offline)
