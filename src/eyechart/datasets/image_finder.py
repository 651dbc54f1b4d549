"""Images that annotation files name: in folders, in zip archives unpacked once, or made of pixels."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from eyechart.datasets.locations import source_of
from eyechart.errors import DataError
from eyechart.io.digests import file_digest
from eyechart.io.files import TEMPORARY, cache_root, explained, file_path, make_folder, sync_folder
from eyechart.io.images import MAX_BYTES, ImageRef
from eyechart.io.safe_parse import is_file
from eyechart.types import DatasetSpec

if TYPE_CHECKING:
    from PIL import Image


SHOWN = 5


class ImageFinder:
    """Finds images under a root by the names in an annotation file, and records the missing ones."""

    def __init__(self, root: Path, patterns: Sequence[str]) -> None:
        self.root = root
        self.patterns = list(patterns)
        self.missing: list[str] = []

    def find(self, name: str) -> ImageRef | None:
        """Return the image, or None if no pattern matches a file; names cannot leave the folder."""
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or not name:
            raise DataError(
                "The image path {name!r} is outside {root}.",
                advice="The annotation file is damaged.",
                name=name,
                root=self.root,
            )
        for pattern in self.patterns:
            file = self.root / file_path(pattern.replace("{image}", name))
            if is_file(file):
                return ImageRef.from_path(file)
        self.missing.append(name)
        return None

    def raise_if_missing(self, source: object) -> None:
        """Raise one error for all missing images: a smaller set would change the score."""
        if self.missing:
            shown = ", ".join(self.missing[:SHOWN]) + (", ..." if len(self.missing) > SHOWN else "")
            raise DataError(
                "{source} refers to {n} images that are not in {root}: {shown}.",
                advice="Searched for {looked} there.",
                looked=", ".join(pattern.replace("{image}", "*") for pattern in self.patterns),
                source=source,
                n=len(self.missing),
                root=self.root,
                shown=shown,
            )


def finder_of(spec: DatasetSpec, *patterns: str) -> ImageFinder:
    """Create the finder for a dataset's images: with the catalogue's patterns, else the given ones."""
    return ImageFinder(Path(spec.root), source_of(spec).get("images", patterns))


def from_pixels(image: Image.Image, source: str) -> ImageRef:
    """Encode pixels that have no file as PNG, which is lossless."""
    stream = io.BytesIO()
    # Level 1 is three times as fast as the default; the bytes are only hashed and decoded again.
    image.save(stream, "PNG", compress_level=1)
    return ImageRef(source, data=stream.getvalue(), made=True)


@contextmanager
def new_folder(target: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Create a temporary folder that becomes the target when the block ends, and is removed if it fails."""
    mark = f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(6)}"
    folder = target.parent / f"{mark}-{target.name}"
    folder.mkdir(parents=True)
    try:
        yield folder
        if overwrite and target.exists():
            old = target.parent / f"{mark}-old-{target.name}"
            target.rename(old)
            folder.rename(target)
            shutil.rmtree(old)
        else:
            try:
                folder.rename(target)
            except OSError:
                if overwrite or not target.is_dir():
                    raise
                shutil.rmtree(folder)  # another process was faster
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    sync_folder(target.parent)


DAMAGED = (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError)


def unpack(archive: Path) -> Path:
    """Unpack an archive into the cache and return the folder."""
    target = cache_root() / "unpacked" / file_digest(archive).hex()[:32]
    if target.is_dir():
        return target
    with explained("cache", target.parent):
        make_folder(target.parent, private=True)
        with new_folder(target, overwrite=False) as aside:
            try:
                _unpack_into(aside, archive)
            except DAMAGED as error:
                text, advice = "Cannot unpack {archive} ({reason}).", "Download the archive again."
                raise DataError(text, advice=advice, archive=archive, reason=error) from error
    return target


def _unpack_into(folder: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            name = PurePosixPath(member.filename.replace("\\", "/"))
            if name.is_absolute() or ".." in name.parts or member.file_size > MAX_BYTES:
                raise DataError(
                    "{archive}: {filename!r} is not an acceptable image (bad path or size).",
                    archive=archive,
                    filename=member.filename,
                )
            if not member.is_dir():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(opened.read(member))
