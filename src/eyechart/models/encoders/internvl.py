"""The ``internvl`` family: InternVL-C and InternVL-G under the six names of their authors' evaluation code.

The name decides three things: the form of the checkpoint (a ``.pth`` file, or with ``_hf`` a folder), which of the
two image vectors is taken (C, G), and the image transform (classification crops, retrieval squashes).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, UsageError, missing_extra, unknown_name
from eyechart.models import hub
from eyechart.models.encoders.transformers import LIBRARIES
from eyechart.models.identity import content_identity
from eyechart.models.towers.checkpoints import LOAD_ERRORS, load_error, load_strictly, read_state, whole_weights
from eyechart.models.towers.sentencepieces import exact_tokenizer
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.models.towers.torch_tools import describe, input_type
from eyechart.types import ModelSpec

if TYPE_CHECKING:
    import torch

PREFIX = "summarize:"
"""Stands before every text, prompts and captions alike."""
CONTEXT = 80
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TOKENIZER = "chinese_alpaca_lora_7b"
"""Folder with the LLaMA tokenizer of a ``.pth`` checkpoint."""


@dataclass(frozen=True)
class Variant:
    """What a name stands for."""

    mode: str
    folder: bool
    crop: bool


VARIANTS = {
    f"internvl_{letter}_{task}{suffix}": Variant(f"InternVL-{letter.upper()}", bool(suffix), task == "classification")
    for letter, suffix in (("c", ""), ("c", "_hf"), ("g", "_hf"))
    for task in ("classification", "retrieval")
}


class InternVLFamily:
    """Loads both forms of checkpoint."""

    own_options = MappingProxyType({"tokenizer": str})

    def check(self, spec: ModelSpec) -> None:
        """Refuse an unknown name, a missing checkpoint, or one of the other form."""
        if find_spec("transformers") is None or find_spec("torchvision") is None:
            raise missing_extra("transformers", "transformers")
        if spec.name not in VARIANTS:
            raise unknown_name("InternVL model", spec.name, VARIANTS)
        if VARIANTS[spec.name].folder:
            _check_folder(spec)
        else:
            _check_file(spec)

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the content of the files, where they are on this machine."""
        if VARIANTS[spec.name].folder:
            return content_identity(hub.places_of(spec.pretrained, _trusted(spec)), *LIBRARIES)
        return content_identity([Path(spec.pretrained), _tokenizer_folder(spec)], *LIBRARIES)

    def load(self, spec: ModelSpec) -> InternVLEncoder:
        """Load model and tokenizer."""
        return InternVLEncoder(spec)


