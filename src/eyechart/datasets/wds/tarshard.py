"""Reading one shard of a webdataset: a tar file, streamed from front to back, nothing unpacked to disk."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from eyechart.datasets.wds.shard_index import Fields, Member, known_members, remember_members
from eyechart.errors import DataError
from eyechart.io.digests import DigestedStream, digest_bytes, file_state
from eyechart.io.media import MAX_BYTES, ImageRef
from eyechart.io.names import check_name, shown
from eyechart.types import Sample

IMAGE_EXTENSIONS = ("webp", "png", "jpg", "jpeg")
MAX_MEMBERS = 1000
"""Members of one sample."""
MAX_HEADER = 1024 * 1024
"""Bytes of a member's long name and attributes."""
_BLOCK = 512
_RECORD = 20 * _BLOCK
_LEAP = 3 * _BLOCK + 1
"""Bytes that are read at a time between images: a small target with its header, the header of the next image, and the
byte before them, by which tarfile tells that there is more."""

MakeSample = Callable[[str, ImageRef, Fields], Sample]
"""Turns an id, an image and the other members of the same key into a sample."""


class Readable(Protocol):
    """What is needed of an open file."""

    def read(self, size: int = -1, /) -> bytes:
        """Read as a file does."""

    def seek(self, position: int, /) -> int:
        """Go to a place."""

    def tell(self) -> int:
        """Return the place."""


def iter_tar(path: Path, make: MakeSample, *, outline: bool = False) -> Iterator[Sample]:
    """Give the samples of a tar file: from memory if it is as it was, else streamed; as an outline, without images."""
    known = known_members(path)
    streamed = _outline if outline else _stream
    for member, data in ((member, None) for member in known) if known is not None else streamed(path):
        source = f"{shown(path)}:{member.key}.{member.extension}"
        image = ImageRef(source, data=data, part=(path, member.start, member.size), known=member.digest or None)
        yield make(f"{path.stem}/{member.key}", image, dict(member.fields))


def _stream(path: Path) -> Iterator[tuple[Member, bytes]]:
    """Read a tar file from front to back, check it, and remember what is in it once all of it was seen."""
    check_whole(path)
    state, members = file_state(path), list[Member]()
    with DigestedStream(path) as stream:
        for key, fields, starts in placed_groups(path, stream):
            extension = _image_of(path, key, fields)
            data = fields.pop(extension)
            members.append(Member(key, extension, starts[extension][0], len(data), digest_bytes(data), fields))
            yield members[-1], data
        stream.keep()
    remember_members(path, state, members)


def _outline(path: Path) -> Iterator[tuple[Member, None]]:
    """Leap from header to header, checking what can be checked without the bytes of the images."""
    check_whole(path)
    with path.open("rb", buffering=_LEAP) as stream:
        for key, fields, starts in placed_groups(path, stream, leave_out=IMAGE_EXTENSIONS):
            extension = _image_of(path, key, fields)
            del fields[extension]
            yield Member(key, extension, *starts[extension], b"", fields), None


def _image_of(path: Path, key: str, fields: Fields) -> str:
    """Return which member of a sample is its image."""
    check_name(key, f"{path}: the sample")
    extension = next((ext for ext in IMAGE_EXTENSIONS if ext in fields), None)
    if extension is None:
        raise DataError(
            f"{path}: sample {key!r} has no image, only {', '.join(sorted(fields))}.",
            advice=f"An image ends in .{', .'.join(IMAGE_EXTENSIONS)}.",
        )
    return extension


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
    with path.open("rb") as stream:
        yield from ((key, fields) for key, fields, _ in placed_groups(path, stream))


