"""The ``open_clip`` family: an architecture and a pretrained tag or a checkpoint file."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, missing_extra, unknown_name
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

HUB_PREFIXES = ("hf-hub:", "local-dir:")


class OpenClipFamily:
    """Loads models through the open_clip library."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse an unknown architecture or a missing checkpoint without importing the library."""
        library = find_spec("open_clip")
        if library is None or library.origin is None:
            raise missing_extra("open_clip", "open_clip")
        if not spec.name.startswith(HUB_PREFIXES):
            known = {path.stem for path in (Path(library.origin).parent / "model_configs").glob("*.json")}
            if spec.name not in known and spec.name.replace("/", "-") not in known:
                raise unknown_name("open_clip model", spec.name, known)
        check_path(spec.pretrained)

    def identity(self, spec: ModelSpec) -> str:
        """Name the checkpoint file, or the tag (tags never change)."""
        return path_identity(spec.pretrained)

    def load(self, spec: ModelSpec) -> OpenClipEncoder:
        """Load model, transform and tokenizer."""
        return OpenClipEncoder(spec)


class OpenClipEncoder:
    """An open_clip model in evaluation mode."""

    def __init__(self, spec: ModelSpec) -> None:
        import open_clip

        self.device = choose_device(spec.device)
        self.precision = spec.precision
        _check_tag(open_clip, spec)
        try:
            model, _, self.transform = open_clip.create_model_and_transforms(
                spec.name,
                pretrained=spec.pretrained or None,
                device=self.device,
                cache_dir=spec.options.get("cache_dir"),
                weights_only=True,
            )
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            raise ModelError(f"open_clip cannot load {spec.label} ({error}).") from error
        self.model = cast(model, spec.precision).eval()
        self.tokenizer = open_clip.get_tokenizer(spec.name)
        self.card = self._card(spec)

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the model's own evaluation transform."""
        pixels: NDArray[np.float32] = self.transform(image).numpy()
        return pixels

    def encode_images(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Run the image tower."""
        import torch

        if not len(batch):
            return np.empty((0, self.card.embedding_dim or 0), np.float32)
        with torch.inference_mode(), autocast(self.precision, self.device):
            pixels = torch.from_numpy(batch).to(self.device, input_type(self.precision))
            return to_numpy(self.model.encode_image(pixels))

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> NDArray[np.float32]:  # noqa: ARG002
        """Run the text tower."""
        import torch

        if not texts:
            return np.empty((0, self.card.embedding_dim or 0), np.float32)
        with torch.inference_mode(), autocast(self.precision, self.device):
            tokens = self.tokenizer(list(texts)).to(self.device)
            return to_numpy(self.model.encode_text(tokens))

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find the texts with more tokens than the context holds."""
        limit = int(self.card.context_length or 0)
        return [limit > 0 and _token_count(self.tokenizer, text) > limit for text in texts]

    def _card(self, spec: ModelSpec) -> ModelCard:
        size = getattr(self.model.visual, "image_size", None)
        scale, bias = (getattr(self.model, name, None) for name in ("logit_scale", "logit_bias"))
        context = getattr(self.tokenizer, "context_length", None)
        return ModelCard(
            family="open_clip",
            name=spec.label,
            weights_digest=weights_digest(self.model),
            transform=f"{self.transform!r} | {type(self.tokenizer).__name__}({context})",
            precision=spec.precision,
            embedding_dim=_embedding_dim(self.model),
            image_size=int(size[0]) if isinstance(size, tuple | list) else size,
            context_length=context,
            parameters=count_parameters(self.model),
            logit_scale=number(scale.exp()) if scale is not None else None,
            logit_bias=number(bias) if bias is not None else None,
        )


def _check_tag(open_clip: Any, spec: ModelSpec) -> None:
    """Refuse a tag that the architecture does not have."""
    if spec.name.startswith(HUB_PREFIXES) or not spec.pretrained or Path(spec.pretrained).exists():
        return
    tags = open_clip.list_pretrained_tags_by_model(spec.name)
    if spec.pretrained.lower() not in {tag.lower() for tag in tags}:
        raise unknown_name(f"pretrained tag of {spec.name}", spec.pretrained, tags)


def _token_count(tokenizer: Any, text: str) -> int:
    """Count tokens with the start and end marks: open_clip's own tokenizer, or a Hugging Face one inside."""
    inner = getattr(tokenizer, "tokenizer", None)
    return len(inner(text)["input_ids"]) if inner is not None else len(tokenizer.encode(text)) + 2


def _embedding_dim(model: Any) -> int | None:
    projection = getattr(model, "text_projection", None)
    if projection is None:
        return getattr(model.visual, "output_dim", None)
    return int(projection.shape[-1]) if hasattr(projection, "shape") else int(projection.out_features)
