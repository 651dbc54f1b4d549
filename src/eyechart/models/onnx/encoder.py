"""The ``onnx`` family: two towers, ``tokenizer.json`` and ``preprocessor_config.json``.

Needs neither torch nor a network. ``eyechart-tiny`` is the model that ships inside the package.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, OutOfMemoryError, UsageError, first_line
from eyechart.models.identity import content_identity
from eyechart.models.onnx.parts import Parts, find_parts
from eyechart.models.onnx.texts import read_texts
from eyechart.models.towers.preprocess import Preprocess
from eyechart.models.towers.small_files import load_tokenizer, read_json, tokenizing
from eyechart.types import ModelCard, ModelSpec

VECTORS = ("image_embeds", "text_embeds", "sentence_embedding", "pooler_output")
"""Outputs that hold one vector per input, best first; otherwise the first output counts."""
TYPES = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(float16)": np.float16}

Vectors = NDArray[np.float32]


class OnnxFamily:
    """Loads the embedded model, a folder, or two files."""

    own_options = MappingProxyType({"context_length": int, "tokenizer": str, "preprocessor": str})

    def check(self, spec: ModelSpec) -> None:
        """Refuse what is missing, and a precision that a finished graph cannot take on."""
        find_parts(spec).files()
        if spec.precision not in ("fp32", "amp"):
            raise UsageError(
                f"An ONNX model has the precision that it was exported in, not {spec.precision}.",
                advice="Leave --precision away.",
            )

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the content of all files that are read."""
        return content_identity(find_parts(spec).files(), "tokenizers")

    def load(self, spec: ModelSpec) -> OnnxEncoder:
        """Start both towers."""
        return OnnxEncoder(spec, find_parts(spec))


class OnnxEncoder:
    """Two ONNX towers and a tokenizer."""

    def __init__(self, spec: ModelSpec, parts: Parts) -> None:
        digest = parts.digest()
        self.path = parts.tokenizer
        self.towers = {side: _Tower(path, spec) for side, path in (("image", parts.image), ("text", parts.text))}
        self.tokenizer = load_tokenizer(parts.tokenizer)
        inputs = [node.name for node in self.towers["text"].inputs]
        self.reading = read_texts(parts, spec.options, self.tokenizer, inputs, self.towers["text"].length)
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.cutting = load_tokenizer(parts.tokenizer)
        self.cutting.no_padding()
        with tokenizing(str(self.path)):
            self.cutting.enable_truncation(self.reading.length)
        config = read_json(parts.transform)
        self.sendable_transform = Preprocess.from_config(config, str(parts.transform))
        if parts.digest() != digest:
            raise ModelError(f"The files of {spec.label} changed while they were read.", advice="Run again.")
        size = config.get("crop_size") or config.get("size") or {}
        self.card = ModelCard(
            family="onnx",
            name=parts.card.get("name", spec.name),
            weights_digest=digest,
            transform=json.dumps([config, asdict(self.reading)], sort_keys=True),
            precision="fp32",
            embedding_dim=parts.card.get("embedding_dim") or self.encode_texts(["a"]).shape[1],
            image_size=size.get("height", size.get("shortest_edge")) if isinstance(size, dict) else size,
            context_length=self.reading.length,
            parameters=parts.card.get("parameters"),
            logit_scale=parts.card.get("logit_scale"),
            logit_bias=parts.card.get("logit_bias"),
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the model's own transform."""
        return self.sendable_transform(image)

    def encode_images(self, batch: NDArray[np.float32]) -> Vectors:
        """Run the image tower."""
        return self.towers["image"].run({"pixel_values": np.asarray(batch)}) if len(batch) else self._nothing()

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - one tokenizer
        """Clean, tokenise, cut with the end mark kept, pad, run the text tower."""
        if not texts:
            return self._nothing()
        return self.towers["text"].run(self.reading.pad_rows(self._tokenize(self.cutting, texts)))

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find the texts with more tokens than are read."""
        return [len(row) > self.reading.length for row in self._tokenize(self.tokenizer, texts)]

    def _tokenize(self, tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
        with tokenizing(str(self.path)):
            return [encoding.ids for encoding in tokenizer.encode_batch(self.reading.clean(texts))]

    def _nothing(self) -> Vectors:
        return np.empty((0, self.card.embedding_dim or 0), np.float32)


class _Tower:
    """One graph: what it is fed and which of its outputs is the vector."""

    def __init__(self, path: Any, spec: ModelSpec) -> None:
        import onnxruntime

        try:
            self.session = onnxruntime.InferenceSession(
                str(path), providers=providers(spec, onnxruntime.get_available_providers())
            )
        except ModelError:
            raise
        except Exception as error:
            # onnxruntime raises its own unexported exception classes for damaged files.
            raise ModelError(f"Cannot load the ONNX model {path} ({first_line(error)}).") from error
        self.path = path
        self.inputs = self.session.get_inputs()
        names = [node.name for node in self.session.get_outputs()]
        self.output = next((name for name in VECTORS if name in names), names[0])

    @property
    def length(self) -> int | None:
        """Return the length that every text must be padded to, if the graph was exported with one."""
        shape = self.inputs[0].shape
        return shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None

    def run(self, known: dict[str, NDArray[Any]]) -> Vectors:
        """Feed what the graph asks for, by name; a graph with one input takes the first array whatever it calls it."""
        if len(self.inputs) == 1:
            fed = {self.inputs[0].name: next(iter(known.values()))}
        else:
            unknown = [node.name for node in self.inputs if node.name not in known]
            if unknown:
                raise ModelError(f"{self.path} wants an input {unknown[0]!r} that nobody knows how to make.")
            fed = {node.name: known[node.name] for node in self.inputs}
        typed = {node.name: fed[node.name].astype(TYPES.get(node.type, fed[node.name].dtype)) for node in self.inputs}
        try:
            (vectors,) = self.session.run([self.output], typed)
        except Exception as error:
            # onnxruntime's exception classes are not exported; what they say is all there is.
            if "memory" in str(error).lower():
                raise OutOfMemoryError(f"The batch does not fit into memory ({first_line(error)}).") from error
            raise ModelError(f"{self.path} cannot run on this input ({first_line(error)}).") from error
        if vectors.ndim != 2:
            raise ModelError(
                f"{self.path}: the output {self.output!r} has shape {vectors.shape}, not one vector per input.",
                advice="Export the tower with its pooling and projection.",
            )
        return np.asarray(vectors, np.float32)


def providers(spec: ModelSpec, available: list[str]) -> list[str]:
    """Choose where onnxruntime computes: CUDA if it is asked for, or there, else the CPU."""
    wanted = ["CPUExecutionProvider"]
    if spec.device.startswith("cuda") or (spec.device == "auto" and "CUDAExecutionProvider" in available):
        wanted.insert(0, "CUDAExecutionProvider")
    missing = [name for name in wanted if name not in available]
    if missing:
        raise ModelError(
            f"onnxruntime has no {missing[0]} here.", advice="Use --device cpu, or install onnxruntime-gpu."
        )
    return wanted
