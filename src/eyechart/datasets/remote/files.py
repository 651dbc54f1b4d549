"""A folder of files, here or elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from eyechart.io.digests import file_digest
from eyechart.io.files import cache_root
from eyechart.io.names import shown
from eyechart.io.progress import Progress


class Files(Protocol):
    """What a dataset needs of the place where its files are. Names are relative, with slashes."""

    @property
    def address(self) -> str:
        """Name the place in messages and results."""

    @property
    def folder(self) -> Path:
        """Return the local folder in which `small` files appear."""

    def small(self, name: str) -> Path | None:
        """Return a small text file, fetched if necessary; nothing if there is none."""

    def size(self, name: str) -> int | None:
        """Return the size of a file without fetching it; nothing if there is no such file."""

    def version(self, name: str) -> str:
        """Return a text that changes with a file's content: its digest, or what the place says instead of one."""

    def fetch(self, name: str, progress: Progress) -> Path:
        """Bring a large file here, whole and checked, and return its path."""

    def unread(self, split: str, count: int) -> list[str]:
        """List tar files of a split beyond the first ``count``, so far as the place can be asked."""

    def splits(self) -> list[str]:
        """List the splits of the webdataset here, for messages."""

    def exists(self) -> bool:
        """Tell whether there is any dataset here."""


@dataclass(frozen=True)
class LocalFiles:
    """A folder on this machine."""

    folder: Path

    @property
    def address(self) -> str:
        """Return the path."""
        return shown(self.folder)

    def small(self, name: str) -> Path | None:
        """Return the path if it is a file."""
        path = self.folder / name
        return path if path.is_file() else None

    def size(self, name: str) -> int | None:
        """Return the size on disk."""
        path = self.folder / name
        return path.stat().st_size if path.is_file() else None

    def version(self, name: str) -> str:
        """Return the digest of the content."""
        return file_digest(self.folder / name).hex()

    def fetch(self, name: str, progress: Progress) -> Path:  # noqa: ARG002 - the protocol's signature
        """Return the path; there is nothing to do."""
        return self.folder / name

    def unread(self, split: str, count: int) -> list[str]:
        """List the files that are no shards of the split."""
        return beyond((f"{split}/{path.name}" for path in (self.folder / split).glob("*.tar")), split, count)

    def splits(self) -> list[str]:
        """List the folders with shards."""
        return sorted(found.parent.name for found in self.folder.glob("*/nshards.txt"))

    def exists(self) -> bool:
        """Tell whether the folder is there."""
        return self.folder.is_dir()


def beyond(names: Iterable[str], split: str, count: int) -> list[str]:
    """Return the tar files of a split that are not among its first ``count`` shards."""
    shards = {f"{split}/{i}.tar" for i in range(count)}
    return sorted(
        name for name in names if name.startswith(f"{split}/") and name.endswith(".tar") and name not in shards
    )


def cache_folder(options: Mapping[str, Any]) -> Path:
    """Return where fetched datasets are kept: ``cache_dir`` of the options, else our cache."""
    own = options.get("cache_dir")
    return Path(own).expanduser() if own else cache_root() / "datasets"
