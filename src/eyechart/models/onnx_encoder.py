"""The `onnx` family: two exported towers and a tokenizer, without torch."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, OutOfMemoryError, UsageError, first_line
from eyechart.io.safe_parse import is_number
from eyechart.models.encoders.transformers import KINDS, TextSettings
from eyechart.models.family import content_identity
from eyechart.models.onnx_files import Parts, find_parts
from eyechart.models.towers.checkpoints import load_tokenizer, read_json, tokenizing
from eyechart.models.towers.preprocess import Preprocess
from eyechart.types import ModelCard, ModelSpec

NO_LIMIT = 100_000
"""A tokenizer without a real limit reports an absurdly large one."""
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

    Args:
        parts: The files.
        options: Model options, of which ``context_length`` is used.
        tokenizer: The tokenizer as saved.
        inputs: Names of the tower's inputs.
        axis: Fixed sequence length of the exported tower, if any.
    """
    architecture = str(parts.config.get("model_type", ""))
    kind = KINDS.get(architecture)
    masked = "attention_mask" in inputs
    length = _length(parts, options, tokenizer, kind, axis)
    if axis is not None or kind is not None:
        padded = axis or (length if kind is not None and kind.padding == "max_length" else None)
    else:
        padded = (tokenizer.padding or {}).get("length")
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
    pad = _padding_token(parts, tokenizer)
    if pad is None and not masked:
        raise ModelError(
            "{text} has no attention mask, and the padding token is unknown.",
            advice="Put the tokenizer_config.json of the exported model next to the tokenizer.",
            text=parts.text,
        )
    side = (tokenizer.padding or {}).get("direction") or parts.settings.get("padding_side") or "right"
    return TextPreparation(
        length=length,
        padded=padded,
        pad=pad or 0,
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
        raise ModelError("{parent}: invalid context length {wrong!r}.", parent=parts.tokenizer.parent, wrong=wrong)
    length = next((int(value) for value in candidates if value and value < NO_LIMIT), None)
    if length is None:
        raise ModelError(
            "The context length of {text} is unknown.",
            advice="Put the tokenizer_config.json of the exported model next to the tokenizer, or pass "
            "{--model_option=context_length=77}.",
            text=parts.text,
        )
    return min(length, axis) if axis else length


def _padding_token(parts: Parts, tokenizer: Any) -> int | None:
    if tokenizer.padding:
        return int(tokenizer.padding["pad_id"])
    named = parts.settings.get("pad_token")
    text = named.get("content") if isinstance(named, dict) else named
    found: int | None = tokenizer.token_to_id(text) if isinstance(text, str) else None
    config = parts.config.get("text_config") or {}
    return found if found is not None else config.get("pad_token_id", parts.config.get("pad_token_id"))


# The ``onnx`` family: two towers, ``tokenizer.json`` and ``preprocessor_config.json``.
#
# Needs neither torch nor a network connection. ``eyechart-tiny`` ships with the package.


VECTORS = ("image_embeds", "text_embeds", "sentence_embedding", "pooler_output")
"""Output names with one vector per input, by preference; otherwise the first output is used."""
TYPES = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(float16)": np.float16}

Vectors = NDArray[np.float32]


class OnnxFamily:
    """Loads the embedded model, a folder, or two files."""

    own_options = MappingProxyType({"context_length": int, "tokenizer": str, "preprocessor": str})

    def check(self, spec: ModelSpec) -> None:
        """Refuse missing files, and a precision other than that of the graph."""
        find_parts(spec).files()
        if spec.precision not in ("fp32", "amp"):
            raise UsageError(
                "An ONNX model runs in the precision it was exported with, not in {precision}.",
                advice="Omit {--precision}.",
                precision=spec.precision,
            )

    def identity(self, spec: ModelSpec) -> str | None:
        """Digest all files."""
        return content_identity(find_parts(spec).files(), "tokenizers")

    def load(self, spec: ModelSpec) -> OnnxEncoder:
        """Start a session for each tower."""
        return OnnxEncoder(spec, find_parts(spec))


class OnnxEncoder:
    """Two ONNX towers and a tokenizer."""

    def __init__(self, spec: ModelSpec, parts: Parts) -> None:
        digest = parts.digest()
        self.path = parts.tokenizer
        self.towers = {side: _Tower(path, spec) for side, path in (("image", parts.image), ("text", parts.text))}
        self.tokenizer = load_tokenizer(parts.tokenizer)
        inputs = [node.name for node in self.towers["text"].inputs]
        shape = self.towers["text"].inputs[0].shape  # a text tower may have a fixed sequence length
        axis = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None
        self.reading = read_texts(parts, spec.options, self.tokenizer, inputs, axis)
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.cutting = load_tokenizer(parts.tokenizer)
        self.cutting.no_padding()
        with tokenizing(str(self.path)):
            self.cutting.enable_truncation(self.reading.length)
        config = read_json(parts.transform)
        self.image_transform = Preprocess.from_config(config, str(parts.transform))
        if parts.digest() != digest:
            raise ModelError(
                "The files of {label} changed while they were read.", advice="Run again.", label=spec.label
            )
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
        """Apply the model's transform."""
        return self.image_transform(image)

    def encode_images(self, batch: NDArray[np.float32]) -> Vectors:
        """Run the image tower."""
        return self.towers["image"].run({"pixel_values": np.asarray(batch)}) if len(batch) else self._nothing()

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - one tokenizer
        """Clean, tokenize, truncate with the end token kept, pad, and run the text tower."""
        if not texts:
            return self._nothing()
        return self.towers["text"].run(self.reading.pad_rows(self._tokenize(self.cutting, texts)))

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find texts that exceed the context length."""
        return [len(row) > self.reading.length for row in self._tokenize(self.tokenizer, texts)]

    def _tokenize(self, tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
        with tokenizing(str(self.path)):
            return [encoding.ids for encoding in tokenizer.encode_batch(self.reading.clean(texts))]

    def _nothing(self) -> Vectors:
        return np.empty((0, self.card.embedding_dim or 0), np.float32)


class _Tower:
    """An ONNX graph with its inputs and its vector output."""

    def __init__(self, path: Any, spec: ModelSpec) -> None:
        import onnxruntime

        chosen = providers(spec, onnxruntime.get_available_providers())
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

    def run(self, known: dict[str, NDArray[Any]]) -> Vectors:
        """Run the graph on its inputs by name; a graph with one input takes the first array, whatever its name."""
        if len(self.inputs) == 1:
            fed = {self.inputs[0].name: next(iter(known.values()))}
        else:
            unknown = [node.name for node in self.inputs if node.name not in known]
            if unknown:
                raise ModelError("{path} has an unsupported input {first!r}.", path=self.path, first=unknown[0])
            fed = {node.name: known[node.name] for node in self.inputs}
        typed = {node.name: fed[node.name].astype(TYPES.get(node.type, fed[node.name].dtype)) for node in self.inputs}
        try:
            (vectors,) = self.session.run([self.output], typed)
        except Exception as error:
            # onnxruntime does not export its exception classes; only the message tells them apart.
            if "memory" in str(error).lower():
                raise OutOfMemoryError(
                    "The batch does not fit into memory ({reason}).", reason=first_line(error)
                ) from error
            raise ModelError(
                "{path} failed on this input ({reason}).", path=self.path, reason=first_line(error)
            ) from error
        if vectors.ndim != 2:
            raise ModelError(
                "{path}: the output {output!r} has shape {shape}, not one vector per input.",
                advice="Export the tower with its pooling and projection.",
                path=self.path,
                output=self.output,
                shape=vectors.shape,
            )
        return np.asarray(vectors, np.float32)


def providers(spec: ModelSpec, available: list[str]) -> list[str]:
    """Choose the execution provider: CUDA if requested or available, else the CPU."""
    wanted = ["CPUExecutionProvider"]
    if spec.device.startswith("cuda") or (spec.device == "auto" and "CUDAExecutionProvider" in available):
        wanted.insert(0, "CUDAExecutionProvider")
    missing = [name for name in wanted if name not in available]
    if missing:
        raise ModelError(
            "{first} is not available in onnxruntime.",
            advice="Use {--device=cpu}, or install onnxruntime-gpu.",
            first=missing[0],
        )
    return wanted
