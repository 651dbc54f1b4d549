"""What a model on this machine is made of: the content of the files that are read, and the libraries that read them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from eyechart.io.digests import file_digest, files_digest, remember_digests
from eyechart.types import digest_json

OTHER_FORMATS = ("*.h5", "*.msgpack", "*.tflite", "*.ot", "*.mlmodel", "onnx/*", "openvino/*", "coreml/*")
"""The same weights once more, for libraries that are not used here."""


def content_identity(places: Iterable[Path | None], *libraries: str) -> str | None:
    """Return a text that changes with the content of files and folders, and with the versions of libraries.

    Args:
        places: Where they are; None for what is not on this machine, which makes the whole unknown.
        libraries: Packages whose transforms or tokenizers are part of the model.
    """
    known = list(places)
    if None in known:
        return None
    digests = [place_digest(place) for place in known if place is not None]
    return digest_json([digests, ", ".join(f"{library} {_version(library)}" for library in libraries)])


def place_digest(place: Path) -> str:
    """Digest a file, or all files of a folder with their names; a file that looks untouched is not read again."""
    digest = files_digest(model_files(place), place) if place.is_dir() else file_digest(place).hex()
    remember_digests()
    return digest


def model_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a model's folder, through links; not those of other formats, and nothing hidden."""
    seen: set[str] = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        folders[:] = [] if real in seen else sorted(name for name in folders if not name.startswith("."))
        if real not in seen:
            seen.add(real)
            inside = Path(here).relative_to(folder)
            yield from (
                path for name in sorted(files) if _is_read(inside / name) and (path := Path(here, name)).is_file()
            )


def _is_read(path: Path) -> bool:
    return not path.name.startswith(".") and not any(fnmatch(path.as_posix(), pattern) for pattern in OTHER_FORMATS)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"
