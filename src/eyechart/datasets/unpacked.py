"""Images in a zip archive, unpacked once into the cache: under the archive's digest, whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from eyechart.errors import DataError
from eyechart.io.digests import file_digest
from eyechart.io.files import TEMPORARY, cache_root, explained, make_folder
from eyechart.io.media import MAX_BYTES

DAMAGED = (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError)


def unpacked(archive: Path) -> Path:
    """Return the folder that holds what is in an archive.

    Raises:
        DataError: If the archive is damaged, or a member leads out of the folder or is too large for an image.
    """
    target = cache_root() / "unpacked" / file_digest(archive).hex()[:32]
    if target.is_dir():
        return target
    with explained("cache", target.parent):
        aside = make_folder(target.parent, private=True) / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(6)}"
        aside.mkdir()
    try:
        _unpack(archive, aside)
        if not target.is_dir():
            aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                name = PurePosixPath(member.filename.replace("\\", "/"))
                if name.is_absolute() or ".." in name.parts or member.file_size > MAX_BYTES:
                    raise DataError(f"{archive}: {member.filename!r} is no image of a dataset.")
                if not member.is_dir():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_bytes(opened.read(member))
    except DAMAGED as error:
        raise DataError(f"Cannot unpack {archive} ({error}).", advice="Get the archive again.") from error
