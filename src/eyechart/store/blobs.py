"""Where whole, immutable files are kept: a folder, or any place that fsspec knows (``s3://bucket/folder``).

A blob appears whole or not at all and never changes. In a folder that is a rename; in an object store, one put.
Blobs of other places are kept in the cache once they were read: they cannot change, so no copy is ever out of date.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from eyechart.errors import EyechartError, import_extra, missing_extra
from eyechart.io.files import cache_root, explained, make_folder, write_atomic

PATTERN = "[0-9]*.safetensors"
"""What counts as a blob; anything else is not ours or not finished."""
DAMAGED = "damaged-"
"""Prefix of a blob that is no longer used."""


class BlobError(EyechartError):
    """The place cannot be used."""


class GoneBlobError(BlobError):
    """A blob is no longer there: another process has merged it with others, set it aside or removed it."""


class LocalBlobs:
    """Blobs in a folder: written aside, flushed and renamed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """List the finished files.

        A listing may miss a file that was written while it was made, and also those that were then removed because of
        it. The next listing has that file: two that agree have missed nothing.
        """
        found = None
        while (again := sorted(path.name for path in self.folder.glob(PATTERN))) != found:
            found = again
        return found

    def write(self, name: str, data: bytes) -> None:
        """Write a file into a folder that only its owner can read."""
        with explained("embedding store", self.folder):
            write_atomic(make_folder(self.folder, private=True) / name, data)

    def path(self, name: str) -> Path:
        """Return the file itself."""
        return self.folder / name

    def remove(self, name: str) -> None:
        """Remove the file. One that is in use stays where the system wants it so (Windows), until the next time."""
        with suppress(FileNotFoundError, PermissionError):
            (self.folder / name).unlink()

    def set_aside(self, name: str) -> None:
        """Rename the file; another process may have done so already."""
        with suppress(FileNotFoundError):
            (self.folder / name).rename(self.folder / f"{DAMAGED}{name}")


class RemoteBlobs:
    """Blobs in an object store, with a copy in the cache of each that was read or written here."""

    def __init__(self, address: str) -> None:
        fsspec = import_extra("fsspec", "cloud")
        self.shown = re.sub(r"//[^/@]*@", "//", address)  # without a password
        self.copies = cache_root() / "copies" / hashlib.blake2b(address.encode(), digest_size=16).hexdigest()
        try:
            self.system, self.root = fsspec.core.url_to_fs(address)
        except ImportError as error:
            raise missing_extra(str(error), "cloud") from error
        except ValueError as error:
            raise BlobError(f"{self.shown}: {error}.", advice="Set EYECHART_STORE to a folder, or s3://...") from error

    def names(self) -> list[str]:
        """List the objects."""
        try:
            self.system.invalidate_cache(self.root)
            found = self.system.ls(self.root, detail=False)
        except FileNotFoundError:
            return []  # nothing was stored yet
        except Exception as error:
            raise self._failed("read", error) from error
        return sorted(name for name in (str(path).rpartition("/")[2] for path in found) if fnmatchcase(name, PATTERN))

    def write(self, name: str, data: bytes) -> None:
        """Put the object in one piece, and keep a copy."""
        try:
            self.system.pipe_file(f"{self.root}/{name}", data)
        except Exception as error:
            raise self._failed("write to", error) from error
        self._copy(name, data)

    def path(self, name: str) -> Path:
        """Return the copy, fetched if it is not there yet."""
        copy = self.copies / name
        if not copy.is_file():
            try:
                data = self.system.cat_file(f"{self.root}/{name}")
            except FileNotFoundError as error:
                raise GoneBlobError(f"A part of the embedding store is gone: {self.shown}, {name}.") from error
            except Exception as error:
                raise self._failed("read", error) from error
            self._copy(name, data)
        return copy

    def set_aside(self, name: str) -> None:
        """Rename the object, and drop the copy."""
        (self.copies / name).unlink(missing_ok=True)
        try:
            with suppress(FileNotFoundError):
                self.system.mv(f"{self.root}/{name}", f"{self.root}/{DAMAGED}{name}")
        except Exception as error:
            raise self._failed("write to", error) from error

    def _copy(self, name: str, data: bytes) -> None:
        LocalBlobs(self.copies).write(name, data)

    def _failed(self, verb: str, error: Any) -> BlobError:
        """Say what went wrong; every file system has exceptions of its own."""
        return BlobError(
            f"Cannot {verb} the embedding store at {self.shown} ({type(error).__name__}: {error}).",
            advice="Check EYECHART_STORE, the network and the access keys. What was stored so far is kept.",
        )


Blobs = LocalBlobs | RemoteBlobs


def open_blobs(place: str | Path, *parts: str) -> Blobs:
    """Open a folder, or an address of fsspec with ``://``, and the parts below it."""
    text = str(place)
    if isinstance(place, Path) or "://" not in text:
        return LocalBlobs(Path(text, *parts))
    if text.startswith(("file://", "local://")):
        return LocalBlobs(Path(text.partition("://")[2], *parts))  # fsspec would not write at once
    return RemoteBlobs("/".join((text.rstrip("/"), *parts)))
