"""Original images in folders, found by the digest in a record: for the served page, and to export samples."""

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, UsageError
from eyechart.io.digests import digest_bytes, file_digest, remember_digests
from eyechart.io.files import write_atomic
from eyechart.io.images import MAX_BYTES, open_image, read_part
from eyechart.io.text_tables import csv_text
from eyechart.report.page.overview import MAX_PREVIEW, is_thumbnail
from eyechart.results import Result
from eyechart.results.job_results import IMAGE_FIELDS, badness
from eyechart.results.views import CLASS_COLUMNS, class_names


class OriginalImages:
    """The images in some folders, found by the digest of their bytes; links that lead out of a folder are ignored."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.files: dict[str, Path] = {}
        self.offered: dict[str, Path] = {}
        for folder in map(Path, folders):
            if not folder.is_dir():
                raise UsageError("Folder not found: {path}.", path=folder)
            root = folder.resolve()
            for path in sorted(root.rglob("*")):
                with suppress(OSError, DataError):  # skip unreadable files
                    if path.resolve().is_relative_to(root) and path.is_file() and path.stat().st_size <= MAX_BYTES:
                        self.files[file_digest(path).hex()] = path
        remember_digests()

    def offer(self, digest: object) -> bool:
        """Whether there is an image of this digest, which may then be read."""
        if isinstance(digest, str) and digest in self.files:
            self.offered[digest] = self.files[digest]
        return digest in self.offered

    def read(self, digest: str) -> tuple[str, bytes] | None:
        """Return content type and bytes of an offered image; None if the file has changed or is not an image."""
        from PIL import Image

        with suppress(KeyError, OSError, DataError):
            data = read_part(self.offered[digest], 0, MAX_BYTES)
            kind = Image.MIME[str(open_image(data, digest).format)].replace("/mpo", "/jpeg")  # several JPEGs in one
            return (kind, data) if digest_bytes(data).hex() == digest else None
        return None


def write_samples(results: Sequence[Result], folder: Path, originals: OriginalImages) -> int:
    """Write the mistakes of each result to a folder of its own, worst first: ``samples.csv`` and their images.

    An image is the original if it was found, else the one in the record. Files are numbered: ids are data.

    Returns:
        The number of samples.
    """
    count = 0
    for number, result in enumerate(results, 1):
        wrong = sorted((one for one in result.iter_records() if badness(one) > 0), key=badness, reverse=True)
        place, rows = folder / f"{number:03}_{result.path.stem if result.path else result.task}", []
        for i, record in enumerate(wrong, 1):
            row: dict[str, Any] = {"file": ""}
            if image := _image_of(record, originals):
                row["file"] = f"{i:05}.{image[0].partition('/')[2]}"
                write_atomic(place / row["file"], image[1], durable=False)
            row |= {name: value for name, value in record.items() if name not in IMAGE_FIELDS}
            if names := result.details.get("classnames"):
                row |= {new: class_names(row[old], names) for old, new in CLASS_COLUMNS.items() if old in row}
            rows.append({key: _cell(value) for key, value in row.items()})
        if rows:
            columns = list(dict.fromkeys(name for row in rows for name in row))
            table = csv_text([columns, *([row.get(name) for name in columns] for row in rows)])
            write_atomic(place / "samples.csv", table.encode("utf-8", "backslashreplace"))
        count += len(rows)
    return count


def _cell(value: Any) -> Any:
    """Return a value as it stands in a table: plain values joined, everything else as JSON."""
    if isinstance(value, list) and not any(isinstance(part, list | Mapping) for part in value):
        return "; ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | Mapping) else value


def _image_of(record: Mapping[str, Any], originals: OriginalImages) -> tuple[str, bytes] | None:
    digest, inline = str(record.get("digest", "")), record.get("preview") or record.get("thumbnail")
    if originals.offer(digest) and (found := originals.read(digest)):
        return found
    if not is_thumbnail(inline, MAX_PREVIEW):
        return None
    head, _, body = str(inline).partition(";base64,")
    return head.removeprefix("data:"), base64.b64decode(body)
