"""Images as lazy bytes: source, digest, safe decoding, bit depth, and detection of truncated files."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.errors import DataError
from eyechart.io.digests import State, digest_bytes, file_digest, known_digest, read_digested
from eyechart.io.files import shown

if TYPE_CHECKING:
    from PIL import Image


_BITS_TAG = 258
_SAVE_WITH = "Save it with 8 or 16 bits per channel."
_DEEP = {"I": "32-bit integers", "F": "floats outside the range 0 to 1"}


def known_range(image: Image.Image, source: str) -> Image.Image:
    """Convert a decoded image to a mode that implies the range of its values; refuse 12 bits (a TIFF) in 16."""
    if image.format == "PPM" and image.mode == "I":
        return image.convert("I;16")  # Pillow scales these to 16 bits, whatever their maximum
    if image.mode.startswith("I;16") and image.getexif().get(_BITS_TAG, 16) != 16:
        bits = image.getexif()[_BITS_TAG]
        raise DataError("{file}: the image has {n} bits per channel.", advice=_SAVE_WITH, file=source, n=bits)
    return image


# Completeness checks of encoded images: decoders silently fill missing data with zeros.

_MARKER = re.compile(rb"\xff([\x02-\xcf\xd9-\xfe])")
"""JPEG segment markers. The excluded bytes occur within pixel data."""
_EOI = 0xD9
_LEAST, _SHARE = 64, 8
"""Trailing zeros that indicate damage in WebP or AVIF: at least this many bytes, and one byte in so many. Flat areas
have few."""


def _jpeg(data: bytes) -> str:
    """Look for the end marker segment by segment: an embedded thumbnail has one as well."""
    at = 2
    while found := _MARKER.search(data, at):
        if found[1][0] == _EOI:
            return ""
        at = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")
    return "truncated: the JPEG data has no end marker"


def _png(data: bytes) -> str:
    """Verify the checksums of the pixels, which Pillow skips."""
    at = 8
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        kind, checksum = data[at + 4 : at + 8], data[end : end + 4]
        if kind == b"IDAT" and len(checksum) == 4 and zlib.crc32(data[at + 4 : end]) != int.from_bytes(checksum, "big"):
            return "the checksum of the pixel data is wrong"
        at = end + 4
    return ""


def _webp(data: bytes) -> str:
    """Check the end of the pixel data: WebP has neither a checksum nor an end marker."""
    at, damage = 12, ""
    while at + 8 <= len(data) and not damage:
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] in (b"VP8 ", b"VP8L"):
            damage = _tail(data[at + 8 : at + 8 + size])
        at += 8 + size + size % 2
    return damage


def _avif(data: bytes) -> str:
    """Check the end of the pixel data, box by box."""
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
        return f"the last {zeros} of {len(pixels)} bytes of the pixel data are zeros"
    return ""


_CHECKS = {"JPEG": _jpeg, "MPO": _jpeg, "PNG": _png, "WEBP": _webp, "AVIF": _avif}
"""Each returns the damage that the decoder of a format would not report; empty if there is none."""


# Lazy references to encoded images: source, digest and safe decoding.
#
# Datasets yield images without decoding them, so an image whose embedding is cached costs only a hash.

MAX_PIXELS = 89_478_485
"""Largest decoded image, in pixels (Pillow's threshold for a decompression bomb warning)."""
MAX_BYTES = 256 * 1024 * 1024
"""Largest encoded image, in bytes."""
MAX_RATIO = 500
"""Largest aspect ratio: a strip of 1 x 80,000,000 pixels is small until it is scaled to a height of 224."""
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "JPEG2000", "AVIF")
"""Supported formats. Pillow knows more; some of them run programs (EPS runs Ghostscript) or contain other files."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An encoded image: bytes in memory, or a file or a range of one that is read when needed."""

    source: str
    """Origin for messages: a path, or ``archive.tar:member``."""
    data: bytes | None = None
    path: Path | None = None
    part: tuple[Path, int, int] | None = None
    """A file that contains the image, with offset and size in bytes."""
    known: bytes | None = None
    """Digest of the bytes, if known."""
    made: bool = False
    """The bytes were encoded from in-memory pixels that never were a file."""
    box: tuple[int, int, int, int] | None = None
    """Crop in pixels: left, upper, right, lower; None for the whole image."""
    zeros: bool = False
    """The transformed image is all zeros, whatever the transform (CLIP_benchmark's dummy)."""

    @classmethod
    def from_path(cls, path: Path) -> ImageRef:
        """Refer to a file without reading it."""
        return cls(source=shown(path), path=path)

    def crop(self, left: int, upper: int, right: int, lower: int) -> ImageRef:
        """Refer to a crop of the image, applied on decoding."""
        if left >= right or upper >= lower or left < 0 or upper < 0:
            box = f"{left}, {upper}, {right}, {lower}"
            raise DataError("{file}: the box ({box}) is empty or outside the image.", file=self.source, box=box)
        return replace(self, source=f"{self.source}[{left},{upper},{right},{lower}]", box=(left, upper, right, lower))

    def read(self) -> bytes:
        """Return the encoded bytes."""
        if self.data is not None:
            return self.data
        try:
            return read_part(*self.part) if self.part else self._file().read_bytes()
        except OSError as error:
            raise self._unreadable(error) from error

    def load(self) -> ImageRef:
        """Return the same image with its bytes in memory, so that digest and pixels come from the same bytes."""
        if self.data is None and self.part is None:
            try:
                data, known = read_digested(self._file())
            except OSError as error:
                raise self._unreadable(error) from error
        else:
            data = self.read()
            known = self.known if self.data is not None and self.known else digest_bytes(data)
        return replace(self, data=data, known=known)

    def elsewhere(self) -> ImageRef | None:
        """Return the same image without its bytes, for another process to read; None if they are only in memory."""
        return replace(self, data=None) if self.path or self.part else None

    @property
    def file(self) -> Path | None:
        """The file that contains the bytes, if there is one."""
        return self.part[0] if self.part else self.path

    def within_reach(self) -> bool:
        """Whether the bytes are in memory or in a local file."""
        return self.data is not None or (self.file is not None and self.file.is_file())

    def digest(self) -> bytes:
        """Return the content digest, the key of the embedding store; an unchanged file is not read."""
        in_file = self.data is None and self.part is None
        return self._named(self.known or (file_digest(self._file()) if in_file else digest_bytes(self.read())))

    def digest_unread(self, state: State) -> bytes | None:
        """Return the content digest if that needs no read; ``state`` is that of the image file."""
        if self.known or self.data is not None:
            return self.digest()
        if self.part:
            return None
        found = known_digest(self._file(), state)
        if found is None and not os.access(self._file(), os.R_OK):
            raise self._unreadable(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        return found and self._named(found)

    def _named(self, content: bytes) -> bytes:
        content = digest_bytes(content + b"zeros") if self.zeros else content
        return digest_bytes(content + repr(self.box).encode()) if self.box else content

    def _file(self) -> Path:
        """Return the path, which must be a regular file within the size limit."""
        if self.path is None:
            raise DataError("{file}: the image has neither bytes nor a path.", file=self.source)
        try:
            found = self.path.stat()
        except OSError as error:
            raise self._unreadable(error) from error
        if not stat.S_ISREG(found.st_mode):
            advice = "Devices and pipes are not supported."
            raise DataError("{file}: not a regular file.", advice=advice, file=self.source)
        _check_bytes(found.st_size, self.source)
        return self.path

    def _unreadable(self, error: OSError) -> DataError:
        return DataError("{file}: cannot read the image ({reason}).", file=self.source, reason=error.strerror)

    def decode(self) -> Image.Image:
        """Decode the image completely, in its original mode."""
        image = decode_image(self.read(), self.source)
        if not self.box:
            return image
        left, upper, right, lower = self.box
        _check_size(right - left, lower - upper, self.source)
        return image.crop(self.box)


def read_part(path: Path, start: int, size: int) -> bytes:
    """Read a range of a file."""
    with path.open("rb") as stream:
        stream.seek(start)
        return stream.read(min(size, MAX_BYTES))


def decode_image(data: bytes, source: str) -> Image.Image:
    """Decode bytes to a fully loaded image; every failure becomes a `DataError` that names the source."""
    with _pillow_errors(source):
        image = open_image(data, source)
        image.load()
        return known_range(image, source)


def image_size(data: bytes, source: str) -> tuple[int, int]:
    """Read width and height from an image's header, with the checks of `decode_image`."""
    with _pillow_errors(source):
        return open_image(data, source).size


_UNKNOWN_FORMAT = re.compile("cannot identify image file.*", re.DOTALL)
"""Pillow's message, which ends with the address of a Python object."""


@contextmanager
def _pillow_errors(source: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        # Pillow's plugins raise a dozen kinds of exception on hostile bytes, none of them a bug here.
        reason = _UNKNOWN_FORMAT.sub("cannot identify its format", str(error)) or type(error).__name__
        raise DataError("{file}: cannot decode the image ({reason}).", file=source, reason=reason) from error


def open_image(data: bytes, source: str) -> Image.Image:
    """Read an image's header and check its size and completeness before any pixel is decoded."""
    from PIL import Image

    _check_bytes(len(data), source)
    Image.init()
    image = Image.open(io.BytesIO(data), formats=[name for name in FORMATS if name in Image.OPEN])
    _check_size(image.width, image.height, source)
    check = _CHECKS.get(str(image.format))
    if check and (damage := check(data)):
        advice = "Copy or download it again."
        raise DataError("{file}: cannot decode the image ({reason}).", advice=advice, file=source, reason=damage)
    return image


def _check_bytes(count: int, source: str) -> None:
    if count > MAX_BYTES:
        text = "{file}: the image has {n} bytes, more than the limit of {most}."
        raise DataError(text, file=source, n=count, most=MAX_BYTES)


def _check_size(width: int, height: int, source: str) -> None:
    """Reject images that would take too much memory, as they are or scaled to a model's input size."""
    if width * height > MAX_PIXELS:
        text = "{file}: the image has {n} pixels, more than the limit of {most}."
        advice = "Scale it down, or remove it from the dataset."
        raise DataError(text, advice=advice, file=source, n=width * height, most=MAX_PIXELS)
    if max(width, height) > MAX_RATIO * min(width, height):
        text = "{file}: the image has {width} x {height} pixels; one side is more than {n} times the other."
        advice = "Crop it, or remove it from the dataset."
        raise DataError(text, advice=advice, file=source, width=width, height=height, n=MAX_RATIO)


# One policy turns decoded images into 8-bit input. It has two forms, which differ in two points: encoders follow
# open_clip, torchvision and webdataset, on which published numbers rest, and see an image as stored, without its alpha
# channel; generators see it upright, and on white where it is transparent. `image_traits` finds the images concerned.


class Trait(IntFlag):
    """A property of an image that its 8-bit form cannot keep, or that encoders and generators treat differently."""

    NONE = 0
    ORIENTATION = 1
    ALPHA = 2
    DEPTH = 4


_TRAITS = "eyechart_traits"
_ORIENTATION_TAG = 0x0112


def image_traits(image: Image.Image) -> Trait:
    """Return the traits of a decoded image; an opaque alpha channel and an upright orientation are none."""
    found = Trait.ORIENTATION if image.getexif().get(_ORIENTATION_TAG) in range(2, 9) else Trait.NONE
    if image.has_transparency_data:
        opaque = image.convert("RGBA").getchannel("A").getextrema() == (255, 255)
        found |= Trait.NONE if opaque else Trait.ALPHA
    return found | (Trait.DEPTH if image.mode.startswith(tuple(_DEEP)) else Trait.NONE)


def decode_rgb(ref: ImageRef) -> Image.Image:
    """Decode an image to RGB, the input of most models' transforms; `traits_seen` returns its traits."""
    image = ref.decode()
    rgb = to_rgb(image)
    rgb.info[_TRAITS] = image_traits(image)
    return rgb


def traits_seen(decoded: Any) -> Trait:
    """Return the traits noted by `decode_rgb`."""
    return Trait(getattr(decoded, "info", {}).get(_TRAITS, 0))


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert an image to RGB as encoders see it: as stored, dropping transparency.

    Of 16 bits the upper eight are kept, as Pillow does with 16-bit colours. Floats are expected in the range 0 to 1.
    """
    image = _eight_bits(image)
    if image.mode == "P" and "transparency" in image.info:
        # Same colours as a direct conversion, without Pillow's warning.
        image = image.convert("RGBA")
    try:
        return image if image.mode == "RGB" else image.convert("RGB")
    except ValueError as error:
        advice = "Save it in RGB or greyscale."
        raise DataError("The image has the mode {mode}.", advice=advice, mode=image.mode) from error


def to_upright(image: Image.Image) -> Image.Image:
    """Convert an image to RGB or grey as generators see it: upright, and on white where it is transparent."""
    from PIL import Image, ImageOps

    upright = _eight_bits(ImageOps.exif_transpose(image))
    if upright.has_transparency_data:
        layer = upright.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return upright.convert("L") if upright.mode in {"1", "L"} else to_rgb(upright)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Convert deep grey values to eight bits; other images are returned as they are."""
    import numpy as np
    from PIL import Image

    if not image.mode.startswith(tuple(_DEEP)):
        return image
    values = np.asarray(image)
    if values.dtype.kind == "f" and np.all((values >= 0) & (values <= 1)):
        return Image.fromarray(np.rint(values * 255).astype(np.uint8))
    if values.dtype.itemsize == 2:
        return Image.fromarray((values >> 8).astype(np.uint8))
    deep = _DEEP[image.mode[0]]
    raise DataError("The image consists of {deep}: the value of white is unknown.", advice=_SAVE_WITH, deep=deep)
