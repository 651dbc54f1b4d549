"""Tar shards of a webdataset, streamed from front to back, with a remembered index."""

import json
import os
import tarfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from eyechart.datasets.row_dataset import located
from eyechart.errors import DataError
from eyechart.io.digests import SHARDS, DigestedStream, State, digest_bytes, file_state, is_settled
from eyechart.io.files import cache_root, check_name, shown, write_cached
from eyechart.io.images import MAX_BYTES, ImageRef
from eyechart.io.safe_parse import DAMAGED
from eyechart.types import Sample

MAX_SMALL = 1 << 16
"""Maximum bytes per sample without its image (numbers and captions). Shards with more are not indexed."""
_FORM = 1

Fields = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Member:
    """A sample of a shard: its key, its image by position and digest, and its other members."""

    key: str
    extension: str
    start: int
    size: int
    """Position and length of the image's bytes."""
    digest: bytes
    fields: Fields


def known_members(path: Path) -> Iterator[Member] | None:
    """Return the index of a shard; None if there is none, or if the file has changed since."""
    members = []
    try:
        digest, _, data = _place(path).read_bytes().partition(b"\n")
        body = json.loads(data if digest == digest_bytes(data).hex().encode() else b"")
        if body["form"] != _FORM or body["path"] != os.path.abspath(path) or body["state"] != file_state(path):  # noqa: PTH100
            return None
        for key, extension, start, size, digest, fields in body["members"]:
            small = {name: text.encode("latin-1") for name, text in fields.items()}
            members.append(Member(key, extension, start, size, bytes.fromhex(digest), small))
    except (OSError, *DAMAGED):
        return None
    return iter(members)


def remember_members(path: Path, state: State, members: list[Member]) -> None:
    """Store the index of a shard, unless the file changed during or shortly before reading."""
    small = all(sum(map(len, member.fields.values())) <= MAX_SMALL for member in members)
    if not small or file_state(path) != state or not is_settled(state):
        return
    rows = []
    for member in members:
        fields = {name: data.decode("latin-1") for name, data in member.fields.items()}  # every byte is a character
        rows.append([member.key, member.extension, member.start, member.size, member.digest.hex(), fields])
    body = {"form": _FORM, "path": os.path.abspath(path), "state": state, "members": rows}  # noqa: PTH100
    data = json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode()
    write_cached(_place(path), digest_bytes(data).hex().encode() + b"\n" + data)


def _place(path: Path) -> Path:
    return cache_root() / SHARDS / f"{digest_bytes(os.fsencode(os.path.abspath(path))).hex()}.json"  # noqa: PTH100


IMAGE_EXTENSIONS = ("webp", "png", "jpg", "jpeg")
MAX_MEMBERS = 1000
"""Maximum number of members of one sample."""
MAX_HEADER = 1024 * 1024
"""Maximum size of a member's long name and attributes."""
_BLOCK = 512
_RECORD = 20 * _BLOCK
_LEAP = 3 * _BLOCK + 1
"""Read buffer between images: a small target with its header, the header of the next image, and the preceding byte,
which tarfile reads to detect truncation."""

TarStream = BinaryIO | DigestedStream
MakeSample = Callable[[str, ImageRef, Fields], Sample]
"""Creates a sample from an id, an image and the other members of the same key."""


def iter_tar(path: Path, make: MakeSample, *, outline: bool = False) -> Iterator[Sample]:
    """Yield the samples of a tar file, from its index if the file is unchanged; optionally without images."""
    known = known_members(path)
    for member, data in ((member, None) for member in known) if known is not None else _stream(path, outline=outline):
        source = f"{shown(path)}:{member.key}.{member.extension}"
        image = ImageRef(source, data=data, part=(path, member.start, member.size), known=member.digest or None)
        with located(source):
            sample = make(f"{path.stem}/{member.key}", image, dict(member.fields))
        yield sample


def _stream(path: Path, *, outline: bool) -> Iterator[tuple[Member, bytes | None]]:
    """Read a tar file sequentially, check it, and store its index once it was read completely.

    An outline skips from header to header, checking what is possible without reading images.
    """
    check_whole(path)
    state, members = file_state(path), list[Member]()
    with path.open("rb", buffering=_LEAP) if outline else DigestedStream(path) as stream:
        for key, fields, places in placed_groups(path, stream, leave_out=IMAGE_EXTENSIONS if outline else ()):
            check_name(key, f"{path}: the sample")
            extension = next((ext for ext in IMAGE_EXTENSIONS if ext in fields), None)
            if extension is None:
                raise DataError(
                    "{path}: sample {key!r} has no image, only {fields}.",
                    advice="Supported image suffixes: .{image_extensions}.",
                    path=path,
                    key=key,
                    fields=", ".join(sorted(fields)),
                    image_extensions=", .".join(IMAGE_EXTENSIONS),
                )
            data = fields.pop(extension)
            if outline:
                yield Member(key, extension, *places[extension], b"", fields), None
                continue
            members.append(Member(key, extension, *places[extension], digest_bytes(data), fields))
            yield members[-1], data
        if isinstance(stream, DigestedStream):
            stream.keep()
    if not outline:
        remember_members(path, state, members)


