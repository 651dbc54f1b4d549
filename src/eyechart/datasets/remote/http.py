"""A webdataset folder behind a plain web server."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from eyechart.datasets.layout import COMMON_SPLITS
from eyechart.datasets.remote.download import ResponseHead, alone, client_for, download, read_head, read_small
from eyechart.datasets.remote.errors import no_dataset, not_cached, redacted
from eyechart.datasets.wds.tarshard import check_whole
from eyechart.errors import DataError
from eyechart.io.digests import digest_bytes, file_digest
from eyechart.io.files import NOTES, write_atomic
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.untrusted import DAMAGED

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True)
class Known:
    """What is known of a file on the server."""

    size: int | None
    version: str
    fetched: bool
    """The mirror has it, whole and checked."""
    digest: str = ""
    """Of what was fetched, so that the mirror's file can be held against it; notes of 0.1 have none."""


_UNKNOWN = Known(None, "", fetched=False)
"""What is known of a file that was never asked for, or whose note is damaged."""


@dataclass(frozen=True)
class HttpFiles:
    """Files under one address, mirrored in the cache."""

    root: str
    cache: Path
    offline: bool = False
    _new: set[str] = field(default_factory=set, compare=False)
    """What was fetched for this reader: all that can be trusted of a server that tells no versions."""

    @property
    def address(self) -> str:
        """Return the address without secrets."""
        return redacted(self.root)

    @cached_property
    def folder(self) -> Path:
        """Return the mirror: a folder named after host and path, and no other address has the same one."""
        parts = urlsplit(self.root)
        path = parts.path.strip("/")
        name = path.replace("/", "--") or "root"
        if name.replace("--", "/") != (path or "root") or (path and name in ("root", ".", "..")):
            name = f"{name}-{digest_bytes(path.encode()).hex()}"
        return self.cache / f"{parts.hostname}-{parts.port or parts.scheme}" / name

    @property
    def _client(self) -> httpx2.Client:
        return client_for(self.root)

    def small(self, name: str) -> Path | None:
        """Read the file again each time, unless offline: it is small, and a stale list of classes would be worse."""
        path = self.folder / name
        if self.offline:
            known = self._known(name)
            if known and not self._is_intact(path, known):
                raise not_cached(self.address, name)
            return path if known else None
        data = read_small(self._client, self._url(name))
        if data is None:
            path.unlink(missing_ok=True)
            self._remember(name, None)
            return None
        if not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)
        self._remember(name, Known(len(data), "", fetched=True, digest=digest_bytes(data).hex()))
        return path

    def size(self, name: str) -> int | None:
        """Return the size that the server states, or the one of the cached file if it states none."""
        head = self._head(name)
        if head is None:
            return None
        if head.size is not None:
            return head.size
        return self.fetch(name, NoProgress()).stat().st_size

    def version(self, name: str) -> str:
        """Return what the server said of the file when it was last asked; if that was nothing, the content's digest."""
        known = self._read_note(name)
        if known is None or not known.version:
            return file_digest(self.fetch(name, NoProgress())).hex()
        return f"{known.size} {known.version}"

    def fetch(self, name: str, progress: Progress) -> Path:
        """Download the file, unless the cache has this version of it."""
        head = self._head(name)
        if head is None:
            raise DataError(
                f"{self.address} has no {name}.", advice="nshards.txt counts it: the copy there is incomplete."
            )
        path = self.folder / name
        if self._is_here(name, head):
            return path
        if self.offline:
            raise not_cached(self.address, name)
        with alone(path):
            if not self._is_here(name, head):
                download(self._client, self._url(name), path, head, progress)
                if name.endswith(".tar"):
                    self._check_tar(name, path)
                digest = file_digest(path).hex()
                self._remember(name, Known(path.stat().st_size, head.version, fetched=True, digest=digest))
                self._new.add(name)
        return path

    def unread(self, split: str, count: int) -> list[str]:
        """Ask for the next shard alone: a web folder cannot be listed."""
        name = f"{split}/{count}.tar"
        return [] if self.offline or self._head(name) is None else [name]

    def splits(self) -> list[str]:
        """Try the usual names, for a web folder cannot be listed."""
        return [split for split in COMMON_SPLITS if self.small(f"{split}/nshards.txt")]

    def exists(self) -> bool:
        """Tell whether the server has any of the files that a dataset has."""
        names = ("classnames.txt", "dataset_type.txt", *(f"{split}/nshards.txt" for split in COMMON_SPLITS))
        return any(self.small(name) for name in names)

    def _head(self, name: str) -> ResponseHead | None:
        if self.offline:
            known = self._known(name)
            return None if known is None else ResponseHead(known.size, known.version)
        head = read_head(self._client, self._url(name))
        if head is None:
            self._remember(name, None)
        elif not self._is_here(name, head):
            self._remember(name, Known(head.size, head.version, fetched=False))
        return head

    def _is_here(self, name: str, head: ResponseHead) -> bool:
        """Tell whether the cache has exactly this version of a file."""
        known = self._read_note(name)
        return (
            known is not None
            and known.version == head.version
            and (bool(head.version) or self.offline or name in self._new)
            and head.size in (None, known.size)
            and self._is_intact(self.folder / name, known)
        )

    def _is_intact(self, path: Path, known: Known) -> bool:
        """Tell whether the mirror's file is the one that was fetched."""
        return (
            known.fetched
            and path.is_file()
            and path.stat().st_size == known.size
            and known.digest in ("", file_digest(path).hex())
        )

    def _known(self, name: str) -> Known | None:
        """Return what earlier runs found out about a file: nothing if the server did not have it."""
        known = self._read_note(name)
        if known == _UNKNOWN:
            raise not_cached(self.address, name)
        return known

    def _note(self, name: str) -> Path:
        return self.folder / NOTES / f"{name.replace('/', '--')}.json"

    def _read_note(self, name: str) -> Known | None:
        try:
            content = json.loads(self._note(name).read_text(encoding="utf-8"))
            return None if content is None else Known(**content)
        except (FileNotFoundError, *DAMAGED):
            return _UNKNOWN

    def _remember(self, name: str, known: Known | None) -> None:
        if known is None or self._read_note(name) != known:
            write_atomic(self._note(name), json.dumps(known and asdict(known)).encode())

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


def open_http(root: str, cache: Path, *, offline: bool) -> HttpFiles:
    """Open a folder on a web server."""
    if not urlsplit(root).hostname:
        raise no_dataset(root)
    return HttpFiles(root, cache, offline)
