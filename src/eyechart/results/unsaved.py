"""Results that nobody asked to keep: in a folder of this process, which goes with it."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path


def unsaved_folder() -> Path:
    """Return a new folder; it lasts as long as the process."""
    return Path(tempfile.mkdtemp(dir=_parent().name))


def is_unsaved(path: Path) -> bool:
    """Tell whether a file will be gone with this process."""
    return _parent.cache_info().currsize > 0 and path.is_relative_to(_parent().name)


@cache
def _parent() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="eyechart-results-")
