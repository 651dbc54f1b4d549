"""Files of benchmarks: the data root `$LMUData`, downloads, and images in table cells."""

import base64
import binascii
import os
import re
import secrets
from functools import cache
from pathlib import Path

from eyechart.datasets.remote.download import alone, client_for, download, read_head
from eyechart.errors import DataError
from eyechart.io.digests import digest_bytes
from eyechart.io.images import MAX_BYTES, decode_image
from eyechart.io.progress import NoProgress
from eyechart.messages import UserMessage, join

VARIABLE = "LMUData"
LONGEST, LONGEST_PART = 1024, 200
"""Limits for an image path below its folder, and for each component, that every file system supports."""

IMAGE_FOLDERS = (
    (re.compile(r"OCRVQA"), "OCRVQA"),
    (re.compile(r"^COCO_VAL$"), "COCO"),
    (re.compile(r"^MMBench(_(DEV|TEST))?(_(EN|CN|KO))?$"), "MMBench"),
    (re.compile(r"^MMBench(_(DEV|TEST))?(_(EN|CN))?_V11$"), "MMBench_V11"),
)
"""Benchmarks with common images share a folder, as in VLMEvalKit; others use a folder of their own name."""


def lmu_data_root() -> Path:
    """Return the benchmark folder: ``$LMUData``, else ``~/LMUData``. It is created on first write."""
    given = os.environ.get(VARIABLE)
    return Path(given).expanduser().absolute() if given else Path.home() / VARIABLE


def answers_path(name: str) -> Path:
    """Return the path of a benchmark's separately released answers."""
    return inside(lmu_data_root(), f"{name}_answers.json", "the benchmark's name")


def image_folder(benchmark: str) -> Path:
    """Return the image folder of a benchmark."""
    name = next((folder for pattern, folder in IMAGE_FOLDERS if pattern.search(benchmark)), benchmark)
    return inside(lmu_data_root() / "images", name, "the benchmark's name")


def inside(folder: Path, name: str, what: str) -> Path:
    """Return the path of ``name`` below ``folder``: untrusted data must not read or write arbitrary paths."""
    short = name.strip() and len(name) <= LONGEST and max(map(len, name.split("/"))) <= LONGEST_PART
    try:
        path = (folder / name).resolve() if short and "\0" not in name else None
    except (OSError, RuntimeError):  # a path that is too long, or a loop of links
        path = None
    if path is None:
        raise DataError("{what}: {name!r} is not a valid file name.", what=what, name=name[:80])
    if not path.is_relative_to(_resolved(folder.absolute())):
        raise DataError(
            "{what}: the path {name!r} is outside the folder {folder}.",
            advice="Keep images inside {folder}.",
            what=what,
            name=name,
            folder=folder,
        )
    return folder / name if not Path(name).is_absolute() else path


@cache
def _resolved(folder: Path) -> Path:
    """Cached, since a benchmark has thousands of images; absolute, since the working directory may change."""
    return folder.resolve()


def fetch(url: str, path: Path, md5: str = "") -> Path:
    """Download ``url`` to ``path`` unless the file exists; ``path`` never holds a partial or corrupt file.

    The digest is verified on download only: an existing file may be a version the user chose, and its content is part
    of the cache key.
    """
    if path.is_file():
        return path
    try:
        client = client_for(url)
        head = read_head(client, url)
        if head is None:
            raise DataError("There is no file at {address}.", address=url)
        with alone(path):
            if not path.is_file():
                download(client, url, path, head, NoProgress(), md5=md5)
    except DataError as error:
        advice = join((error.advice, UserMessage("Alternatively, save the file as {path} yourself.", path=path)))
        raise DataError(error.message, advice=advice) from error
    return path


SHARED = 64
"""An image cell of at most this length is the index of the row whose image it shares."""


def decode_cell(text: str, source: str) -> bytes:
    """Decode a base64 cell or data URL to the encoded image."""
    body = text.rpartition(";base64,")[2] if text.startswith("data:") else text
    if len(body) > MAX_BYTES * 4 // 3 + 4:
        raise DataError("{source}: the image is larger than {max_bytes} bytes.", source=source, max_bytes=MAX_BYTES)
    try:
        return base64.b64decode(body, validate=False)
    except (binascii.Error, ValueError) as error:
        raise DataError("{source}: the image is not valid base64 ({reason}).", source=source, reason=error) from error


def write_image(text: str, path: Path, source: str) -> Path:
    """Write the image of a base64 cell to a file unless it exists, and return its path.

    The bytes are stored unchanged, after decoding them once to verify format and size. A file with another image is not
    overwritten, since another process may use it for a table of the same name; this image then gets a name with its
    digest.
    """
    data = decode_cell(text, source)
    own = path.with_stem(f"{path.stem}-{digest_bytes(data).hex()}")
    for found in (path, own):
        if found.is_file() and found.stat().st_size == len(data) and found.read_bytes() == data:
            return found
    decode_image(data, source)
    # Atomic but not fsynced: a file damaged by a crash is detected by its content and rewritten.
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".tmp-{secrets.token_hex(6)}{path.suffix}")
    aside.write_bytes(data)
    try:
        os.link(aside, path)  # unlike a rename, it replaces nothing
        aside.unlink()
    except OSError:  # the name is taken, or the file system lacks links
        aside.replace(own)
        return own
    return path
