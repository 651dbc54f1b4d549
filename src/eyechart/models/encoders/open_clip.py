"""The ``open_clip`` family: an architecture with a tag or a checkpoint file, a hub name, or a folder.

============================  ===========================================================================
``--model``                   ``--pretrained``
============================  ===========================================================================
``ViT-B-32``                  a tag (``openai``), a checkpoint file, or ``""`` for random weights
``path/to/architecture.json`` a checkpoint file: an architecture of your own, in open_clip's format
``hf-hub:org/name``           ignored; ``--revision`` and ``--hub`` count
``folder``, ``local-dir:...`` ignored; a folder that open_clip saved
============================  ===========================================================================
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, missing_extra, unknown_name
from eyechart.models import hub
from eyechart.models.encoders.open_clip_files import (
    FOLDER,
    HUB,
    architecture,
    folder_of,
    own_place,
    places,
    plain_name,
    registered,
    tags,
)
from eyechart.models.encoders.open_clip_texts import count_tokens, describe_tokenizer, nllb_code
from eyechart.models.family import check_path
from eyechart.models.folders import OPEN_CLIP
from eyechart.models.identity import content_identity
from eyechart.models.resolve import open_clip_names
from eyechart.models.towers.checkpoints import LOAD_ERRORS, load_error
from eyechart.models.towers.device_options import DEVICE_OPTIONS
from eyechart.models.towers.fast_images import NOTE, FastImages, is_fast
from eyechart.models.towers.last_block import shorten_images
from eyechart.models.towers.packed import pack_images
from eyechart.models.towers.pixel_table import PixelTable
from eyechart.models.towers.sentencepieces import exact_tokenizer
from eyechart.models.towers.small_files import read_json
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.models.towers.torch_tools import describe, no_random_start, quiet_transformers
from eyechart.models.towers.trim import encode_trimmed, pack_texts, shorten_texts, trim, trimmable
from eyechart.types import ModelSpec, digest_json

if TYPE_CHECKING:
    import torch

QUICK = "-quickgelu"
NO_WEIGHTS = "No pretrained weights loaded"
"""How open_clip says what is on our card in our own words."""
NAMES = ("hf_tokenizer_name", "hf_model_name")
"""Where an architecture takes its tokenizer and text tower from; what they are is digested when they are loaded."""


class OpenClipFamily:
    """Loads models through the open_clip library."""

    own_options = MappingProxyType({"decoder": str, **DEVICE_OPTIONS})

    def check(self, spec: ModelSpec) -> None:
        """Refuse an unknown architecture or tag and a missing checkpoint."""
        if find_spec("open_clip") is None:
            raise missing_extra("open_clip", "open-clip")
        if spec.name.startswith(HUB):
            return
        folder = folder_of(spec.name)
        if folder is not None:
            if not (folder / OPEN_CLIP).is_file():
                raise ModelError(f"{spec.name} holds no {OPEN_CLIP}.", advice="Check the path.")
            return
        check_path(spec.pretrained)
        if not Path(spec.name).is_file() and plain_name(spec.name) not in open_clip_names():
            raise unknown_name("open_clip model", spec.name, open_clip_names())
        _check_tag(spec)

    def places(self, spec: ModelSpec) -> list[Path | None]:
        """Return where architecture, weights and tokenizer are on this machine; None for what is not here."""
        return places(spec)

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the content of architecture, weights and tokenizer, where they are on this machine."""
        files = content_identity(self.places(spec), "open_clip_torch", "torchvision", "transformers", "tokenizers")
        added = registered(spec)
        return digest_json([files, added]) if files and added else files

    def load(self, spec: ModelSpec) -> OpenClipEncoder:
        """Load model, transform and tokenizer."""
        return OpenClipEncoder(spec)


