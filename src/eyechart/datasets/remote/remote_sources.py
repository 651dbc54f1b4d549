"""Remote folders of files: plain HTTP, and which kind of source an address is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

from eyechart.datasets.locations import COMMON_SPLITS, Files, cache_folder, is_url
from eyechart.datasets.remote.download import (
    ResponseHead,
    alone,
    client_for,
    download,
    no_dataset,
    not_cached,
    not_listed,
    read_head,
    request,
)
from eyechart.datasets.remote.hubs import UNKNOWN, DownloadNote, HuggingFaceFiles, MirroredFiles, ModelScopeFiles
from eyechart.errors import DataError
from eyechart.io.digests import digest_bytes, file_digest
from eyechart.io.files import write_atomic
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.secrets import redact_url


@dataclass(frozen=True)
class HttpFiles(MirroredFiles):
    """Files under one URL, mirrored in the cache."""

    root: str = ""
    _new: set[str] = field(default_factory=set, compare=False)
    """Files downloaded by this instance: if a server states no versions, only these are trusted."""

    @property
    def address(self) -> str:
        """The URL without secrets."""
        return redact_url(self.root)

    def small(self, name: str) -> Path | None:
        """Read the file on every call, unless offline: it is small, and a stale list of classes would be worse."""
        path = self.folder / name
        if self.offline:
            if self._known(name).missing:
                return None
            if not self.is_intact(name):
                raise not_cached(self.address, name)
            return path
        answer = request(client_for(self.root), "GET", self._url(name))
        if answer is None:
            path.unlink(missing_ok=True)
            self.write_note(name, DownloadNote(missing=True))
            return None
        if not path.is_file() or path.read_bytes() != answer[1]:
            write_atomic(path, answer[1])
        self.note_fetched(name, "")
        return path

    def size(self, name: str) -> int | None:
        """Return the size that the server states, or that of the cached file if it states none."""
        head = self._head(name)
        if head is None:
            return None
        if head.size is not None:
            return head.size
        return self.fetch(name, NoProgress()).stat().st_size

    def version(self, name: str) -> str:
        """Return the version that the server stated last, or the digest of the content if it stated none."""
        note = self.note(name)
        return f"{note.size} {note.version}" if note.version else file_digest(self.fetch(name, NoProgress())).hex()

    def fetch(self, name: str, progress: Progress) -> Path:
        """Download the file, unless this version is cached."""
        head = self._head(name)
        if head is None:
            raise not_listed(self.address, name)
        path = self.folder / name
        if self._is_here(name, head):
            return path
        if self.offline:
            raise not_cached(self.address, name)
        with alone(path):
            if not self._is_here(name, head):
                download(client_for(self.root), self._url(name), path, head, progress)
                self.note_fetched(name, head.version)
                self._new.add(name)
        return path

    def unread(self, split: str, count: int) -> list[str]:
        """Check for the next shard only, since a web folder cannot be listed."""
        name = f"{split}/{count}.tar"
        return [] if self.offline or self._head(name) is None else [name]

    def splits(self) -> list[str]:
        """Try common names, since a web folder cannot be listed."""
        return [split for split in COMMON_SPLITS if self.small(f"{split}/nshards.txt")]

    def exists(self) -> bool:
        """True if the server has any of the files of a dataset."""
        names = ("classnames.txt", "dataset_type.txt", *(f"{split}/nshards.txt" for split in COMMON_SPLITS))
        return any(self.small(name) for name in names)

    def _head(self, name: str) -> ResponseHead | None:
        if self.offline:
            note = self._known(name)
            return None if note.missing else ResponseHead(note.size, note.version)
        head = read_head(client_for(self.root), self._url(name))
        if head is None:
            self.write_note(name, DownloadNote(missing=True))
        elif not self._is_here(name, head):
            self.write_note(name, DownloadNote(head.size, head.version))
        return head

    def _is_here(self, name: str, head: ResponseHead) -> bool:
        note = self.note(name)
        return (
            note.version == head.version
            and (bool(head.version) or self.offline or name in self._new)
            and head.size in (None, note.size)
            and self.is_intact(name)
        )

    def _known(self, name: str) -> DownloadNote:
        """Return the note of earlier runs on a file; raise an error if there is none."""
        note = self.note(name)
        if note == UNKNOWN:
            raise not_cached(self.address, name)
        return note

    def _url(self, name: str) -> str:
        parts = urlsplit(self.root)
        return parts._replace(path=f"{parts.path.rstrip('/')}/{quote(name)}").geturl()


def open_http(root: str, cache: Path, *, offline: bool) -> HttpFiles:
    """Open a folder on a web server; its mirror is named after host and path, unique to this URL."""
    parts = urlsplit(root)
    if not parts.hostname:
        raise no_dataset(root)
    path = parts.path.strip("/")
    name = path.replace("/", "--") or "root"
    if name.replace("--", "/") != (path or "root") or (path and name in ("root", ".", "..")):
        name = f"{name}-{digest_bytes(path.encode()).hex()}"
    return HttpFiles(cache / f"{parts.hostname}-{parts.port or parts.scheme}" / name, offline, root)


HUB_ADDRESS = re.compile(
    r"https?://(?P<host>[^/]+)/datasets/(?P<repo>[^/]+/[^/]+)(?:/(?:tree|resolve|raw)/(?P<revision>[^/?#]+))?/?$"
)
HUGGINGFACE = frozenset({"huggingface.co", "hf.co"})
MODELSCOPE = frozenset({"modelscope.cn", "www.modelscope.cn", "modelscope.ai", "www.modelscope.ai"})


def open_files(root: str, options: Mapping[str, Any]) -> Files:
    """Open a root: a folder, a repository on a hub, or a folder on a web server."""
    if not is_url(root):
        return Files(Path(root))
    cache, offline = cache_folder(options), bool(options.get("offline"))
    match = HUB_ADDRESS.match(root)
    if match and match["host"] in HUGGINGFACE:
        return HuggingFaceFiles.open(match["repo"], match["revision"] or "main", cache, offline=offline)
    if match and match["host"] in MODELSCOPE:
        return ModelScopeFiles.open(match["repo"], match["revision"] or "master", cache, offline=offline)
    return open_http(root, cache, offline=offline)


def fetch_url(url: str, options: Mapping[str, Any]) -> Path:
    """Download a single small file by its URL, through the cache."""
    parts = urlsplit(url)
    path = PurePosixPath(parts.path)
    folder = open_http(
        parts._replace(path=str(path.parent)).geturl(), cache_folder(options), offline=bool(options.get("offline"))
    )
    if folder.size(path.name) is None:
        raise DataError(
            "There is no file at {address}/{name}.",
            advice="It may have moved; download it manually.",
            address=folder.address,
            name=path.name,
        )
    return folder.fetch(path.name, NoProgress())
