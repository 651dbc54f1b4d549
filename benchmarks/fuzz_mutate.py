"""Turn valid inputs into odd ones. Every function is a pure function of the random generator that it is given."""

from __future__ import annotations

import io
import json
import random
import struct
import tarfile
import zipfile
from collections.abc import Sequence
from typing import Any

LARGEST = 200_000
"""Largest input in bytes: enough to expose quadratic code."""
ODD_NUMBERS = (
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "-2147483649",
    "18446744073709551616",
    "1e309",
    "-1e309",
    "1e-400",
    "NaN",
    "Infinity",
    "-0.0",
    "0x10",
    "1_000",
    "9" * 40,
    "9" * 5000,
    "\u0663",
    "\u00b2",
    "1.5",
    "true",
    "null",
    "",
)
ODD_BYTES = (
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\r\n",
    b"\n",
    b"\t",
    b'"',
    b"'",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"<",
    b">",
    b"&",
    b":",
    b",",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"\x1a",
    b"\x85",
    b"/",
    b"..",
)
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    -(2**63),
    10**30,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "\0",
    "\ud800",
    "a\nb",
    "../x",
    "/etc/passwd",
    "{c.__class__}",
    "<script>",
    [],
    {},
    [[]],
    [None],
    [1, "a", {}],
    {"": None},
    {"a": {"b": []}},
    "x" * 5000,
    "1",
    "nan",
    [0] * 300,
)


def mutate_bytes(rng: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """Apply a few generic edits to one of the seeds; some inputs stay unchanged."""
    data = bytearray(rng.choice(seeds))
    for _ in range(min(int(rng.expovariate(0.4)), 12)):
        rng.choice(_EDITS)(rng, data, seeds, tokens)
        if len(data) > LARGEST:
            del data[LARGEST:]
    return bytes(data)


def _span(rng: random.Random, data: bytearray, most: int = 4000) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + int(rng.paretovariate(0.7)) % most)


def _flip(rng: random.Random, data: bytearray, *_: Any) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(rng: random.Random, data: bytearray, *_: Any) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 32, 34, 127, 128, 255, rng.randrange(256)))


def _delete(rng: random.Random, data: bytearray, *_: Any) -> None:
    start, end = _span(rng, data)
    del data[start:end]


def _cut(rng: random.Random, data: bytearray, *_: Any) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _copy(rng: random.Random, data: bytearray, *_: Any) -> None:
    start, end = _span(rng, data)
    at = rng.randrange(len(data) + 1)
    data[at:at] = data[start:end]


