"""What the folder of a model holds: the one table by which models on disk are recognised."""

from __future__ import annotations

from pathlib import Path

from eyechart.models.towers.small_files import read_json
from eyechart.types import Role

TOWERS = {
    "image": ("image.onnx", "vision_model.onnx", "visual.onnx"),
    "text": ("text.onnx", "text_model.onnx", "textual.onnx"),
}
"""What exporters to ONNX call the two towers; they may also lie in a subfolder ``onnx``."""
CONFIG, OPEN_CLIP, MODULES = "config.json", "open_clip_config.json", "modules.json"

FOLDERS: dict[Role, dict[str, tuple[str, ...]]] = {
    "encoder": {
        "onnx": tuple(place + name for place in ("", "onnx/") for name in TOWERS["image"]),
        "open_clip": (OPEN_CLIP,),
        "sentence-transformers": (MODULES,),
        "transformers": (CONFIG,),
    },
    "generator": {"open_clip": (OPEN_CLIP,), "transformers": (CONFIG,)},
    "reranker": {"cross-encoder": (CONFIG,)},
}
"""For each role: the family, and the files by any one of which its folder is recognised."""
WEIGHTS = ("*.safetensors", "*.bin", "*.safetensors.index.json", "*.bin.index.json")
"""Weights that transformers reads."""
PROCESSORS = ("*processor_config.json", "*/*processor_config.json")
"""Files by one of which a folder shows that its model takes images."""


def families_in(folder: Path, role: Role) -> list[str]:
    """List the families that could load a folder in a role; more than one if it holds the same model in several forms.

    Two libraries write the ``config.json`` of transformers beside their own files: sentence-transformers, whose folder
    is then its own, and exporters to ONNX, whose folder has no weights that transformers could read. A model of
    transformers without an image processor reads texts, and sentence-transformers makes one vector of a text.
    """
    found = {family for family, files in FOLDERS[role].items() if any((folder / file).is_file() for file in files)}
    if role == "encoder" and "transformers" in found:
        if "sentence-transformers" in found or ("onnx" in found and not _any(folder, WEIGHTS)):
            found.discard("transformers")
        elif found == {"transformers"} and not sees(folder):
            found = {"sentence-transformers"}
    return sorted(found)


def is_internvl(folder: Path) -> bool:
    """Tell whether a folder is InternVL-14B-224px, whose name alone does not say what shall be done with it."""
    return (folder / CONFIG).is_file() and "qllama_config" in read_json(folder / CONFIG)


def sees(folder: Path) -> bool:
    """Tell whether the model in a folder takes images, by its files."""
    seen = any((folder / file).is_file() for file in (*FOLDERS["encoder"]["onnx"], OPEN_CLIP))
    if seen or _any(folder, PROCESSORS):
        return True
    return (folder / CONFIG).is_file() and "vision_config" in read_json(folder / CONFIG)


def _any(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(True for pattern in patterns for _ in folder.glob(pattern))
