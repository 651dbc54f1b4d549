"""The ``ja_clip`` family: rinna's Japanese CLIP and CLOOB through their library ``japanese_clip``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import MissingExtraError
from eyechart.models import hub
from eyechart.models.encoders.transformers import LIBRARIES
from eyechart.models.hub import source_of
from eyechart.models.towers.checkpoints import load_errors
from eyechart.models.towers.precision import DEVICE_OPTIONS
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.models.towers.torch_tools import describe
from eyechart.types import ModelSpec

if TYPE_CHECKING:
    import torch

TOKENIZER = "rinna/japanese-roberta-base"
"""Loaded by the library under this name for every model."""
CONTEXT = 77
"""Context length of the library, without the start token."""


class JaClipEncoder(TorchEncoder):
    """A Japanese CLIP or CLOOB; its text tower needs token ids, position ids and the attention mask."""

    family = "ja_clip"

    def __init__(self, spec: ModelSpec) -> None:
        import japanese_clip

        self.library = japanese_clip
        with load_errors(f"japanese_clip {source_of(spec)}"):
            # The library supports neither revisions nor other hubs.
            plain = hub.revision_of(spec) is None and hub.name_of(spec) == hub.HUGGINGFACE
            source = source_of(spec) if plain else hub.download(source_of(spec), spec)
            model, self.transform = japanese_clip.load(source, device="cpu", cache_dir=spec.options.get("cache_dir"))
            self.tokenizer = japanese_clip.load_tokenizer()
        super().__init__(spec, model)
        vision = getattr(getattr(model, "config", None), "vision_config", None)
        self.card = self.make_card(
            transform=describe(self.transform),
            image_size=getattr(vision, "image_size", None),
            context_length=CONTEXT,
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the library's transform."""
        pixels: NDArray[np.float32] = self.transform(image).numpy()
        return pixels

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - Japanese
        """Run the library's tokenizer, which pads to full length and adds the start token."""
        inputs: Inputs = self.library.tokenize(list(texts), tokenizer=self.tokenizer, device="cpu")
        return inputs

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count tokens before truncation."""
        rows = self.tokenizer(list(texts), add_special_tokens=False, truncation=False)["input_ids"]
        return [len(row) for row in rows]

    def _image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        return model.get_image_features(pixels)

    def _text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        return model.get_text_features(**inputs)


class JaClipFamily(hub.HubFamily):
    """Loads ``rinna/japanese-clip-vit-b-16``, ``rinna/japanese-cloob-vit-b-16``, or a folder of either."""

    own_options = DEVICE_OPTIONS
    read_by = ("japanese_clip", *LIBRARIES)
    model = JaClipEncoder

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library or folder."""
        if find_spec("japanese_clip") is None:
            raise MissingExtraError(
                "This model needs the library 'japanese_clip', which is not on PyPI.",
                advice="Install it with: pip install git+https://github.com/rinnakk/japanese-clip.git",
            )
        super().check(spec)

    def places(self, spec: ModelSpec) -> list[Path | None]:
        """Return the local paths of weights and tokenizer; None for missing ones."""
        return [*super().places(spec), hub.cached_folder(TOKENIZER, spec.options.get("cache_dir"))]
