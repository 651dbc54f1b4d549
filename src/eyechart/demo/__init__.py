"""The model and the data that ship inside the package (see NOTICE.md for their sources and licences)."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def model_folder() -> Path:
    """Return the folder of ``eyechart-tiny``."""
    return _here() / "model"


def data_folder(name: str) -> Path:
    """Return the folder of a demo dataset: ``garments`` or ``scenes``."""
    return _here() / "data" / name


def _here() -> Path:
    return Path(str(resources.files(__name__)))
