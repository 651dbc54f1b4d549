"""Whether an encoded image is all there: decoders take zeros for pixels, and do not say so."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

_MARKER = re.compile(rb"\xff([\x02-\xcf\xd9-\xfe])")
"""What divides a JPEG. The bytes that are left out occur within its pixels."""
_EOI = 0xD9
_LEAST, _SHARE = 64, 8
"""Zeros that are damage at the end of a WebP or AVIF: so many, and one byte in so many. Flat areas have few."""


def damage_of(data: bytes, form: str) -> str:
    """Tell what is wrong with an encoded image that its decoder would not mind; nothing if it is whole."""
    check = _CHECKS.get(form)
    return check(data) if check else ""


def _jpeg(data: bytes) -> str:
    """Look for the end mark, from segment to segment: a thumbnail inside has one of its own."""
    at = 2
    while found := _MARKER.search(data, at):
        if found[1][0] == _EOI:
            return ""
        at = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")
    return "it is cut short: the JPEG data has no end mark"


def _png(data: bytes) -> str:
    """Compare the checksums of the pixels, which Pillow leaves out."""
    at = 8
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        kind, checksum = data[at + 4 : at + 8], data[end : end + 4]
        if kind == b"IDAT" and len(checksum) == 4 and zlib.crc32(data[at + 4 : end]) != int.from_bytes(checksum, "big"):
            return "the checksum of its pixels is wrong"
        at = end + 4
    return ""


def _webp(data: bytes) -> str:
    """Look at how the pixels end: there is neither a checksum nor an end mark."""
    return next(filter(None, map(_tail, _webp_pixels(data))), "")


def _avif(data: bytes) -> str:
    """Look at how the pixels end, from box to box."""
    at, size = 0, 8
    while size >= 8 and at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"mdat":
            return _tail(data[at + 8 : at + size])
        at += size
    return ""


def _tail(pixels: bytes) -> str:
    zeros = len(pixels) - len(pixels.rstrip(b"\0"))
    if zeros >= _LEAST and zeros * _SHARE >= len(pixels):
        return f"the last {zeros} of {len(pixels)} bytes of its pixels are zeros"
    return ""


def _webp_pixels(data: bytes) -> Iterator[bytes]:
    at = 12
    while at + 8 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] in (b"VP8 ", b"VP8L"):
            yield data[at + 8 : at + 8 + size]
        at += 8 + size + size % 2


_CHECKS = {"JPEG": _jpeg, "MPO": _jpeg, "PNG": _png, "WEBP": _webp, "AVIF": _avif}
