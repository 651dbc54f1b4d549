"""Finding the images that an annotation file names, and making images out of pixels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from eyechart.datasets.layout import source_of
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.names import file_path
from eyechart.io.untrusted import is_file
from eyechart.types import DatasetSpec

if TYPE_CHECKING:
    from PIL import Image

SHOWN = 5


class ImageFinder:
    """Finds images under a root by the names in an annotation file, and remembers which are missing."""

    def __init__(self, root: Path, patterns: Sequence[str]) -> None:
        self.root = root
        self.patterns = list(patterns)
        self.missing: list[str] = []

    def find(self, name: str) -> ImageRef | None:
        """Return the image, or nothing if none of the patterns leads to a file; no name leads out of the folder."""
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or not name:
            raise DataError(
                f"The image name {name!r} leads out of {self.root}.", advice="The annotation file is damaged."
            )
        for pattern in self.patterns:
            file = self.root / file_path(pattern.replace("{image}", name))
            if is_file(file):
                return ImageRef.from_path(file)
        self.missing.append(name)
        return None

    def raise_if_missing(self, source: object, advice: str = "") -> None:
        """Raise one error for all missing images: a smaller set would give another number."""
        if self.missing:
            shown = ", ".join(self.missing[:SHOWN]) + (", ..." if len(self.missing) > SHOWN else "")
            looked = ", ".join(pattern.replace("{image}", "*") for pattern in self.patterns)
            raise DataError(
                f"{source} names {len(self.missing)} images that are not in {self.root}: {shown}.",
                advice=advice or f"Looked for {looked} there.",
            )


def finder_of(spec: DatasetSpec, *patterns: str) -> ImageFinder:
    """Look for a dataset's images where the catalogue says that they are, else by some patterns."""
    return ImageFinder(Path(spec.root), source_of(spec).get("images", patterns))


def from_pixels(image: Image.Image, source: str) -> ImageRef:
    """Make an image of pixels that were never a file: PNG, which loses nothing."""
    stream = io.BytesIO()
    # Level 1 is three times as fast as the default; the bytes are only hashed and decoded again.
    image.save(stream, "PNG", compress_level=1)
    return ImageRef(source, data=stream.getvalue(), made=True)