def placed_groups(
    path: Path, stream: Readable, leave_out: Collection[str] = ()
) -> Iterator[tuple[str, Fields, dict[str, tuple[int, int]]]]:
    """Stream groups, and where in the file the content of each member begins and how many bytes it has.

    Args:
        path: The file.
        stream: The same, opened.
        leave_out: Extensions of members whose content is not read: it is empty.
    """
    key: str | None = None
    fields: Fields = {}
    places: dict[str, tuple[int, int]] = {}
    length = path.stat().st_size
    for member in _members(stream, path):
        name, extension = _split(member, path)
        if name != key:
            if key is not None:
                yield key, fields, places
            key, fields, places = name, {}, {}
        if extension in fields:
            raise DataError(f"{path}: {member.name!r} occurs twice.")
        size = member.size + sum(size for _, size in places.values())
        if len(fields) >= MAX_MEMBERS or member.size < 0 or size > MAX_BYTES:
            raise DataError(
                f"{path}: sample {name!r} has more than {MAX_MEMBERS} members or {MAX_BYTES} bytes.",
                advice="A sample is an image with its texts and numbers.",
            )
        unread = extension in leave_out
        fields[extension] = b"" if unread else _content(stream, member)
        if member.offset_data + member.size > length or not (unread or len(fields[extension]) == member.size):
            raise DataError(
                f"The shard {path} is cut short inside {member.name!r}.", advice="Copy or download it again."
            )
        places[extension] = (member.offset_data, member.size)
    if key is None:
        raise DataError(f"The shard {path} holds no samples.", advice="Copy or download it again.")
    yield key, fields, places


def _members(stream: Readable, path: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the members that are no folders; all that tarfile raises on damaged or hostile headers is one error."""
    try:
        with tarfile.open(fileobj=cast("BinaryIO", _Headers(stream)), mode="r:") as archive:
            for member in archive:
                # tarfile remembers every member it has seen; a shard of a million would fill the memory.
                archive.members = []  # type: ignore[attr-defined]
                if not member.isdir():
                    yield member
            end = archive.offset
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(
            f"The shard {path} is damaged or cut short ({error}).", advice="Copy or download it again."
        ) from error
    _check_end(stream, end, path)


def _check_end(stream: Readable, end: int, path: Path) -> None:
    """Refuse an archive that does not end where its members do: samples would be lost without a word.

    An archive ends in two blocks of zeros, and more of them until a record is full. Without a block of zeros it was
    cut; more of them than that were members once; and behind them may lie another archive.
    """
    longest = 2 * _BLOCK + -(end + 2 * _BLOCK) % _RECORD
    zeros = 0
    stream.seek(end)
    while block := stream.read(MAX_HEADER):
        zeros += len(block)
        if block.strip(b"\0"):
            raise DataError(
                f"The shard {path} has data behind its end mark.",
                advice="Joined tar files are not read: give each its own name, or write them as one.",
            )
    if zeros < _BLOCK:
        raise DataError(f"The shard {path} is cut short: it has no end mark.", advice="Copy or download it again.")
    if zeros > longest:
        raise DataError(
            f"The shard {path} is damaged: its last {zeros} bytes are zeros, at most {longest} may be.",
            advice="Samples are missing: copy or download it again.",
        )


class _Headers:
    """What tarfile sees of a shard: it may go forward and read headers of a decent size.

    A header may claim a size that is negative or larger than the disk; tarfile would run in circles, or take memory
    for it.
    """

    def __init__(self, stream: Readable) -> None:
        self.stream = stream
        self._reached = 0

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self.stream.read(size)

    def seek(self, position: int) -> int:
        if position < self._reached:
            raise tarfile.ReadError("a header that leads back")
        self._reached = position
        return self.stream.seek(position)

    def tell(self) -> int:
        return self.stream.tell()


def _split(member: tarfile.TarInfo, path: Path) -> tuple[str, str]:
    if not member.isfile() or member.issparse():
        raise DataError(
            f"{path}: {member.name!r} is not a plain file.", advice="Links, devices and sparse files are not read."
        )
    folder, _, base = member.name.rpartition("/")
    stem, _, extension = base.partition(".")
    return (f"{folder}/{stem}" if folder else stem), extension.lower()


def _content(stream: Readable, member: tarfile.TarInfo) -> bytes:
    stream.seek(member.offset_data)
    return stream.read(member.size)
