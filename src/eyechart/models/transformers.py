"""The ``transformers`` family: CLIP-style models from a local folder or a hub id."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, missing_extra
from eyechart.models.base import check_path, path_identity
from eyechart.models.torch_tools import (
    autocast,
    cast,
    choose_device,
    count_parameters,
    input_type,
    number,
    to_numpy,
    weights_digest,
)
from eyechart.types import ModelCard, ModelSpec

PAD_TO_MAX = frozenset({"siglip", "siglip2"})
"""Models that were trained with every text padded to full length, and whose text tower reads the padding."""
NO_LIMIT = 100_000
"""A tokenizer without a real limit reports an absurdly large one."""


class TransformersFamily:
    """Loads models through transformers' AutoModel and AutoProcessor."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library or folder."""
        if find_spec("transformers") is None or find_spec("torch") is None:
            raise missing_extra("transformers", "transformers")
        check_path(source_of(spec))

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the files of a local folder; a hub id may move, unless its revision is given."""
        source = source_of(spec)
        return path_identity(source) if Path(source).exists() or spec.options.get("revision") else None

    def load(self, spec: ModelSpec) -> TransformersEncoder:
        """Load model and processor."""
        return TransformersEncoder(spec)


def source_of(spec: ModelSpec) -> str:
    """Return the folder or hub id: ``pretrained`` if it is given, else the model's name."""
    return spec.pretrained or spec.name


class TransformersEncoder:
    """A transformers dual encoder in evaluation mode."""

    def __init__(self, spec: ModelSpec) -> None:
        import transformers

        source = source_of(spec)
        options = {
            "revision": spec.options.get("revision"),
            "cache_dir": spec.options.get("cache_dir"),
            "trust_remote_code": bool(spec.options.get("trust_remote_code")),
        }
        self.device = choose_device(spec.device)
        self.precision = spec.precision
        try:
            model = transformers.AutoModel.from_pretrained(source, **options)
            self.processor = transformers.AutoProcessor.from_pretrained(source, **options)
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"transformers cannot load {source} ({error}).") from error
        missing = [name for name in ("get_image_features", "get_text_features") if not hasattr(model, name)]
        if missing:
            raise ModelError(
                f"{source} is a {type(model).__name__}, which has no {missing[0]}.",
                advice="A dual encoder (CLIP, SigLIP, ...) is needed here.",
            )
        self.model = cast(model, spec.precision).to(self.device).eval()
        self.tokenizer = self.processor.tokenizer
        self.context = _context(model, self.tokenizer)
        self.padding = "max_length" if model.config.model_type in PAD_TO_MAX else True
        self.card = self._card(spec)

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the model's own image processor."""
        batch = self.processor.image_processor(images=image.convert("RGB"), return_tensors="np")
        pixels: NDArray[np.float32] = np.asarray(batch["pixel_values"][0], np.float32)
        return pixels

    def encode_images(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Run the image tower and its projection."""
        import torch

        if not len(batch):
            return np.empty((0, self.card.embedding_dim or 0), np.float32)
        with torch.inference_mode(), autocast(self.precision, self.device):
            pixels = torch.from_numpy(batch).to(self.device, input_type(self.precision))
            return to_numpy(_features(self.model.get_image_features(pixel_values=pixels)))

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> NDArray[np.float32]:  # noqa: ARG002
        """Run the text tower and its projection."""
        import torch

        if not texts:
            return np.empty((0, self.card.embedding_dim or 0), np.float32)
        tokens = self.tokenizer(
            list(texts), padding=self.padding, truncation=True, max_length=self.context, return_tensors="pt"
        ).to(self.device)
        with torch.inference_mode(), autocast(self.precision, self.device):
            return to_numpy(_features(self.model.get_text_features(**tokens)))

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find the texts with more tokens than the context holds."""
        rows = self.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"] if texts else []
        return [len(row) > self.context for row in rows]

    def _card(self, spec: ModelSpec) -> ModelCard:
        config = self.model.config
        scale, bias = (getattr(self.model, name, None) for name in ("logit_scale", "logit_bias"))
        vision = getattr(config, "vision_config", config)
        return ModelCard(
            family="transformers",
            name=spec.label,
            weights_digest=weights_digest(self.model),
            transform=f"{self.processor.image_processor.to_json_string()} | {self.padding} {self.context}",
            precision=spec.precision,
            embedding_dim=getattr(config, "projection_dim", None),
            image_size=getattr(vision, "image_size", None),
            context_length=self.context,
            parameters=count_parameters(self.model),
            logit_scale=number(scale.exp()) if scale is not None else None,
            logit_bias=number(bias) if bias is not None else None,
        )


def _features(output: Any) -> Any:
    """Return the projected vectors: transformers 5 wraps them in an output object, earlier ones do not."""
    return getattr(output, "pooler_output", output)


def _context(model: Any, tokenizer: Any) -> int:
    """Return how many tokens the text tower reads: its positions, unless the tokenizer sets less."""
    text = getattr(model.config, "text_config", model.config)
    limits = [getattr(text, "max_position_embeddings", None), getattr(tokenizer, "model_max_length", None)]
    known = [int(limit) for limit in limits if limit is not None and limit < NO_LIMIT]
    return min(known) if known else 512
