"""Where benchmarks and their images live: ``$LMUData``, and paths that must not leave it."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from eyechart.errors import DataError

VARIABLE = "LMUData"
LONGEST, LONGEST_PART = 1024, 200
"""Characters of an image's path below its folder, and of each part of it, that every system can hold."""

IMAGE_FOLDERS = (
    (re.compile(r"OCRVQA"), "OCRVQA"),
    (re.compile(r"^COCO_VAL$"), "COCO"),
    (re.compile(r"^MMBench(_(DEV|TEST))?(_(EN|CN|KO))?$"), "MMBench"),
    (re.compile(r"^MMBench(_(DEV|TEST))?(_(EN|CN))?_V11$"), "MMBench_V11"),
)
"""Benchmarks that share their images share a folder, as in VLMEvalKit; all others have one of their own name."""


def lmu_data_root() -> Path:
    """Return the folder of benchmarks: ``$LMUData``, else ``~/LMUData``; it is made when something is put there."""
    given = os.environ.get(VARIABLE)
    return Path(given).expanduser().absolute() if given else Path.home() / VARIABLE


def image_folder(benchmark: str) -> Path:
    """Return the folder of a benchmark's images."""
    name = next((folder for pattern, folder in IMAGE_FOLDERS if pattern.search(benchmark)), benchmark)
    return inside(lmu_data_root() / "images", name, "the benchmark's name")


def inside(folder: Path, name: str, what: str) -> Path:
    """Return the path of ``name`` below ``folder``.

    Raises:
        DataError: If it would lie elsewhere: data from others must not make us read or write where it likes.
    """
    if "\0" in name or not name.strip() or len(name) > LONGEST or max(map(len, name.split("/"))) > LONGEST_PART:
        raise DataError(f"{what}: {name[:80]!r} is not a file name.")
    try:
        path = (folder / name).resolve()
    except (OSError, RuntimeError) as error:  # longer than a path can be, or a loop of links
        raise DataError(f"{what}: {name[:80]!r} is not a file name.") from error
    if not path.is_relative_to(_resolved(folder.absolute())):
        raise DataError(f"{what}: the path {name!r} leaves the folder {folder}.", advice=f"Keep images below {folder}.")
    return folder / name if not Path(name).is_absolute() else path


@cache
def _resolved(folder: Path) -> Path:
    """Follow links once: benchmarks have thousands of images in one folder. It is absolute: we may change folders."""
    return folder.resolve()
