"""The ``onnx`` family: a folder with two towers, ``tokenizer.json`` and ``preprocessor_config.json``.

Needs neither torch nor a network. ``eyechart-tiny`` is the model that ships inside the package.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.demo import model_folder
from eyechart.errors import ModelError, unknown_name
from eyechart.models.base import path_identity
from eyechart.models.preprocess import Preprocess
from eyechart.types import ModelCard, ModelSpec

EMBEDDED = "eyechart-tiny"
FILES = ("image.onnx", "text.onnx", "tokenizer.json", "preprocessor_config.json")
DEFAULT_CONTEXT = 77

Vectors = NDArray[np.float32]


class OnnxFamily:
    """Loads the embedded model, or a folder given as name or pretrained."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse a folder that is missing or lacks a file."""
        folder = folder_of(spec)
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise ModelError(
                f"The ONNX folder {folder} lacks {', '.join(missing)}.", advice=f"It must hold {', '.join(FILES)}."
            )

    def identity(self, spec: ModelSpec) -> str:
        """Name the files behind the folder."""
        return path_identity(str(folder_of(spec)))

    def load(self, spec: ModelSpec) -> OnnxEncoder:
        """Start both towers."""
        return OnnxEncoder(spec, folder_of(spec))


def folder_of(spec: ModelSpec) -> Path:
    """Find the model's folder."""
    if EMBEDDED in (spec.name, spec.pretrained):
        return model_folder()
    for text in (spec.pretrained, spec.name):
        if text and Path(text).is_dir():
            return Path(text)
    raise unknown_name(
        "ONNX model", spec.pretrained or spec.name, [EMBEDDED], advice="Give a folder with image.onnx and text.onnx."
    )


class OnnxEncoder:
    """Two ONNX towers and a tokenizer."""

    def __init__(self, spec: ModelSpec, folder: Path) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        config = _read_json(folder / "preprocessor_config.json")
        notes = _read_json(folder / "eyechart.json") if (folder / "eyechart.json").is_file() else {}
        self.context = int(notes.get("context_length", DEFAULT_CONTEXT))
        self.preprocess = Preprocess.from_config(config)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.pad = self.tokenizer.token_to_id("[PAD]") or 0
        try:
            self.towers = {
                side: onnxruntime.InferenceSession(
                    str(folder / f"{side}.onnx"), providers=_providers(spec, onnxruntime.get_available_providers())
                )
                for side in ("image", "text")
            }
        except Exception as error:
            # onnxruntime raises its own unexported exception classes for damaged files.
            raise ModelError(f"Cannot load the ONNX model in {folder} ({error}).") from error
        self.card = _card(spec, folder, config, notes, self.context)

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the folder's own transform."""
        return self.preprocess(image)

    def encode_images(self, batch: NDArray[np.float32]) -> Vectors:
        """Run the image tower."""
        return self._run("image", {"pixel_values": batch})

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - one tokenizer
        """Tokenise, pad to the longest text of the batch, run the text tower."""
        rows = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        length = max(1, min(self.context, max((len(row) for row in rows), default=1)))
        ids = np.full((len(rows), length), self.pad, np.int64)
        mask = np.zeros((len(rows), length), np.int64)
        for i, row in enumerate(rows):
            kept = row[: self.context]
            ids[i, : len(kept)] = kept
            mask[i, : max(1, len(kept))] = 1
        return self._run("text", {"input_ids": ids, "attention_mask": mask})

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find the texts with more tokens than the context."""
        return [len(encoding.ids) > self.context for encoding in self.tokenizer.encode_batch(list(texts))]

    def _run(self, side: str, inputs: dict[str, Any]) -> Vectors:
        if not len(next(iter(inputs.values()))):
            return np.empty((0, self.card.embedding_dim or 0), np.float32)
        wanted = {node.name for node in self.towers[side].get_inputs()}
        (vectors, *_) = self.towers[side].run(None, {key: value for key, value in inputs.items() if key in wanted})
        return np.asarray(vectors, np.float32)


def _providers(spec: ModelSpec, available: list[str]) -> list[str]:
    wanted = ["CPUExecutionProvider"]
    if spec.device.startswith("cuda") or (spec.device == "auto" and "CUDAExecutionProvider" in available):
        wanted.insert(0, "CUDAExecutionProvider")
    missing = [name for name in wanted if name not in available]
    if missing:
        raise ModelError(
            f"onnxruntime has no {missing[0]} here.", advice="Use --device cpu, or install onnxruntime-gpu."
        )
    return wanted


def _card(spec: ModelSpec, folder: Path, config: dict[str, Any], notes: dict[str, Any], context: int) -> ModelCard:
    state = hashlib.blake2b(digest_size=16)
    for name in ("image.onnx", "text.onnx", "tokenizer.json"):
        state.update((folder / name).read_bytes())
    size = config.get("crop_size") or config.get("size") or {}
    return ModelCard(
        family="onnx",
        name=notes.get("name", spec.name),
        weights_digest=state.hexdigest(),
        transform=json.dumps([config, context], sort_keys=True),
        precision="fp32",
        embedding_dim=notes.get("embedding_dim"),
        image_size=size.get("height", size.get("shortest_edge")) if isinstance(size, dict) else size,
        context_length=context,
        parameters=notes.get("parameters"),
        logit_scale=notes.get("logit_scale"),
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"Cannot read {path} ({error}).") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} must hold a JSON object.")
    return content
