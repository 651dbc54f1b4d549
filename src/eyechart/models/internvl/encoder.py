"""The ``internvl`` family: InternVL-C and InternVL-G under the six names of their authors' evaluation code.

The name selects the checkpoint format (a ``.pth`` file, or with ``_hf`` a folder), the image vector (C or G), and the
image transform (classification crops, retrieval squashes).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, UsageError, unknown_name
from eyechart.io.images import to_rgb
from eyechart.messages import UserMessage
from eyechart.models import hub, speedups
from eyechart.models.family import LocalFamily
from eyechart.models.internvl import checkpoint
from eyechart.models.internvl.sizes import CONFIG
from eyechart.models.speedups.transforms import PixelTable
from eyechart.models.towers.precision import DEVICE_OPTIONS
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.models.towers.torch_tools import describe
from eyechart.types import ModelSpec, digest_json

if TYPE_CHECKING:
    import torch


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


GIVE = UserMessage(
    "Pass the checkpoint with {--pretrained}: internvl_c_13b_224px.pth, or InternVL-14B-224px for names with _hf."
)
NAMES = [
    f"internvl_{letter}_{task}{suffix}"
    for letter, suffix in (("c", ""), ("c", "_hf"), ("g", "_hf"))
    for task in ("classification", "retrieval")
]


class InternVLEncoder(TorchEncoder):
    """One of the two image vectors, and the text vector at the end token."""

    family = "internvl"
    prefix = "summarize:"
    """For prompts and captions alike."""

    def __init__(self, spec: ModelSpec) -> None:
        from torchvision import transforms

        self.letter = "G" if "_g_" in spec.name else "C"
        crops = "classification" in spec.name
        place = Path(hub.download(spec.pretrained, spec) if spec.name.endswith("_hf") else spec.pretrained)
        vocabulary = checkpoint.find_vocabulary(spec, place)
        self.tokenizer = checkpoint.LlamaPieces(vocabulary)
        network, notes = checkpoint.load_network(spec, place, vocabulary)
        sizes = network.sizes
        if self.letter == "G" and not sizes.queries:
            raise ModelError("{place} has no query tokens, which InternVL-G needs.", place=place)
        pieces = len(self.tokenizer)
        if pieces > sizes.words:
            raise ModelError(
                "{vocabulary} has {n} pieces, but the model has embeddings for {words} only.",
                advice="The tokenizer belongs to another model: pass the right one with "
                "{--model_option=tokenizer=PATH}.",
                vocabulary=vocabulary,
                n=pieces,
                words=sizes.words,
            )
        if pieces < sizes.words:
            note = UserMessage(
                "The tokenizer has {n} pieces, but the model has embeddings for {words}: check that they belong "
                "together.",
                n=pieces,
                words=sizes.words,
            )
            notes.append(note)
        size = sizes.image_size
        # Classification resizes the shorter side and crops, retrieval squashes.
        bicubic = transforms.InterpolationMode.BICUBIC
        shape = [transforms.Resize(size if crops else (size, size), interpolation=bicubic)]
        shape += [transforms.CenterCrop(size)] if crops else []
        self.transform = transforms.Compose([*shape, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
        self.pixels = PixelTable(self.transform)
        self.strips_padding = speedups.enabled()  # causal attention never sees it
        super().__init__(spec, network)
        self.card = self.make_card(
            transform=f"InternVL-{self.letter} {digest_json(asdict(sizes))} | {describe(self.transform)} | "
            f"{self.prefix!r} {checkpoint.CONTEXT}",
            image_size=size,
            context_length=checkpoint.CONTEXT,
            notes=notes,
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Convert to RGB, then crop or squash."""
        return super().prepare_image(to_rgb(image))

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - one tokenizer for all
        """Add the prefix, tokenize with start and end tokens, truncate to 80, pad with 0."""
        import torch

        return {"ids": torch.tensor(self.tokenizer.padded(self.written(texts)))}

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count tokens before truncation, start and end tokens included."""
        return [len(self.tokenizer.encode(text)) for text in self.written(texts)]

    def _image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        return model.image_g(pixels) if self.letter == "G" else model.image_c(pixels)

    def _text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        return model.encode_text(inputs["ids"])


class InternVLFamily(LocalFamily):
    """Loads InternVL-C and InternVL-G, in both checkpoint formats."""

    auto_precision = "half"
    """The authors' choice on GPUs: float32 takes 50 GB."""
    own_options = MappingProxyType({"tokenizer": str, **dict.fromkeys(checkpoint.HEADS, int), **DEVICE_OPTIONS})
    needs, extra = ("torch", "torchvision", "sentencepiece"), "transformers"
    read_by = ("torchvision", "sentencepiece")
    model = InternVLEncoder

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, an unknown name, and a missing checkpoint or one in the wrong format."""
        super().check(spec)
        if spec.name not in NAMES:
            raise unknown_name("InternVL model", spec.name, NAMES)
        if not spec.pretrained:
            raise UsageError("{name} needs a checkpoint.", advice=GIVE, name=spec.name)
        path = Path(spec.pretrained)
        if spec.name.endswith("_hf"):
            _check_folder(spec, path)
        elif path.is_dir():
            raise UsageError(
                "{name} takes a .pth file, but {path} is a folder.",
                advice="Use {--model={name}_hf}.",
                name=spec.name,
                path=path,
            )
        elif not path.is_file():
            raise ModelError("Checkpoint not found: {path}.", advice="Check the path in {--pretrained}.", path=path)
        else:
            checkpoint.find_vocabulary(spec, path)

    def places(self, spec: ModelSpec) -> Iterable[Path | None]:
        """Return every file that loading reads."""
        here = Path(spec.pretrained)
        if here.exists():
            vocabulary = checkpoint.find_vocabulary(spec, here)
            if here.is_dir():
                return [here / CONFIG, *checkpoint.weight_files(here), vocabulary]
            config = checkpoint.llama_config(here, vocabulary)
            return [here, vocabulary, *([config] if config else [])]
        # A snapshot in a hub's cache may still be incomplete.
        given = spec.options.get("tokenizer")
        return [hub.cached_place(spec.pretrained, spec), *([Path(given)] if given else [])]


def _check_folder(spec: ModelSpec, path: Path) -> None:
    given = set(checkpoint.HEADS) & set(spec.options)
    if given:
        raise UsageError(
            "{given}: only for .pth files. A folder has them in {config}.",
            given=", ".join(sorted(given)),
            config=CONFIG,
        )
    if path.is_file():
        raise UsageError(
            "{name} takes a folder, but {path} is a file.",
            advice=UserMessage("Use {--model={name}}.", name=spec.name.removesuffix("_hf"))
            if "_c_" in spec.name
            else "",
            name=spec.name,
            path=path,
        )
    if path.is_dir():
        if not (path / CONFIG).is_file():
            raise ModelError(
                "{path} does not contain {config}.", advice="Download the whole folder.", path=path, config=CONFIG
            )
        checkpoint.weight_files(path)
        checkpoint.find_vocabulary(spec, path)
    elif spec.pretrained.startswith((".", "/", "~")) or spec.pretrained.count("/") != 1 or path.parent.is_dir():
        raise ModelError(
            "Folder not found: {path}.",
            advice="Check the path in {--pretrained}, or pass a hub id.",
            path=spec.pretrained,
        )
    else:
        hub.check(spec)
