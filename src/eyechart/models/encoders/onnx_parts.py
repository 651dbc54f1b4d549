"""The files of an ONNX model: two towers, a tokenizer, the image transform, and what a folder says of itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eyechart.demo import model_folder
from eyechart.errors import ModelError, unknown_name
from eyechart.models.towers.small_files import TOKENIZER, read_json
from eyechart.types import ModelSpec

EMBEDDED = "eyechart-tiny"
TOWERS = {
    "image": ("image.onnx", "vision_model.onnx", "visual.onnx"),
    "text": ("text.onnx", "text_model.onnx", "textual.onnx"),
}
"""What exporters call the towers; they may also lie in a subfolder ``onnx``."""
TRANSFORM = "preprocessor_config.json"
DEFAULT_CONTEXT = 77
NO_LIMIT = 100_000


@dataclass(frozen=True)
class Parts:
    """Where everything is."""

    image: Path
    text: Path
    tokenizer: Path
    transform: Path
    card: dict[str, Any] = field(default_factory=dict)
    """``eyechart.json`` beside the tokenizer, if there is one."""

    def digest(self) -> str:
        """Digest the weights, external data files included, and the tokenizer."""
        state = hashlib.blake2b(digest_size=16)
        for path in (*_with_data(self.image), *_with_data(self.text), self.tokenizer):
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    state.update(block)
        return state.hexdigest()

    def files(self) -> tuple[Path, ...]:
        """List the files whose change makes another model."""
        return (*_with_data(self.image), *_with_data(self.text), self.tokenizer, self.transform)


def find_parts(spec: ModelSpec) -> Parts:
    """Find the files: the embedded model, a folder, or the two towers as ``--model`` and ``--pretrained``."""
    if EMBEDDED in (spec.name, spec.pretrained):
        return _from_folder(model_folder(), spec)
    towers = [Path(text) for text in (spec.name, spec.pretrained) if text.endswith(".onnx")]
    if towers:
        return _from_towers(towers, spec)
    for text in (spec.pretrained, spec.name):
        if text and Path(text).is_dir():
            return _from_folder(Path(text), spec)
    advice = "Give a folder with image.onnx and text.onnx, or the two files as --model and --pretrained."
    raise unknown_name("ONNX model", spec.pretrained or spec.name, [EMBEDDED], advice=advice)


def context_of(parts: Parts, spec: ModelSpec, tokenizer: Any) -> int:
    """Return how many tokens are read: as asked, as the card says, as the tokenizer was saved, or CLIP's 77."""
    saved = (tokenizer.truncation or {}).get("max_length")
    settings = parts.tokenizer.parent / "tokenizer_config.json"
    longest = read_json(settings).get("model_max_length") if settings.is_file() else None
    for value in (spec.options.get("context_length"), parts.card.get("context_length"), saved, longest):
        if not value:
            continue
        if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 1:
            raise ModelError(f"{parts.tokenizer.parent}: the context length cannot be {value!r}.")
        if value < NO_LIMIT:
            return int(value)
    return DEFAULT_CONTEXT


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
    card = tokenizer.parent / "eyechart.json"
    known = read_json(card) if card.is_file() else {"name": spec.label}
    return Parts(image, text, tokenizer, transform, known)


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    places = [place / name for place in (folder, folder / "onnx") for name in names]
    return next((place for place in places if place.is_file()), None)


def _with_data(tower: Path) -> list[Path]:
    """Return a tower and the files that hold its large weights: ``image.onnx.data``, ``image.onnx_data``."""
    return sorted(path for path in tower.parent.glob(f"{tower.name}*") if path.is_file())
