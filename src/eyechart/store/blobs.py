"""Storage for immutable files: a folder, or any fsspec location (``s3://bucket/folder``).

Writes are atomic: a rename in a folder, a single put in an object store. Remote blobs are cached locally once read;
they never change, so a cached copy is never stale.
"""

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from eyechart.errors import EyechartError, import_extra, missing_extra
from eyechart.io.files import cache_root, explained, make_folder, write_atomic

PATTERN = "[0-9]*.safetensors"
"""Names of finished blobs; other files are temporary or foreign."""
DAMAGED = "damaged-"
"""Name prefix of a blob that is damaged and no longer used."""


class BlobError(EyechartError):
    """The storage location cannot be used."""


class GoneBlobError(BlobError):
    """A blob no longer exists: another process merged, renamed or removed it."""


@dataclass
class LocalBlobs:
    """Blobs in a folder, written to a temporary file, flushed and renamed."""

    folder: Path

    def names(self) -> list[str]:
        """List the finished files.

        A listing that runs concurrently with a merge may miss the merged file as well as its removed sources. The next
        listing has it, so two equal listings are complete.
        """
        found = None
        while (again := sorted(path.name for path in self.folder.glob(PATTERN))) != found:
            found = again
        return found

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically, in a folder that only the user can read."""
        with explained("embedding store", self.folder):
            write_atomic(make_folder(self.folder, private=True) / name, data)

    def path(self, name: str) -> Path:
        """Return the file itself."""
        return self.folder / name

    def remove(self, name: str) -> None:
        """Remove the file; what cannot be removed is left for the next compaction."""
        with suppress(FileNotFoundError, PermissionError):
            (self.folder / name).unlink()

    def set_aside(self, name: str) -> None:
        """Mark the file as damaged by renaming it; another process may have done so already."""
        with suppress(FileNotFoundError):
            (self.folder / name).rename(self.folder / f"{DAMAGED}{name}")


class RemoteBlobs:
    """Blobs in an object store, with a local copy of each blob read or written here."""

    def __init__(self, address: str) -> None:
        fsspec = import_extra("fsspec", "cloud")
        self.shown = re.sub(r"//[^/@]*@", "//", address)  # without a password
        self.copies = cache_root() / "copies" / hashlib.blake2b(address.encode(), digest_size=16).hexdigest()
        try:
            self.system, self.root = fsspec.core.url_to_fs(address)
        except ImportError as error:
            raise missing_extra(str(error), "cloud") from error
        except ValueError as error:
            raise BlobError(
                "{url}: {reason}.", advice="Set EYECHART_STORE to a folder, or s3://...", url=self.shown, reason=error
            ) from error

    def names(self) -> list[str]:
        """List the objects."""
        try:
            self.system.invalidate_cache(self.root)
            found = self.system.ls(self.root, detail=False)
        except FileNotFoundError:
            return []  # nothing stored yet
        except Exception as error:
            raise self._failed("read", error) from error
        return sorted(name for name in (str(path).rpartition("/")[2] for path in found) if fnmatchcase(name, PATTERN))

    def write(self, name: str, data: bytes) -> None:
        """Upload the object in one put, and keep a local copy."""
        try:
            self.system.pipe_file(f"{self.root}/{name}", data)
        except Exception as error:
            raise self._failed("write to", error) from error
        LocalBlobs(self.copies).write(name, data)

    def path(self, name: str) -> Path:
        """Return the local copy, downloading it if necessary."""
        copy = self.copies / name
        if not copy.is_file():
            try:
                data = self.system.cat_file(f"{self.root}/{name}")
            except FileNotFoundError as error:
                raise GoneBlobError(
                    "Missing part of the embedding store: {shown}, {name}.", shown=self.shown, name=name
                ) from error
            except Exception as error:
                raise self._failed("read", error) from error
            LocalBlobs(self.copies).write(name, data)
        return copy

    def set_aside(self, name: str) -> None:
        """Mark the object as damaged by renaming it, and delete the local copy."""
        (self.copies / name).unlink(missing_ok=True)
        try:
            with suppress(FileNotFoundError):
                self.system.mv(f"{self.root}/{name}", f"{self.root}/{DAMAGED}{name}")
        except Exception as error:
            raise self._failed("write to", error) from error

    def _failed(self, verb: str, error: Any) -> BlobError:
        """Wrap an error of any file system: each raises its own exception types."""
        return BlobError(
            "Cannot {verb} the embedding store at {shown} ({type}: {reason}).",
            advice="Check EYECHART_STORE, the network and the credentials. Vectors stored so far are kept.",
            verb=verb,
            shown=self.shown,
            type=type(error).__name__,
            reason=error,
        )


Blobs = LocalBlobs | RemoteBlobs


def open_blobs(place: str | Path, *parts: str) -> Blobs:
    """Open a folder, or an fsspec URL (``://``), and the parts below it."""
    text = str(place)
    if isinstance(place, Path) or "://" not in text:
        return LocalBlobs(Path(text, *parts))
    if text.startswith(("file://", "local://")):
        return LocalBlobs(Path(text.partition("://")[2], *parts))  # fsspec's local writes are not atomic
    return RemoteBlobs("/".join((text.rstrip("/"), *parts)))
