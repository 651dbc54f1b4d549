"""Reading one shard of a webdataset: a tar file, streamed from front to back, nothing unpacked to disk."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from eyechart.errors import DataError
from eyechart.media import MAX_BYTES, Picture
from eyechart.types import Sample

IMAGE_EXTENSIONS = ("webp", "png", "jpg", "jpeg")
_BLOCK = 512

Fields = dict[str, bytes]
MakeSample = Callable[[str, Picture, Fields], Sample]


@dataclass(frozen=True)
class TarShard:
    """One tar file of a split."""

    path: Path
    make: MakeSample
    """Turns an id, a picture and the other members of the same key into a sample."""

    @property
    def name(self) -> str:
        """Return the file's name."""
        return self.path.name

    def __iter__(self) -> Iterator[Sample]:
        check_whole(self.path)
        for key, fields in iter_groups(self.path):
            extension = next((ext for ext in IMAGE_EXTENSIONS if ext in fields), None)
            if extension is None:
                raise DataError(
                    f"{self.path}: sample {key!r} has no picture, only {', '.join(sorted(fields))}.",
                    advice=f"A picture ends in .{', .'.join(IMAGE_EXTENSIONS)}.",
                )
            source = f"{self.path}:{key}.{extension}"
            yield self.make(f"{self.path.stem}/{key}", Picture(source, data=fields.pop(extension)), fields)


def check_whole(path: Path) -> None:
    """Refuse a tar that lacks its end mark: a cut at a member's border would otherwise lose samples silently."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            stream.seek(max(0, size - _BLOCK))
            tail = stream.read(_BLOCK)
    except FileNotFoundError as error:
        raise DataError(
            f"The shard {path} is missing.", advice="nshards.txt counts it: complete the folder, or correct the number."
        ) from error
    except OSError as error:
        raise DataError(f"Cannot read the shard {path} ({error.strerror}).") from error
    if size < 2 * _BLOCK or size % _BLOCK or tail.strip(b"\0"):
        raise DataError(
            f"The shard {path} is cut short: it has {size} bytes and no end mark.",
            advice="Copy or download it again.",
        )


def iter_groups(path: Path) -> Iterator[tuple[str, Fields]]:
    """Stream consecutive members with the same key (the name up to its first dot) as one group."""
    key: str | None = None
    fields: Fields = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                # tarfile remembers every member it has seen; a shard of a million would fill the memory.
                archive.members = []  # type: ignore[attr-defined]
                if member.isdir():
                    continue
                name, extension = _split(member, path)
                if name != key:
                    if key is not None:
                        yield key, fields
                    key, fields = name, {}
                if extension in fields:
                    raise DataError(f"{path}: {member.name!r} occurs twice.")
                fields[extension] = _content(archive, member, path)
    except (tarfile.TarError, EOFError) as error:
        raise DataError(
            f"The shard {path} is damaged or cut short ({error}).", advice="Copy or download it again."
        ) from error
    if key is not None:
        yield key, fields


def _split(member: tarfile.TarInfo, path: Path) -> tuple[str, str]:
    if not member.isfile():
        raise DataError(f"{path}: {member.name!r} is not a plain file.", advice="Links and devices are not read.")
    folder, _, base = member.name.rpartition("/")
    stem, _, extension = base.partition(".")
    return (f"{folder}/{stem}" if folder else stem), extension.lower()


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    if member.size > MAX_BYTES:
        raise DataError(f"{path}: {member.name!r} has {member.size} bytes, more than the limit of {MAX_BYTES}.")
    stream = archive.extractfile(member)
    data = stream.read() if stream else b""
    if len(data) != member.size:
        raise DataError(f"The shard {path} is cut short inside {member.name!r}.", advice="Copy or download it again.")
    return data