def _repeat(rng: random.Random, data: bytearray, *_: Any) -> None:
    """Repeat a piece very often, which exposes quadratic code."""
    start, end = _span(rng, data, 60)
    piece = bytes(data[start:end]) or b"a"
    data[start:end] = piece * min(LARGEST // len(piece), int(rng.paretovariate(0.35)) % 60_000)


def _insert(rng: random.Random, data: bytearray, _: Any, tokens: Sequence[bytes]) -> None:
    kind = rng.randrange(4)
    at = rng.randrange(len(data) + 1)
    if kind == 0:
        piece = rng.randbytes(rng.randrange(1, 9))
    elif kind == 1:
        piece = rng.choice(ODD_NUMBERS).encode()
    else:
        piece = rng.choice(tokens or ODD_BYTES) if kind == 2 else rng.choice(ODD_BYTES)
    data[at : at + rng.choice((0, 0, len(piece)))] = piece


def _splice(rng: random.Random, data: bytearray, seeds: Sequence[bytes], _: Any) -> None:
    other = bytearray(rng.choice(seeds))
    start, end = _span(rng, other)
    at, stop = _span(rng, data)
    data[at:stop] = other[start:end]


_EDITS = (_flip, _overwrite, _delete, _cut, _copy, _repeat, _insert, _insert, _insert, _splice)


def as_text(data: bytes) -> str:
    """Decode bytes; invalid ones become lone surrogates, which JSON can contain."""
    return data.decode("utf-8", "surrogateescape")


def mutate_value(rng: random.Random, value: Any) -> Any:
    """Mutate a JSON value: another type, another number, a missing key, a duplicate, or deep nesting."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        changed = dict(value)
        action = rng.randrange(8)
        if action == 0:
            del changed[key]
        elif action == 1:
            changed[rng.choice(["", "id", "\ud800", "__class__", "constructor", "x" * 300])] = changed[key]
        else:
            changed[key] = mutate_value(rng, changed[key])
        return changed
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        changed_list = list(value)
        action = rng.randrange(8)
        if action == 0:
            del changed_list[at]
        elif action == 1:
            changed_list += [changed_list[at]] * rng.choice((1, 2, 50))
        else:
            changed_list[at] = mutate_value(rng, changed_list[at])
        return changed_list
    if rng.random() < 0.02:
        deep: Any = value
        for _ in range(rng.choice((10, 200, 900))):
            deep = [deep]
        return deep
    return rng.choice(ODD_VALUES)


def mutate_json(rng: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """Mutate values of JSON, its bytes, or both."""
    data = rng.choice(seeds)
    if rng.random() < 0.8:
        value = json.loads(data)
        for _ in range(1 + int(rng.expovariate(0.8))):
            value = mutate_value(rng, value)
        try:
            data = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
        except RecursionError:  # nested more than once
            return b"[" * 5000 + b"]" * 5000
    if rng.random() < 0.01:
        return b"[" * 100_000 if rng.random() < 0.5 else b'{"a":' * 50_000
    return data if rng.random() < 0.7 else mutate_bytes(rng, [data, *seeds], tokens)


def mutate_json_lines(rng: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """Mutate one line of JSON lines, or the bytes of the whole file."""
    data = rng.choice(seeds)
    lines = data.splitlines()
    if lines and rng.random() < 0.75:
        at = rng.randrange(len(lines))
        lines[at] = mutate_json(rng, [lines[at]], tokens)
        return b"\n".join(lines)
    return mutate_bytes(rng, [data, *seeds], tokens)


def mutate_tar(rng: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """Mutate fields of a header and fix its checksum, insert odd headers between members, or mutate bytes."""
    data = bytearray(rng.choice(seeds))
    for _ in range(1 + rng.randrange(3)):
        blocks = [at for at in range(0, len(data) - 511, 512) if data[at + 257 : at + 262] == b"ustar"]
        if not blocks or rng.random() < 0.2:
            return mutate_bytes(rng, [bytes(data)], tokens)
        at = rng.choice(blocks)
        if rng.random() < 0.3:
            data[at:at] = _extra_member(rng)
        else:
            start, length = rng.choice(_TAR_FIELDS)
            data[at + start : at + start + length] = _tar_value(rng, length)
        _checksum(data, at)
    if rng.random() < 0.1:
        del data[512 * rng.randrange(len(data) // 512) :]
        data += b"\0" * 1024
    return bytes(data)


_TAR_FIELDS = ((0, 100), (100, 8), (124, 12), (124, 12), (156, 1), (156, 1), (157, 100), (257, 8), (345, 155))


def _tar_value(rng: random.Random, length: int) -> bytes:
    if length == 1:
        return rng.choice(b"01234567LKSxgXADMNV\0zQ").to_bytes(1, "big")
    if length == 12:
        number = rng.choice((0, 1, 511, 512, 513, 2**20, 2**33 - 1, 7))
        base256 = (rng.choice((0x80, 0xFF)).to_bytes(1, "big") + rng.randbytes(11), b"\x80" + b"\0" * 7 + b"\xff" * 4)
        return rng.choice((f"{number:011o}\0".encode(), *base256, b" " * 12, b"-0000000001\0", b"\xff" * 12))
    names = (b"../../etc/passwd", b"/abs.png", b"a.png", b"", b"a/b.c.d", b"\xff\xfe", b".", b"a.", b".cls", b"s0.cls")
    return rng.choice((*names, rng.randbytes(length), b"x" * length))[:length].ljust(length, b"\0")


def _extra_member(rng: random.Random) -> bytes:
    """Make a rare header with a body: long names, extended attributes, sparse maps."""
    info = tarfile.TarInfo("x")
    info.type = rng.choice((b"L", b"K", b"x", b"g", b"S", b"5", b"1", b"2", b"3", b"6"))
    pax = rng.choice(
        (
            b"path=../y",
            b"size=-512",
            b"size=99999999999",
            b"GNU.sparse.major=1",
            b"hdrcharset=BINARY",
            b"GNU.sparse.map=0,1,2",
            b"path=" + b"z" * 3000,
            b"mtime=nan",
            b"linkpath=\0",
        )
    )
    size = len(pax) + 4 + len(str(len(pax)))
    body = rng.choice((f"{size} ".encode() + pax + b"\n", b"999999 " + pax, b"", rng.randbytes(700), pax))
    info.size = rng.choice((len(body), len(body), 0, 10**9))
    return info.tobuf(tarfile.USTAR_FORMAT) + body.ljust(-(-len(body) // 512) * 512, b"\0")


def _checksum(data: bytearray, at: int) -> None:
    if len(data) >= at + 512:
        data[at + 148 : at + 156] = b" " * 8
        data[at + 148 : at + 156] = f"{sum(data[at : at + 512]):06o}\0 ".encode()


def mutate_zip(rng: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """Mutate one member of a zip archive and repack it, or mutate the archive's bytes."""
    seed = rng.choice(seeds)
    if rng.random() < 0.15:
        return mutate_bytes(rng, [seed])
    with zipfile.ZipFile(io.BytesIO(seed)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = [name for name in members if "sheet" in name.lower() or "strings" in name.lower()]
    name = rng.choice(names if rng.random() < 0.8 else list(members))
    if rng.random() < 0.05:
        del members[name]
    else:
        members[name] = mutate_bytes(rng, [members[name]], tokens)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for member, content in members.items():
            archive.writestr(zipfile.ZipInfo(member), content)
    return packed.getvalue()


def mutate_safetensors(rng: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """Mutate the header of a safetensors file and fix its length, or mutate its bytes."""
    data = rng.choice(seeds)
    if rng.random() < 0.3:
        return mutate_bytes(rng, [data], tokens)
    (length,) = struct.unpack("<Q", data[:8])
    header = mutate_json(rng, [data[8 : 8 + length]], tokens)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]
