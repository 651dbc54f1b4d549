"""Names between the disk, texts and the terminal: one spelling on every machine, and nothing in it but text.

Names on disk are bytes, UTF-8 by agreement. Where a machine is set to another encoding (``LC_ALL=C``), Python writes
what is not ASCII as halves of characters, which cannot be printed; here they are put together again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from eyechart.errors import DataError
from eyechart.io.untrusted import likely_encoding

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which a terminal obeys, and halves of characters, which no file can hold."""


def is_unsafe(name: str) -> bool:
    """Tell whether a name must not be shown or written as it is."""
    return bool(_UNSAFE.search(name))


def check_name(name: str, what: str) -> None:
    """Refuse a name in data that a terminal would obey, or that no result could hold."""
    if is_unsafe(name):
        raise DataError(f"{what} {name!r} holds control characters.", advice="Give it another name.")


def file_name(path: Path) -> str:
    """Return a file's name as a text.

    Raises:
        DataError: If it is not UTF-8, or holds control characters.
    """
    data = _bytes(path.name)
    try:
        name = data.decode()
    except UnicodeDecodeError as error:
        likely = likely_encoding(data)
        raise DataError(
            f"The name of {shown(path)} is not UTF-8.",
            advice="Rename it." + (f" It may be {likely}: convmv -f {likely} -t UTF-8 --notest -r" if likely else ""),
        ) from error
    if is_unsafe(name):
        check_name(name, f"In {shown(path.parent)}, the name")
    return name


def file_path(name: str) -> Path:
    """Return the path that a text in data names."""
    return Path(os.fsdecode(name.encode("utf-8", "surrogatepass")))


def by_name(paths: Iterable[Path]) -> list[Path]:
    """Sort the files of one folder, in the same order on every machine."""
    return sorted(paths, key=lambda path: _bytes(path.name))


def shown(path: object) -> str:
    """Return a path or an address as a text that can be printed and written."""
    return _bytes(str(path)).decode("utf-8", "backslashreplace")


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
