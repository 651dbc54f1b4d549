"""The files of an ONNX model: two towers, a tokenizer, the image transform, and what a folder says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eyechart.demo import MODELS, model_folder
from eyechart.errors import ModelError, unknown_name
from eyechart.io.digests import file_digest
from eyechart.models.folders import CONFIG, TOWERS
from eyechart.models.onnx.references import external_files
from eyechart.models.towers.small_files import TOKENIZER, read_json
from eyechart.types import ModelSpec, digest_json

TRANSFORM = "preprocessor_config.json"
CARD = "eyechart.json"
SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
"""How the tokenizer is used, as transformers writes it."""


@dataclass(frozen=True)
class Parts:
    """Where everything is."""

    image: Path
    text: Path
    tokenizer: Path
    transform: Path
    card: dict[str, Any] = field(default_factory=dict)
    """``eyechart.json`` beside the tokenizer, if there is one."""
    config: dict[str, Any] = field(default_factory=dict)
    """``config.json`` of the model that was exported, beside the tokenizer, if there is one."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the files beside the tokenizer say of its use."""

    @property
    def weights(self) -> list[Path]:
        """List the towers, each with the files that hold its large weights."""
        return [self.image, *external_files(self.image), self.text, *external_files(self.text)]

    def digest(self) -> str:
        """Digest weights and tokenizer."""
        return digest_json([file_digest(path).hex() for path in (*self.weights, self.tokenizer)])

    def files(self) -> list[Path]:
        """List all files that are read."""
        beside = [self.tokenizer.parent / name for name in (CARD, CONFIG, *SETTINGS)]
        return [*self.weights, self.tokenizer, self.transform, *(path for path in beside if path.is_file())]


def find_parts(spec: ModelSpec) -> Parts:
    """Find the files: the embedded model, a folder, or the two towers as ``--model`` and ``--pretrained``."""
    for embedded in MODELS:
        if embedded in (spec.name, spec.pretrained):
            return _from_folder(model_folder(embedded), spec)
    towers = [Path(text) for text in (spec.name, spec.pretrained) if text.endswith(".onnx")]
    if towers:
        return _from_towers(towers, spec)
    for text in (spec.pretrained, spec.name):
        if text and Path(text).is_dir():
            return _from_folder(Path(text), spec)
    advice = "Give a folder with image.onnx and text.onnx, or the two files as --model and --pretrained."
    raise unknown_name("ONNX model", spec.pretrained or spec.name, list(MODELS), advice=advice)


def _from_folder(folder: Path, spec: ModelSpec) -> Parts:
    found = {side: _first(folder, names) for side, names in TOWERS.items()}
    missing = [names[0] for side, names in TOWERS.items() if found[side] is None]
    missing += [name for name in (TOKENIZER, TRANSFORM) if not (folder / name).is_file()]
    if missing:
        needed = ", ".join([names[0] for names in TOWERS.values()] + [TOKENIZER, TRANSFORM])
        raise ModelError(f"The ONNX folder {folder} lacks {', '.join(missing)}.", advice=f"It must hold {needed}.")
    image, text = found["image"], found["text"]
    return _complete(image or folder, text or folder, folder / TOKENIZER, folder / TRANSFORM, spec)


def _from_towers(towers: list[Path], spec: ModelSpec) -> Parts:
    if len(towers) != 2:
        raise ModelError(
            "Two ONNX files are needed, the image tower and the text tower.",
            advice="--model image.onnx --pretrained text.onnx",
        )
    image, text = towers
    tokenizer = Path(spec.options.get("tokenizer") or text.parent / TOKENIZER)
    transform = Path(spec.options.get("preprocessor") or image.parent / TRANSFORM)
    for path in (image, text, tokenizer, transform):
        if not path.is_file():
            raise ModelError(
                f"There is no file {path}.",
                advice="Tokenizer and transform lie beside the towers, or are given with "
                f"--model_option tokenizer={TOKENIZER} preprocessor={TRANSFORM}.",
            )
    return _complete(image, text, tokenizer, transform, spec)


def _complete(image: Path, text: Path, tokenizer: Path, transform: Path, spec: ModelSpec) -> Parts:
    beside = {name: tokenizer.parent / name for name in (CARD, CONFIG, *SETTINGS)}
    known = {name: read_json(path) if path.is_file() else {} for name, path in beside.items()}
    settings = {key: value for name in reversed(SETTINGS) for key, value in known[name].items()}
    return Parts(image, text, tokenizer, transform, known[CARD] or {"name": spec.label}, known[CONFIG], settings)


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    places = [place / name for place in (folder, folder / "onnx") for name in names]
    return next((place for place in places if place.is_file()), None)
