"""What is in a shard, remembered: a tar file that looks untouched is not read again for its labels and digests.

Untouched is what it means for the digests of files (`eyechart.io.digests`). An index holds what the stream gave: keys,
where the bytes of each image lie and their digest, and the small members as they are. Images are read when they are
decoded, and their digest is compared then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eyechart.io.digests import State, digest_bytes, file_state, is_settled
from eyechart.io.files import cache_root, write_cached
from eyechart.io.untrusted import DAMAGED

MAX_SMALL = 1 << 16
"""Bytes beside one image that are remembered: numbers and captions. A shard with more of them is read each time."""
_FORM = 1

Fields = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Member:
    """A sample of a shard: its key, its image by place and digest, and its other members."""

    key: str
    extension: str
    start: int
    size: int
    """Where the image's bytes begin, and how many they are."""
    digest: bytes
    fields: Fields


def known_members(path: Path) -> Iterator[Member] | None:
    """Return what is remembered of a shard; None if nothing is, or if the file has changed since."""
    try:
        body = json.loads(_place(path).read_bytes())
        if body["form"] != _FORM or body["path"] != os.path.abspath(path) or body["state"] != file_state(path):  # noqa: PTH100
            return None
        members = [_from_json(*row) for row in body["members"]]
    except (OSError, *DAMAGED):
        return None
    return iter(members)


def remember_members(path: Path, state: State, members: list[Member]) -> None:
    """Keep what a shard holds, if it was not changed while or shortly before it was read."""
    small = all(sum(map(len, member.fields.values())) <= MAX_SMALL for member in members)
    if not small or file_state(path) != state or not is_settled(state):
        return
    rows = [_to_json(member) for member in members]
    body = {"form": _FORM, "path": os.path.abspath(path), "state": state, "members": rows}  # noqa: PTH100
    write_cached(_place(path), json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode())


def _place(path: Path) -> Path:
    return cache_root() / "shards" / f"{digest_bytes(os.fsencode(os.path.abspath(path))).hex()}.json"  # noqa: PTH100


def _to_json(member: Member) -> list[object]:
    fields = {name: data.decode("latin-1") for name, data in member.fields.items()}  # every byte is a character
    return [member.key, member.extension, member.start, member.size, member.digest.hex(), fields]


def _from_json(key: str, extension: str, start: int, size: int, digest: str, fields: dict[str, str]) -> Member:
    small = {name: text.encode("latin-1") for name, text in fields.items()}
    return Member(key, extension, start, size, bytes.fromhex(digest), small)