class OpenClipEncoder(TorchEncoder):
    """An open_clip model in evaluation mode."""

    family = "open_clip"

    def __init__(self, spec: ModelSpec) -> None:
        cache = spec.options.get("cache_dir")
        model, self.transform, self.tokenizer, notes = load_parts(spec)
        if hasattr(self.tokenizer, "tokenizer"):
            self.tokenizer.tokenizer, other = exact_tokenizer(self.tokenizer.tokenizer, cache)
            notes += other
        fast = is_fast(spec.options)
        self.pixels = FastImages(self.transform) if fast else PixelTable(self.transform)
        self.decode = self.pixels.decode
        notes += [NOTE] if fast else []
        super().__init__(spec, model)
        self.trimmable = trimmable(self.model, self.tokenizer)
        for replica in self._replicas:
            shorten_images(replica)
            if self.trimmable:
                shorten_texts(replica, self.tokenizer)
        # Weights that are laid out for a CPU are for nothing else.
        if self.devices == ["cpu"] and self.precision == "fp32" and not self.ways.text:
            self.packed = [pack_images(self.model), self.trimmable and pack_texts(self.model, self.tokenizer)]
        size = getattr(self.model.visual, "image_size", None)
        context = getattr(self.tokenizer, "context_length", None)
        seeing = f"{'fast on bytes ' if fast else ''}{describe(self.transform)}"
        self.card = self.make_card(
            transform=f"{seeing} | {describe_tokenizer(self.tokenizer)} | {_activation(self.model)} | {_shape(spec)}",
            image_size=int(size[0]) if isinstance(size, tuple | list) else size,
            context_length=context,
            notes=notes,
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the model's own evaluation transform."""
        return self.sendable_transform(image)

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:
        """Run open_clip's tokenizer; NLLB's is told the language first."""
        if hasattr(self.tokenizer, "set_lang_fn"):
            # Not open_clip's `set_language`: transformers 5 goes back to `src_lang` with every call.
            self.tokenizer.tokenizer.src_lang = nllb_code(language, self.tokenizer.tokenizer)
        return {"tokens": self.tokenizer(list(texts))}

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count tokens with the start and end marks."""
        return [count_tokens(self.tokenizer, text) for text in texts]

    def text_inputs(self, tokens: Inputs) -> Inputs:
        """Cut off the padding where the tower never looks at it."""
        return {"tokens": trim(tokens["tokens"])} if self.trimmable else tokens

    def image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        """Run the image tower."""
        return model.encode_image(pixels)

    def text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        """Run the text tower."""
        encode = encode_trimmed if self.trimmable else type(model).encode_text
        return encode(model, inputs["tokens"])


def load_parts(spec: ModelSpec) -> tuple[Any, Any, Any, list[str]]:
    """Load a model as open_clip makes it, its evaluation transform and its tokenizer; also what is to be known."""
    import open_clip

    name = _library_name(spec)
    cache = spec.options.get("cache_dir")
    quick, notes = _quick_gelu(name, spec)
    start = no_random_start() if _has_weights(name, spec) else nullcontext()
    try:
        with warnings.catch_warnings(), quiet_transformers(), start, _said_by_library() as said:
            # What the first says is on the card, what the second says is in the error that follows it.
            warnings.filterwarnings("ignore", message="QuickGELU mismatch")
            warnings.filterwarnings("ignore", message=".*looks like a TorchScript archive")
            model, _, transform = open_clip.create_model_and_transforms(
                name,
                pretrained=spec.pretrained or None,
                force_quick_gelu=quick,
                cache_dir=cache,
                weights_only=True,
                pretrained_text=False,
                require_pretrained=_has_weights(name, spec),
            )
            tokenizer = open_clip.get_tokenizer(name, cache_dir=cache)
    except LOAD_ERRORS as error:
        raise load_error(f"open_clip {spec.label}", error) from error
    notes += [*said, *_trained_otherwise(name, spec, model.visual.preprocess_cfg)]
    if spec.options.get("revision") and not spec.name.startswith(HUB):
        notes.append(f"The revision was not used: only names with {HUB} have one.")
    if not _has_weights(name, spec):
        notes.append("The weights are random: no tag and no checkpoint was given.")
    return model, transform, tokenizer, notes


def _library_name(spec: ModelSpec) -> str:
    """Return what open_clip calls the model: a pinned or ModelScope hub name becomes a folder, a file is registered."""
    import open_clip

    if spec.name.startswith(HUB) and (spec.options.get("revision") or hub.name_of(spec) != hub.HUGGINGFACE):
        return f"{FOLDER}{hub.download(spec.name.removeprefix(HUB), spec)}"
    folder = folder_of(spec.name)
    if folder is not None:
        return f"{FOLDER}{folder}"
    if spec.name.startswith(HUB):
        return spec.name
    file = own_place(spec)
    name = file.stem if file is not None else plain_name(spec.name)
    # The library knows architectures by the names of their files: one of another folder may have taken this name.
    if file is not None and open_clip.get_model_config(name) != read_json(file):
        open_clip.add_model_config(file)
    return name


def _has_weights(name: str, spec: ModelSpec) -> bool:
    return bool(spec.pretrained) or name.startswith((HUB, FOLDER))


def _check_tag(spec: ModelSpec) -> None:
    """Refuse a tag that the architecture does not have."""
    if not spec.pretrained or Path(spec.pretrained).exists():
        return
    known = tags().get(plain_name(spec.name), {})
    if spec.pretrained.lower().replace("-", "_") not in known:
        hint = "" if known else "This architecture has no tags: give a checkpoint file."
        raise unknown_name(f"pretrained tag of {spec.name}", spec.pretrained, known, advice=hint)


def _quick_gelu(name: str, spec: ModelSpec) -> tuple[bool, list[str]]:
    """Decide the activation, and say so where open_clip alone would get it wrong.

    A tag knows with which activation its weights were trained; that one is used. A file does not.
    """
    import open_clip

    config = open_clip.get_model_config(name) if not name.startswith((HUB, FOLDER)) else None
    if config is None or config.get("quick_gelu") or not spec.pretrained:
        return False, []
    if open_clip.get_pretrained_cfg(name, spec.pretrained).get("quick_gelu"):
        note = (
            f"{spec.pretrained} was trained with QuickGELU, but {name} is defined with GELU: QuickGELU is used, "
            f"as {name}{QUICK} has it."
        )
        return True, [note]
    if Path(spec.pretrained).exists() and f"{name}{QUICK}" in open_clip.list_models():
        note = (
            f"{name} uses GELU. If this checkpoint was trained with QuickGELU, as OpenAI's were, the scores are "
            f"too low: use --model {name}{QUICK}."
        )
        return False, [note]
    return False, []


@contextmanager
def _said_by_library() -> Iterator[list[str]]:
    """Yield what open_clip warns of while it loads: a checkpoint that is ignored, one that it chose among several."""
    said: list[str] = []

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if "open_clip" in record.pathname and not text.startswith(NO_WEIGHTS):
                said.append(f"open_clip: {text}")

    handler = Notes(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield said
    finally:
        logging.getLogger().removeHandler(handler)


def _trained_otherwise(name: str, spec: ModelSpec, used: dict[str, Any]) -> list[str]:
    """Say so if a checkpoint file's images are prepared otherwise than for every tag of its architecture.

    A tag and a folder say how images are prepared. A file does not: open_clip prepares them as for OpenAI's models.
    """
    import open_clip

    if name.startswith((HUB, FOLDER)) or not spec.pretrained or open_clip.get_pretrained_cfg(name, spec.pretrained):
        return []
    known = [open_clip.get_pretrained_cfg(name, tag) for tag in open_clip.list_pretrained_tags_by_model(name)]
    if not known or any(_same_pixels(used, tag) for tag in known):
        return []
    note = (
        f"Images are prepared with mean {used['mean']} and std {used['std']}, as no tag of {name} was trained. If this "
        f"checkpoint is like those, the scores are wrong: give its folder, with {OPEN_CLIP}."
    )
    return [note]


def _same_pixels(used: dict[str, Any], tag: dict[str, Any]) -> bool:
    keys = ("mean", "std", "interpolation", "resize_mode")
    return all(list(used[key]) == list(tag[key]) for key in keys if tag.get(key))


def _shape(spec: ModelSpec) -> str:
    """Digest the architecture: heads, pooling and the like are no weights, but decide the vectors."""
    config = architecture(spec) or {}
    text = {key: value for key, value in config.get("text_cfg", {}).items() if key not in NAMES}
    return digest_json({**config, "text_cfg": text})


def _activation(model: Any) -> str:
    """Name the image tower's activation: QuickGELU or GELU are no weights, but decide the vectors."""
    kinds = {type(module).__name__ for module in model.modules()}
    return "QuickGELU" if "QuickGELU" in kinds else "GELU"
