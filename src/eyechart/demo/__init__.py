"""The models and the data that ship inside the package (see NOTICE.md for their sources and licences)."""

from pathlib import Path

HERE = Path(__file__).parent
MODELS = {"eyechart-tiny": "model", "eyechart-tiny-int8": "model-int8"}
"""The embedded models and their folders; the second is the first in eight bits."""


def model_folder(name: str = "eyechart-tiny") -> Path:
    """Return the folder of an embedded model."""
    return HERE / MODELS[name]


def data_folder(name: str) -> Path:
    """Return the folder of a demo dataset: ``garments`` or ``scenes``."""
    return HERE / "data" / name
