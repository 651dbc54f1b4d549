"""The `onnx` family: two exported towers and a tokenizer, or an image tower, without torch."""

from __future__ import annotations

import json
import os
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, OutOfMemoryError, UsageError, first_line
from eyechart.io.safe_parse import is_number
from eyechart.messages import UserMessage
from eyechart.models.encoders.transformers import CLASS_TOKEN, KINDS, NO_LIMIT, TextSettings
from eyechart.models.family import UNSTEADY_TEXTS, BaseEncoder, LocalFamily, need_inputs, probe_images, probe_vectors
from eyechart.models.onnx_files import Parts, find_parts
from eyechart.models.towers.checkpoints import load_tokenizer, read_json, tokenizing
from eyechart.models.towers.preprocess import Preprocess
from eyechart.types import Input, ModelCard, ModelSpec

READS_AT_END = ("clip", "clipseg")
"""Architectures with causal attention that pool at the end token: padding does not matter."""
CANONICAL = ("SiglipTokenizer",)
"""Tokenizers whose Python class removes punctuation, which ``tokenizer.json`` does not."""
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class TextPreparation:
    """How texts are prepared for the tower."""

    length: int
    """Context length in tokens."""
    padded: int | None
    """Length that rows are padded to; None for the longest text of the batch."""
    pad: int
    left: bool
    lower: bool
    canonical: bool

    def clean(self, texts: Sequence[str]) -> list[str]:
        """Clean texts as in training."""
        lowered = [text.lower() for text in texts] if self.lower else list(texts)
        if not self.canonical:
            return lowered
        return [re.sub(r"\s+", " ", text.translate(_NO_PUNCTUATION)).strip() for text in lowered]

    def pad_rows(self, rows: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
        """Pad rows of tokens into one array."""
        length = self.padded or max(1, *map(len, rows))
        ids = np.full((len(rows), length), self.pad, np.int64)
        mask = np.zeros((len(rows), length), np.int64)
        for i, row in enumerate(rows):
            place = slice(length - len(row), length) if self.left else slice(0, len(row))
            ids[i, place], mask[i, place] = row, 1
            mask[i, 0] |= not row
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def read_texts(
    parts: Parts, options: Mapping[str, Any], tokenizer: Any, inputs: Sequence[str], axis: int | None
) -> TextPreparation:
    """Determine how texts are prepared.

    ``inputs`` are the names of the tower's inputs, ``axis`` its fixed sequence length, if any.
    """
    architecture = str(parts.config.get("model_type", ""))
    kind = KINDS.get(architecture)
    masked = "attention_mask" in inputs
    saved = tokenizer.padding or {}
    length = _length(parts, options, tokenizer, kind, axis)
    padded: int | None = axis or saved.get("length")
    if axis is None and kind is not None:
        padded = length if kind.padding == "max_length" else None
    if padded is None and not masked and architecture not in READS_AT_END:
        raise ModelError(
            "{text} has no attention mask, and the padding length is unknown.",
            advice="Put the config.json of the exported model next to the tokenizer, or export a fixed length.",
            text=parts.text,
        )
    if padded is not None and padded < length:
        raise ModelError(
            "{tokenizer} pads texts to {padded} tokens, but the context length is {length}.",
            advice="Use {--model_option=context_length={padded}}.",
            tokenizer=parts.tokenizer,
            padded=padded,
            length=length,
        )
    pad = saved.get("pad_id")
    if pad is None:
        named = parts.settings.get("pad_token")
        text = named.get("content") if isinstance(named, dict) else named
        pad = tokenizer.token_to_id(text) if isinstance(text, str) else None
    if pad is None:
        config = parts.config.get("text_config") or {}
        pad = config.get("pad_token_id", parts.config.get("pad_token_id"))
    if pad is None and not masked:
        raise ModelError(
            "{text} has no attention mask, and the padding token is unknown.",
            advice="Put the tokenizer_config.json of the exported model next to the tokenizer.",
            text=parts.text,
        )
    side = saved.get("direction") or parts.settings.get("padding_side") or "right"
    return TextPreparation(
        length=length,
        padded=padded,
        pad=int(pad or 0),
        left=str(side).lower() == "left",
        lower=bool(parts.settings.get("do_lower_case") or (kind is not None and kind.lower)),
        canonical=parts.settings.get("tokenizer_class") in CANONICAL,
    )


def _length(
    parts: Parts, options: Mapping[str, Any], tokenizer: Any, kind: TextSettings | None, axis: int | None
) -> int:
    """Return the context length: as requested, else as exported, limited to what the tower takes."""
    config = parts.config.get("text_config") or parts.config
    candidates = (
        options.get("context_length"),
        parts.card.get("context_length"),
        kind.length if kind is not None else None,
        axis,
        (tokenizer.truncation or {}).get("max_length"),
        parts.settings.get("model_max_length"),
        config.get("max_position_embeddings"),
    )
    wrong = next((value for value in candidates if value and (not is_number(value) or value < 1)), None)
    if wrong is not None:
        place = (parts.tokenizer or parts.transform).parent
        raise ModelError("{parent}: invalid context length {wrong!r}.", parent=place, wrong=wrong)
    length = next((int(value) for value in candidates if value and value < NO_LIMIT), None)
    if length is None:
        raise ModelError(
            "The context length of {text} is unknown.",
            advice="Put the tokenizer_config.json of the exported model next to the tokenizer, or pass "
            "{--model_option=context_length=77}.",
            text=parts.text,
        )
    return min(length, axis) if axis else length


VECTORS = ("image_embeds", "text_embeds", "sentence_embedding", "pooler_output")
"""Output names with one vector per input, by preference; otherwise the first output is used."""
UNPOOLED = CLASS_TOKEN | {"", "dinov2", "dinov2_with_registers", "dinov3_vit"}
"""Image encoders (``model_type``, empty if unknown) whose vector is the class token of their unpooled output."""
POOLINGS = {3: UserMessage("class token"), 4: UserMessage("mean of the grid")}
"""By the number of axes of the output."""
CUDA = "CUDAExecutionProvider"
TYPES = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(float16)": np.float16}

TOLERANCE = 0.02
"""Largest distance between unit vectors of the same text; quantised towers round by batch."""
Vectors = NDArray[np.float32]


class OnnxEncoder(BaseEncoder):
    """Two ONNX towers and a tokenizer, or an image tower."""

    text: _Tower | None = None

    def __init__(self, spec: ModelSpec) -> None:
        parts = find_parts(spec)
        digest = parts.digest()
        self.label, self.image = spec.label, _Tower(parts.image, spec)
        self.devices = ["cuda" if CUDA in self.image.session.get_providers() else "cpu"]
        if parts.text and parts.tokenizer:
            self.text, self.path = _Tower(parts.text, spec), parts.tokenizer
            self.tokenizer = load_tokenizer(self.path)
            # A graph may have a fixed sequence length, which every text must be padded to.
            shape = self.text.inputs[0].shape
            length = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None
            names = [node.name for node in self.text.inputs]
            self.reading = read_texts(parts, spec.options, self.tokenizer, names, length)
            self.tokenizer.no_padding()
            with tokenizing(str(self.path)):
                self.tokenizer.enable_truncation(self.reading.length)
        else:
            self.image.choose_pooling(str(parts.config.get("model_type", "")))
        config = read_json(parts.transform)
        self.image_transform = Preprocess.from_config(config, str(parts.transform))
        if parts.digest() != digest:
            raise ModelError(
                "The files of {label} changed while they were read.", advice="Run again.", label=spec.label
            )
        size = config.get("crop_size") or config.get("size") or {}
        if self.text is None:
            probed = probe_images(self, self.label, TOLERANCE)
            reading, notes = {"output": self.image.output, "pooling": self.image.pooling}, self.image.notes
        else:
            probed, steady = probe_vectors(self.encode_texts, ("a", "a longer text"), TOLERANCE)
            reading, notes = asdict(self.reading), () if steady else (UNSTEADY_TEXTS,)
        self.card = ModelCard(
            family="onnx",
            name=parts.card.get("name", spec.name),
            weights_digest=digest,
            transform=json.dumps([config, reading], sort_keys=True),
            precision="fp32",
            embedding_dim=parts.card.get("embedding_dim") or probed.shape[1],
            image_size=size.get("height", size.get("shortest_edge")) if isinstance(size, dict) else size,
            context_length=self.reading.length if self.text else None,
            parameters=parts.card.get("parameters"),
            logit_scale=parts.card.get("logit_scale"),
            logit_bias=parts.card.get("logit_bias"),
            notes=notes,
            inputs=("image", "text") if self.text else ("image",),
            weight_type=parts.weight_type,
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the model's transform."""
        return self.image_transform(image)

    def encode_images(self, batch: NDArray[np.float32]) -> Vectors:
        """Run the image tower."""
        return self.image.run({"pixel_values": np.asarray(batch)}) if len(batch) else self.no_vectors()

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - one tokenizer
        """Clean, tokenize, truncate with the end token kept, pad, and run the text tower."""
        if self.text is None:
            need_inputs(self.label, self.card.inputs, ("text",))
        if self.text is None or not texts:
            return self.no_vectors()
        return self.text.run(self.reading.pad_rows([encoding.ids for encoding in self._tokenize(texts)]))

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find texts that exceed the context length."""
        return [bool(encoding.overflowing) for encoding in self._tokenize(texts)] if self.text else [False] * len(texts)

    def _tokenize(self, texts: Sequence[str]) -> list[Any]:
        with tokenizing(str(self.path)):
            return list(self.tokenizer.encode_batch(self.reading.clean(texts)))


class _Tower:
    """An ONNX graph with its inputs and its vector output."""

    def __init__(self, path: Any, spec: ModelSpec) -> None:
        import onnxruntime

        if os.environ.get("ORT_DISABLE_TELEMETRY") == "1":
            onnxruntime.disable_telemetry_events()  # the caller may have imported it before the variable was set
        available, names = onnxruntime.get_available_providers(), ["CPUExecutionProvider"]
        if spec.device.startswith("cuda") or (spec.device == "auto" and CUDA in available):
            names.insert(0, CUDA)
        if names[0] not in available:
            raise ModelError(
                "{first} is not available in onnxruntime.",
                advice="Use {--device=cpu}, or install onnxruntime-gpu.",
                first=names[0],
            )
        # The CUDA provider computes in TF32 by default; the CPU provider has no such option.
        chosen = [(name, {"use_tf32": "0"} if name == CUDA else {}) for name in names]
        try:
            self.session = onnxruntime.InferenceSession(str(path), providers=chosen)
        except Exception as error:
            # onnxruntime does not export its exception classes.
            raise ModelError(
                "Cannot load the ONNX model {path} ({reason}).", path=path, reason=first_line(error)
            ) from error
        self.path = path
        self.inputs = self.session.get_inputs()
        names = [node.name for node in self.session.get_outputs()]
        self.output = next((name for name in VECTORS if name in names), names[0])
        self.pooling = ""
        self.notes: tuple[str, ...] = ()

    def choose_pooling(self, kind: str) -> None:
        """Choose output and pooling of an image encoder that was exported without its pooling."""
        shapes = {node.name: node.shape for node in self.session.get_outputs()}
        if kind in CLASS_TOKEN and "last_hidden_state" in shapes:
            self.output = "last_hidden_state"
        if kind in UNPOOLED:
            self.pooling = POOLINGS.get(len(shapes[self.output]), "")
        if self.pooling:
            note = "The image tower returns several vectors per image: the {pooling} is used."
            self.notes = (UserMessage(note, pooling=self.pooling),)

    def run(self, known: dict[str, NDArray[Any]]) -> Vectors:
        """Run the graph on its inputs by name; a graph with one input takes the first array, whatever its name."""
        fed = {}
        for node in self.inputs:
            array = known.get(node.name) if len(self.inputs) > 1 else next(iter(known.values()))
            if array is None:
                raise ModelError("{path} has an unsupported input {first!r}.", path=self.path, first=node.name)
            fed[node.name] = array.astype(TYPES.get(node.type, array.dtype), copy=False)
        try:
            (vectors,) = self.session.run([self.output], fed)
        except Exception as error:
            # onnxruntime does not export its exception classes; only the message tells them apart.
            if "memory" in str(error).lower():
                raise OutOfMemoryError(
                    "The batch does not fit into memory ({reason}).", reason=first_line(error)
                ) from error
            raise ModelError(
                "{path} failed on this input ({reason}).", path=self.path, reason=first_line(error)
            ) from error
        if self.pooling:
            # The sides of a grid are equal; the channels come before or after them.
            shape = vectors.shape
            grids = [(i, i + 1) for i in range(1, len(shape) - 1) if shape[i] == shape[i + 1]]
            if len(shape) == 3:
                vectors = vectors[:, 0]
            elif len(grids) == 1:
                vectors = vectors.mean(axis=grids[0], dtype=np.float32)
        if vectors.ndim != 2:
            raise ModelError(
                "{path}: the output {output!r} has shape {shape}, not one vector per input.",
                advice="Export the tower with its pooling and projection.",
                path=self.path,
                output=self.output,
                shape=vectors.shape,
            )
        return np.asarray(vectors, np.float32)


class OnnxFamily(LocalFamily):
    """Loads the embedded model, a folder, or one or two files. Needs neither torch nor a network connection."""

    own_options = MappingProxyType({"context_length": int, "tokenizer": str, "preprocessor": str})
    read_by = ("tokenizers",)
    model = OnnxEncoder

    def check(self, spec: ModelSpec) -> None:
        """Refuse missing files, and a precision other than that of the graph."""
        self.places(spec)
        if spec.precision not in ("fp32", "amp"):
            raise UsageError(
                "An ONNX model runs in the precision it was exported with, not in {precision}.",
                advice="Omit {--precision}.",
                precision=spec.precision,
            )

    def places(self, spec: ModelSpec) -> tuple[Path, ...]:
        """Return all files."""
        return find_parts(spec).files

    def inputs(self, spec: ModelSpec) -> Sequence[Input]:
        """Return images only if there is no text tower."""
        return ("image", "text") if find_parts(spec).text else ("image",)