def _damaged(message: str, path: Path, **fields: object) -> DataError:
    return DataError(message, advice="Copy or download it again.", path=path, **fields)


def check_whole(path: Path) -> None:
    """Reject a tar file without end mark: truncation between members would otherwise lose samples silently."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            stream.seek(max(0, size - _BLOCK))
            tail = stream.read(_BLOCK)
    except FileNotFoundError as error:
        raise DataError(
            "The shard {path} is missing.",
            advice="nshards.txt counts it: add the missing file, or correct the number.",
            path=path,
        ) from error
    except OSError as error:
        raise DataError("Cannot read the shard {path} ({reason}).", path=path, reason=error.strerror) from error
    if size < 2 * _BLOCK or size % _BLOCK or tail.strip(b"\0"):
        raise _damaged("The shard {path} is truncated: it has {n} bytes and no end mark.", path, n=size)


def iter_groups(path: Path) -> Iterator[tuple[str, Fields]]:
    """Stream consecutive members with the same key (the name up to its first dot) as one group."""
    with path.open("rb") as stream:
        yield from ((key, fields) for key, fields, _ in placed_groups(path, stream))


def placed_groups(
    path: Path, stream: TarStream, leave_out: Collection[str] = ()
) -> Iterator[tuple[str, Fields, dict[str, tuple[int, int]]]]:
    """Stream groups, with position and size of each member's content, unread for extensions in ``leave_out``."""
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
            raise DataError("{path}: {name!r} occurs twice.", path=path, name=member.name)
        size = member.size + sum(size for _, size in places.values())
        if len(fields) >= MAX_MEMBERS or member.size < 0 or size > MAX_BYTES:
            raise DataError(
                "{path}: sample {name!r} has more than {max_members} members or {max_bytes} bytes.",
                advice="A sample consists of an image and its texts and numbers.",
                path=path,
                name=name,
                max_members=MAX_MEMBERS,
                max_bytes=MAX_BYTES,
            )
        unread = extension in leave_out
        if not unread:
            stream.seek(member.offset_data)
        fields[extension] = b"" if unread else stream.read(member.size)
        if member.offset_data + member.size > length or not (unread or len(fields[extension]) == member.size):
            raise _damaged("The shard {path} is truncated inside {name!r}.", path, name=member.name)
        places[extension] = (member.offset_data, member.size)
    if key is None:
        raise _damaged("The shard {path} contains no samples.", path)
    yield key, fields, places


def _members(stream: TarStream, path: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the members except folders; everything that tarfile raises on damaged or hostile headers is one error."""
    try:
        with tarfile.open(fileobj=cast("BinaryIO", _Headers(stream)), mode="r:") as archive:
            for member in archive:
                # tarfile keeps every member it has seen, which would fill the memory for a shard of a million.
                archive.members = []  # type: ignore[attr-defined]
                if not member.isdir():
                    yield member
            end = archive.offset
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise _damaged("The shard {path} is damaged or truncated ({reason}).", path, reason=error) from error
    # An archive ends with two blocks of zeros, padded with zeros to a full record. Without them it is truncated; more
    # of them are overwritten members; and data after them may be another archive: samples would be lost silently.
    longest = 2 * _BLOCK + -(end + 2 * _BLOCK) % _RECORD
    zeros = 0
    stream.seek(end)
    while block := stream.read(MAX_HEADER):
        zeros += len(block)
        if block.strip(b"\0"):
            raise DataError(
                "The shard {path} has data after its end mark.",
                advice="Concatenated tar files are not supported: split them, or write them as one archive.",
                path=path,
            )
    if zeros < _BLOCK:
        raise _damaged("The shard {path} is truncated: it has no end mark.", path)
    if zeros > longest:
        raise DataError(
            "The shard {path} is damaged: it ends with {zeros} zero bytes, at most {longest} are valid.",
            advice="Samples are missing: copy or download it again.",
            path=path,
            zeros=zeros,
            longest=longest,
        )


class _Headers:
    """A view of a shard for tarfile that only moves forward and reads headers of limited size.

    A header may claim a size that is negative or larger than the disk, which would make tarfile loop or exhaust memory.
    """

    def __init__(self, stream: TarStream) -> None:
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
            "{path}: {name!r} is not a regular file.",
            advice="Links, devices and sparse files are not supported.",
            path=path,
            name=member.name,
        )
    folder, _, base = member.name.rpartition("/")
    stem, _, extension = base.partition(".")
    return (f"{folder}/{stem}" if folder else stem), extension.lower()
