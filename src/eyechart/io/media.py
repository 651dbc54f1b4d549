"""Images as lazy bytes: where they came from, their digest, and a safe decode.

A dataset yields images without decoding them, so that an image whose embedding is already stored costs one
hash and no more.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.errors import DataError
from eyechart.io.digests import State, digest_bytes, file_digest, known_digest, read_digested
from eyechart.io.names import shown
from eyechart.io.pixels.depth import eight_bits, known_range
from eyechart.io.pixels.whole import damage_of

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 89_478_485
"""Largest image that is decoded, in pixels (where Pillow starts to warn of a bomb)."""
MAX_BYTES = 256 * 1024 * 1024
"""Largest encoded image that is read."""
MAX_RATIO = 500
"""Longest side by shortest: a strip of 1 x 80,000,000 pixels is small, but not when it is scaled to a height of 224."""
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "JPEG2000", "AVIF")
"""What is decoded. Pillow knows more, and some of that starts programs (EPS runs Ghostscript) or holds other files."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An encoded image: bytes in memory, or a file or a part of one that is read when needed."""

    source: str
    """Where it came from, for messages: a path, or ``archive.tar:member``."""
    data: bytes | None = None
    path: Path | None = None
    part: tuple[Path, int, int] | None = None
    """A file that holds the image among others, where in it the image begins, and how many bytes it has."""
    known: bytes | None = None
    """The digest of the bytes: of ``data`` if they are here, else from when they were read before."""
    made: bool = False
    """The bytes were encoded here, out of pixels that never were a file."""
    box: tuple[int, int, int, int] | None = None
    """Left, upper, right and lower edge of the part that is meant, in pixels; without it, the whole image."""

    @classmethod
    def from_path(cls, path: Path) -> ImageRef:
        """Refer to a file without reading it."""
        return cls(source=shown(path), path=path)

    def crop(self, left: int, upper: int, right: int, lower: int) -> ImageRef:
        """Refer to a part of the image; it is cut out when the image is decoded."""
        if left >= right or upper >= lower or left < 0 or upper < 0:
            raise DataError(f"{self.source}: the box ({left}, {upper}, {right}, {lower}) is empty or outside.")
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
        """Return the same image with its bytes in memory: its digest and its pixels are then of the same bytes."""
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
        """Return the same image without its bytes, for another process to read; None if they are only here."""
        return replace(self, data=None) if self.path or self.part else None

    @property
    def file(self) -> Path | None:
        """Return the file that the bytes are in, if there is one."""
        return self.part[0] if self.part else self.path

    def within_reach(self) -> bool:
        """Tell whether the bytes are here, or in a file of this machine."""
        return self.data is not None or (self.file is not None and self.file.is_file())

    def digest(self) -> bytes:
        """Return the content digest, the image's name in the embedding store; a file that is as it was is not read."""
        return self._named(self.known or self._content_digest())

    def digest_unread(self, state: State) -> bytes | None:
        """Return the content digest if no file has to be read for it.

        Args:
            state: The state of the file that the bytes are in, if they are in one alone.

        Raises:
            DataError: If there is no file that could be read.
        """
        if self.known or self.data is not None:
            return self.digest()
        if self.part:
            return None
        found = known_digest(self._file(), state)
        if found is None and not os.access(self._file(), os.R_OK):
            raise self._unreadable(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        return found and self._named(found)

    def _named(self, content: bytes) -> bytes:
        return digest_bytes(content + repr(self.box).encode()) if self.box else content

    def _content_digest(self) -> bytes:
        in_file = self.data is None and self.part is None
        return file_digest(self._file()) if in_file else digest_bytes(self.read())

    def _file(self) -> Path:
        """Return the path of a plain file of a decent size."""
        if self.path is None:
            raise DataError(f"{self.source}: the image has neither bytes nor a path.")
        try:
            found = self.path.stat()
        except OSError as error:
            raise self._unreadable(error) from error
        if not stat.S_ISREG(found.st_mode):
            raise DataError(f"{self.source}: not a plain file.", advice="Devices and pipes are not read.")
        if found.st_size > MAX_BYTES:
            raise DataError(
                f"{self.source}: the image file has {found.st_size} bytes, more than the limit of {MAX_BYTES}."
            )
        return self.path

    def _unreadable(self, error: OSError) -> DataError:
        return DataError(f"{self.source}: cannot read the image ({error.strerror}).")

    def decode(self) -> Image.Image:
        """Decode the image completely, in its own mode.

        Raises:
            DataError: If the bytes are not an image, are cut short, or hold more than `MAX_PIXELS` pixels.
        """
        image = decode_image(self.read(), self.source)
        if not self.box:
            return image
        left, upper, right, lower = self.box
        _check_size(right - left, lower - upper, self.source)
        return image.crop(self.box)


def read_part(path: Path, start: int, size: int) -> bytes:
    """Read some bytes of a file."""
    with path.open("rb") as stream:
        stream.seek(start)
        return stream.read(min(size, MAX_BYTES))


def decode_image(data: bytes, source: str) -> Image.Image:
    """Decode bytes to a fully loaded image; every failure becomes a `DataError` that names the source."""
    try:
        image = open_image(data, source)
        image.load()
        return known_range(image, source)
    except DataError:
        raise
    except Exception as error:
        # Pillow's plugins raise a dozen kinds of exception on hostile bytes; none of them is a fault of ours.
        reason = _UNKNOWN_FORMAT.sub("cannot identify its format", str(error)) or type(error).__name__
        raise DataError(f"{source}: cannot decode the image ({reason}).") from error


_UNKNOWN_FORMAT = re.compile("cannot identify image file.*", re.DOTALL)
"""Pillow's words, followed by the address of an object of ours."""


def image_size(data: bytes, source: str) -> tuple[int, int]:
    """Read width and height from an image's header, with the checks of `decode_image`."""
    try:
        return open_image(data, source).size
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{source}: not an image ({str(error) or type(error).__name__}).") from error


def open_image(data: bytes, source: str) -> Image.Image:
    """Read an image's header and check its size and that it is whole, before any pixel is decoded."""
    from PIL import Image

    if len(data) > MAX_BYTES:
        raise DataError(f"{source}: the image has {len(data)} bytes, more than the limit of {MAX_BYTES}.")
    Image.init()
    image = Image.open(io.BytesIO(data), formats=[name for name in FORMATS if name in Image.OPEN])
    _check_size(image.width, image.height, source)
    damage = damage_of(data, str(image.format))
    if damage:
        raise DataError(f"{source}: cannot decode the image ({damage}).", advice="Copy or download it again.")
    return image


def _check_size(width: int, height: int, source: str) -> None:
    """Refuse what would take too much memory, as it is or scaled to a model's size."""
    if width * height > MAX_PIXELS:
        raise DataError(
            f"{source}: the image has {width * height} pixels, more than the limit of {MAX_PIXELS}.",
            advice="Scale it down, or leave it out of the dataset.",
        )
    if max(width, height) > MAX_RATIO * min(width, height):
        raise DataError(
            f"{source}: the image has {width} x {height} pixels; one side is more than {MAX_RATIO} times the other.",
            advice="Cut it, or leave it out of the dataset.",
        )


def decode_rgb(ref: ImageRef) -> Image.Image:
    """Decode an image to RGB: what most models' transforms begin with."""
    return to_rgb(ref.decode())


def to_rgb(image: Image.Image) -> Image.Image:
    """Return the image in RGB, transparency dropped, before any transform: so do webdataset and torchvision.

    Raises:
        DataError: If its values have no known range.
    """
    image = eight_bits(image)
    if image.mode == "P" and "transparency" in image.info:
        # The same colours as a direct conversion, without Pillow's warning.
        image = image.convert("RGBA")
    return image if image.mode == "RGB" else image.convert("RGB")