class InternVLEncoder(TorchEncoder):
    """One of the two image vectors, and the text vector at the end token."""

    family = "internvl"

    def __init__(self, spec: ModelSpec) -> None:
        variant = VARIANTS[spec.name]
        self.mode = variant.mode
        load = _from_folder if variant.folder else _from_file
        model, tokenizer, size, notes = load(spec)
        self.tokenizer, other = exact_tokenizer(tokenizer, spec.options.get("cache_dir"), hub.revision_of(spec))
        self.padding = "max_length" if variant.folder else True
        self.takes_mode = "mode" in inspect.signature(model.encode_image).parameters
        self.transform = make_transform(size, crop=variant.crop)
        super().__init__(spec, model)
        self.card = self.make_card(
            transform=f"{self.mode} | {describe(self.transform)} | {PREFIX!r} {self.padding} {CONTEXT}",
            image_size=size,
            context_length=CONTEXT,
            notes=[*notes, *other],
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Convert to RGB, then crop or squash."""
        pixels: NDArray[np.float32] = self.transform(image.convert("RGB")).numpy()
        return pixels

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - one tokenizer for all
        """Prefix, tokenise with an end mark, cut at 80."""
        tokens = self.tokenizer(
            self.written(texts), return_tensors="pt", max_length=CONTEXT, truncation=True, padding=self.padding
        )
        return {"ids": tokens["input_ids"]}

    def written(self, texts: Sequence[str]) -> list[str]:
        """Put the prefix before every text."""
        return [PREFIX + text for text in texts]

    def image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        """Run the image side in the variant's mode."""
        return model.encode_image(pixels, **({"mode": self.mode} if self.takes_mode else {}))

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


def _tokenizer(source: str, **options: Any) -> Any:
    """Load the LLaMA tokenizer: end mark on, padded on the right with 0, which the text tower masks."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source, use_fast=False, add_eos_token=True, **options)
    tokenizer.pad_token_id = 0
    tokenizer.padding_side = "right"
    return tokenizer


def _from_file(spec: ModelSpec) -> tuple[Any, Any, int, list[str]]:
    from eyechart.models.encoders.internvl_c import build

    path = Path(spec.pretrained)
    state = {name: tensor for name, tensor in read_state(path).items() if not name.endswith("rotary_emb.inv_freq")}
    try:
        model = build(state)
        tokenizer = _tokenizer(str(_tokenizer_folder(spec)))
    except KeyError as error:
        raise ModelError(f"{path} is no InternVL-C checkpoint: it has no {error}.") from error
    except LOAD_ERRORS as error:
        raise load_error(str(path), error) from error
    load_strictly(model, state, str(path))
    # Stored in float16; 25 GB become 50 only if they must.
    kept = model if spec.precision == "fp16" else model.float()
    return kept, tokenizer, model.image_size, []


def _from_folder(spec: ModelSpec) -> tuple[Any, Any, int, list[str]]:
    import transformers

    source = hub.source_for_library(spec.pretrained, spec)
    options = hub.loading(_trusted(spec))
    try:
        with whole_weights(source):
            model = transformers.AutoModel.from_pretrained(source, dtype=input_type(spec.precision), **options)
            tokenizer = _tokenizer(source, **options)
    except LOAD_ERRORS as error:
        raise load_error(f"InternVL {source}", error) from error
    config = model.config
    for flag, part in (("use_backbone_lora", "vision_model"), ("use_qllama_lora", "qllama")):
        if getattr(config, flag, 0):
            adapted = getattr(model, part)
            adapted.merge_and_unload()
            setattr(model, part, adapted.model)
    size = getattr(config, "force_image_size", None) or config.vision_config.image_size
    return model, tokenizer, int(size), [f"The model's own code in {source} was run."]


def _trusted(spec: ModelSpec) -> ModelSpec:
    """Return the spec of a folder, whose code is run as a matter of course."""
    return replace(spec, options={**spec.options, "trust_remote_code": True})


def _check_file(spec: ModelSpec) -> None:
    path = Path(spec.pretrained)
    if path.is_dir():
        raise UsageError(
            f"{spec.name} reads a .pth file, but {path} is a folder.", advice=f"Use --model {spec.name}_hf."
        )
    if not path.is_file():
        raise ModelError(f"There is no checkpoint {path}.", advice="Check the path after --pretrained.")
    _tokenizer_folder(spec)


def _tokenizer_folder(spec: ModelSpec) -> Path:
    """Find the tokenizer of a ``.pth`` checkpoint, which holds weights only."""
    folder = Path(spec.options.get("tokenizer") or Path(spec.pretrained).parent / TOKENIZER)
    if not (folder / "tokenizer.model").is_file() and not (folder / "tokenizer.json").is_file():
        raise ModelError(
            f"There is no tokenizer in {folder}.",
            advice=f"Put the folder {TOKENIZER} of InternVL's repository beside the checkpoint, or give it with "
            "--model_option tokenizer=FOLDER.",
        )
    return folder


def _check_folder(spec: ModelSpec) -> None:
    path = Path(spec.pretrained)
    if path.is_file():
        raise UsageError(
            f"{spec.name} reads a folder, but {path} is a file.",
            advice=f"Use --model {spec.name.removesuffix('_hf')}." if "_c_" in spec.name else "",
        )
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"{path} holds no config.json.", advice="Download the whole folder.")
    elif spec.pretrained.startswith((".", "/", "~")) or not spec.options.get("trust_remote_code"):
        # A folder that somebody put there and named is theirs; code that would be fetched needs a word more.
        raise ModelError(
            f"There is no folder {spec.pretrained}.",
            advice="Check the path. A hub id runs code from the hub: add --trust-remote-code.",
        )
