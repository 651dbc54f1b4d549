"""Results that nobody asked to keep: in a folder of this process, which goes with it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


def unsaved_folder() -> Path:
    """Return a new folder; it lasts as long as the process."""
    return Path(tempfile.mkdtemp(dir=_parent()))


def is_unsaved(path: Path) -> bool:
    """Tell whether a file will be gone with this process."""
    return _parent.cache_info().currsize > 0 and path.is_relative_to(_parent())


@cache
def _parent() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="eyechart-results-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
