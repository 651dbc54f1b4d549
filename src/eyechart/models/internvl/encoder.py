"""The encoder: images to one of InternVL's two image vectors, texts to the text vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError
from eyechart.io.media import to_rgb
from eyechart.models import hub
from eyechart.models.internvl.loading import load_network
from eyechart.models.internvl.tokens import CONTEXT, LlamaPieces, find_vocabulary
from eyechart.models.towers.pixel_table import PixelTable
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.models.towers.torch_tools import describe
from eyechart.models.towers.trim import trim
from eyechart.types import ModelSpec, digest_json

if TYPE_CHECKING:
    import torch

PREFIX = "summarize:"
"""Stands before every text, prompts and captions alike."""
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Variant:
    """What a name stands for."""

    letter: str
    folder: bool
    crop: bool


class InternVLEncoder(TorchEncoder):
    """One of the two image vectors, and the text vector at the end mark."""

    family = "internvl"

    def __init__(self, spec: ModelSpec, variant: Variant) -> None:
        self.letter = variant.letter
        place = Path(hub.download(spec.pretrained, spec) if variant.folder else spec.pretrained)
        vocabulary = find_vocabulary(spec, place)
        self.tokenizer = LlamaPieces(vocabulary)
        network, notes = load_network(spec, place, vocabulary)
        sizes = network.sizes
        if self.letter == "G" and not sizes.queries:
            raise ModelError(f"{place} has no query tokens, which InternVL-G needs.")
        self.transform = make_transform(sizes.image_size, crop=variant.crop)
        self.pixels = PixelTable(self.transform)
        super().__init__(spec, network)
        self.card = self.make_card(
            transform=f"InternVL-{self.letter} {digest_json(asdict(sizes))} | {describe(self.transform)} | "
            f"{PREFIX!r} {CONTEXT}",
            image_size=sizes.image_size,
            context_length=CONTEXT,
            notes=[*notes, *_vocabulary_notes(self.tokenizer, sizes.words, vocabulary)],
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Convert to RGB, then crop or squash."""
        return self.sendable_transform(to_rgb(image))

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - one tokenizer for all
        """Prefix, tokenise with both marks, cut at 80, fill up with 0."""
        import torch

        return {"ids": torch.tensor(self.tokenizer.padded(self.written(texts)))}

    def text_inputs(self, tokens: Inputs) -> Inputs:
        """Cut off the padding behind the longest text: nothing looks back from there."""
        return {"ids": trim(tokens["ids"])}

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text before it is cut, marks included."""
        return [len(self.tokenizer.encode(text)) for text in self.written(texts)]

    def written(self, texts: Sequence[str]) -> list[str]:
        """Put the prefix before every text."""
        return [PREFIX + text for text in texts]

    def image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        """Run the image side of the variant."""
        return model.image_g(pixels) if self.letter == "G" else model.image_c(pixels)

    def text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        """Run the text tower: the same one for C and G."""
        return model.encode_text(inputs["ids"])


def make_transform(size: int, *, crop: bool) -> Any:
    """Make the transform: resize the shorter side and crop (classification), or squash (retrieval)."""
    from torchvision import transforms

    bicubic = transforms.InterpolationMode.BICUBIC
    shape = [transforms.Resize(size if crop else (size, size), interpolation=bicubic)]
    shape += [transforms.CenterCrop(size)] if crop else []
    return transforms.Compose([*shape, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])


def _vocabulary_notes(tokenizer: LlamaPieces, words: int, vocabulary: Path) -> list[str]:
    """Compare the vocabulary with the rows of the text tower.

    Raises:
        ModelError: If a piece has no row.
    """
    if len(tokenizer) > words:
        raise ModelError(
            f"{vocabulary} has {len(tokenizer)} pieces, but the model has rows for {words} only.",
            advice="It is the tokenizer of another model: give the right one with --model_option tokenizer=PATH.",
        )
    rest = words - len(tokenizer)
    return [f"The tokenizer has {len(tokenizer)} pieces, the model rows for {words}: is it its own?"] if rest else []
