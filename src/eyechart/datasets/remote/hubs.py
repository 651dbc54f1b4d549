"""Dataset repositories on hubs, through the hubs' own client libraries, mirrored in the cache."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from eyechart.datasets.remote.errors import changed, not_cached
from eyechart.datasets.remote.files import beyond
from eyechart.datasets.wds.tarshard import check_whole
from eyechart.errors import DataError
from eyechart.io.digests import file_digest
from eyechart.io.files import NOTES, write_atomic
from eyechart.io.progress import Bar, NoProgress, Progress


@dataclass(frozen=True)
class RemoteFile:
    """What a hub says of a file."""

    size: int
    sha256: str | None
    blob: str | None = None
    """Git's digest, which files without a SHA-256 have, too."""

    @property
    def version(self) -> str:
        """Return the digest that the hub lists, if any."""
        return self.sha256 or self.blob or ""


@dataclass(frozen=True)
class HubFiles(ABC):
    """Files of one revision of a dataset repository."""

    repo: str
    revision: str
    cache: Path
    offline: bool = False

    site: ClassVar[str]

    @property
    def address(self) -> str:
        """Return where the repository can be seen."""
        return f"https://{self.site}/datasets/{self.repo}/tree/{self.revision}"

    @property
    def folder(self) -> Path:
        """Return the mirror in the cache."""
        return self.cache / self.site / f"{self.repo.replace('/', '--')}--{self.revision.replace('/', '--')}"

    @cached_property
    def tree(self) -> dict[str, RemoteFile]:
        """List the repository, one request for all names, sizes and digests."""
        with self.errors():
            return self.list_files()

    def small(self, name: str) -> Path | None:
        """Return a file of the mirror; the library fetches it again if it has changed."""
        if self.offline:
            path = self.folder / name
            return path if path.is_file() else None
        if name not in self.tree:
            (self.folder / name).unlink(missing_ok=True)  # it was there once
            return None
        with NoProgress().step(name, None) as bar:
            return self._download(name, bar)

    def size(self, name: str) -> int | None:
        """Return the size that the hub lists, or offline that of the file in the mirror."""
        if self.offline:
            path = self.folder / name
            return path.stat().st_size if path.is_file() else None
        remote = self.tree.get(name)
        return remote.size if remote else None

    def version(self, name: str) -> str:
        """Return the digest that the hub lists, or offline the one that it listed when the file was fetched."""
        listed = self._fetched_version(name) if self.offline else self.tree[name].version
        return listed or file_digest(self.fetch(name, NoProgress())).hex()

    def fetch(self, name: str, progress: Progress) -> Path:
        """Download a file and check it; the libraries resume."""
        path = self.folder / name
        if self._is_intact(name, path) and (self.offline or self._is_current(name, path)):
            return path
        if self.offline:
            raise not_cached(self.address, name)
        if name not in self.tree:
            raise DataError(f"{self.address} has no {name}.", advice="nshards.txt counts it: it is incomplete there.")
        path.unlink(missing_ok=True)  # the libraries may take a file that was changed for their own
        with progress.step(f"fetching {name}", self.tree[name].size) as bar:
            path = self._download(name, bar)
        try:
            self._check(name, path)
        except DataError:
            path.unlink()
            raise
        write_atomic(self._note(name), f"{self.tree[name].version}\n{file_digest(path).hex()}".encode())
        return path

    def _is_current(self, name: str, path: Path) -> bool:
        """Tell whether the mirror has what the hub lists: a file of the same size may be another one."""
        remote = self.tree.get(name)
        return bool(
            remote
            and remote.version
            and remote.version == self._fetched_version(name)
            and remote.size == path.stat().st_size
        )

    def _is_intact(self, name: str, path: Path) -> bool:
        """Tell whether the mirror's file is the one that was fetched; notes of 0.1 have no digest."""
        return path.is_file() and self._read_note(name)[1] in ("", file_digest(path).hex())

    def _fetched_version(self, name: str) -> str:
        return self._read_note(name)[0]

    def _read_note(self, name: str) -> tuple[str, str]:
        """Return version and digest of what was fetched."""
        note = self._note(name)
        version, _, digest = (note.read_text("utf-8", "replace") if note.is_file() else "").partition("\n")
        return version, digest

    def _note(self, name: str) -> Path:
        return self.folder / NOTES / f"{name.replace('/', '--')}.version"

    def unread(self, split: str, count: int) -> list[str]:
        """List the tar files that the hub lists; offline, what it may have more is not known."""
        return [] if self.offline else beyond(self.tree, split, count)

    def splits(self) -> list[str]:
        """List the folders with shards."""
        if self.offline:
            return sorted(found.parent.name for found in self.folder.glob("*/nshards.txt"))
        return sorted(
            name.split("/")[0] for name in self.tree if name.count("/") == 1 and name.endswith("/nshards.txt")
        )

    def exists(self) -> bool:
        """Tell whether the repository can be read; if not, the reason is raised."""
        if self.offline and not self.folder.is_dir():
            raise not_cached(self.address, "The dataset")
        return self.offline or bool(self.tree)

    def _download(self, name: str, bar: Bar) -> Path:
        with self.errors():
            return self.download(name, bar)

    def _check(self, name: str, path: Path) -> None:
        expected = self.tree[name].sha256
        if expected:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
            if found != expected:
                raise changed(self.address, f"{name} does not have the SHA-256 that the hub lists")
        if name.endswith(".tar"):
            check_whole(path)

    @abstractmethod
    def list_files(self) -> dict[str, RemoteFile]:
        """Ask the hub for all files."""

    @abstractmethod
    def download(self, name: str, bar: Bar) -> Path:
        """Let the library bring a file into `folder`, and count its bytes."""

    @abstractmethod
    def errors(self) -> Any:
        """Return a context that turns the library's errors into ours."""
