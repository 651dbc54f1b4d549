"""Pictures as lazy bytes: where they came from, their digest, and a safe decode.

A dataset yields pictures without decoding them, so that a picture whose embedding is already stored costs one
hash and no more.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

DIGEST_SIZE = 16
MAX_PIXELS = 89_478_485
"""Largest picture that is decoded, in pixels (where Pillow starts to warn of a bomb)."""
MAX_BYTES = 256 * 1024 * 1024
"""Largest encoded picture that is read."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An encoded picture: bytes in memory (from an archive) or a path that is read when needed."""

    source: str
    """Where it came from, for messages: a path, or ``archive.tar:member``."""
    data: bytes | None = None
    path: Path | None = None
    made: bool = False
    """The bytes were encoded here, out of pixels that never were a file."""
    box: tuple[int, int, int, int] | None = None
    """Left, upper, right and lower edge of the part that is meant, in pixels; without it, the whole picture."""

    @classmethod
    def from_path(cls, path: Path) -> Picture:
        """Refer to a file without reading it."""
        return cls(source=str(path), path=path)

    def crop(self, left: int, upper: int, right: int, lower: int) -> Picture:
        """Refer to a part of the picture; it is cut out when the picture is decoded."""
        if left >= right or upper >= lower or left < 0 or upper < 0:
            raise DataError(f"{self.source}: the box ({left}, {upper}, {right}, {lower}) is empty or outside.")
        return replace(self, source=f"{self.source}[{left},{upper},{right},{lower}]", box=(left, upper, right, lower))

    def read(self) -> bytes:
        """Return the encoded bytes."""
        if self.data is not None:
            return self.data
        if self.path is None:
            raise DataError(f"{self.source}: the picture has neither bytes nor a path.")
        try:
            size = self.path.stat().st_size
            if size > MAX_BYTES:
                raise DataError(
                    f"{self.source}: the picture file has {size} bytes, more than the limit of {MAX_BYTES}."
                )
            return self.path.read_bytes()
        except OSError as error:
            raise DataError(f"{self.source}: cannot read the picture ({error.strerror}).") from error

    def digest(self) -> bytes:
        """Return the content digest, the picture's name in the embedding store."""
        return digest_bytes(self.read() + (repr(self.box).encode() if self.box else b""))

    def decode(self) -> Image.Image:
        """Decode the picture completely, in its own mode.

        Raises:
            DataError: If the bytes are not a picture, are cut short, or hold more than `MAX_PIXELS` pixels.
        """
        image = decode_image(self.read(), self.source)
        return image.crop(self.box) if self.box else image


def digest_bytes(data: bytes) -> bytes:
    """Return the 16-byte BLAKE2b digest that names content in the store."""
    return hashlib.blake2b(data, digest_size=DIGEST_SIZE).digest()


def decode_image(data: bytes, source: str) -> Image.Image:
    """Decode bytes to a fully loaded image; every failure becomes a `DataError` that names the source."""
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(data))
        pixels = image.width * image.height
        if pixels > MAX_PIXELS:
            raise DataError(
                f"{source}: the picture has {pixels} pixels, more than the limit of {MAX_PIXELS}.",
                advice="Scale it down, or leave it out of the dataset.",
            )
        image.load()
    except DataError:
        raise
    except Exception as error:
        # Pillow's plugins raise a dozen kinds of exception on hostile bytes; none of them is a fault of ours.
        reason = str(error) or type(error).__name__
        raise DataError(f"{source}: cannot decode the picture ({reason}).") from error
    return image


def to_rgb(image: Image.Image) -> Image.Image:
    """Return the picture in RGB, transparency dropped, before any transform: so do webdataset and torchvision."""
    if image.mode == "P" and "transparency" in image.info:
        # The same colours as a direct conversion, without Pillow's warning.
        image = image.convert("RGBA")
    return image if image.mode == "RGB" else image.convert("RGB")
