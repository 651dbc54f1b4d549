"""The ``transformers`` family: dual encoders from a local folder, the Hugging Face hub or ModelScope.

How each architecture reads is a table: `eyechart.models.encoders.transformers_kinds`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError
from eyechart.models import hub
from eyechart.models.encoders.transformers_kinds import HEADS, KINDS, PLAIN, ReadingKind
from eyechart.models.towers.checkpoints import LOAD_ERRORS, load_error, whole_weights
from eyechart.models.towers.device_options import DEVICE_OPTIONS
from eyechart.models.towers.preprocess import check_config, check_scaled, shorter_edge
from eyechart.models.towers.sentencepieces import exact_tokenizer
from eyechart.models.towers.small_files import broken_file
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.models.towers.torch_tools import number
from eyechart.types import ModelSpec

if TYPE_CHECKING:
    import torch

LIBRARIES = ("transformers", "torchvision", "tokenizers", "sentencepiece")
"""They make tokens and pixels."""
NO_LIMIT = 100_000
"""A tokenizer without a real limit reports an absurdly large one."""
DEFAULT_LENGTH = 512
PATCHES = "spatial_shapes"
"""What the processor of a model for images of any shape (NaFlex) gives beside the pixels."""


class TransformersFamily(hub.HubFamily):
    """Loads models through transformers' AutoModel and AutoProcessor."""

    own_options = MappingProxyType({"context_length": int, **DEVICE_OPTIONS})

    needs, extra, read_by = ("transformers", "torch"), "transformers", LIBRARIES

    def source(self, spec: ModelSpec) -> str:
        """Return ``pretrained`` if it is given, else the model's name."""
        return source_of(spec)

    def load(self, spec: ModelSpec) -> TransformersEncoder:
        """Load model and processor."""
        return TransformersEncoder(spec)


def source_of(spec: ModelSpec) -> str:
    """Return the folder or hub id: ``pretrained`` if it is given, else the model's name."""
    return spec.pretrained or spec.name


class ProcessorImages:
    """An image processor as the transform of one image; patches of any shape get their shape as a last row."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor
        self.edge = shorter_edge(processor.to_dict())

    def __call__(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the processor."""
        if self.edge:
            check_scaled(image, self.edge)
        batch = self.processor(images=image.convert("RGB"), return_tensors="np")
        pixels: NDArray[np.float32] = np.asarray(batch["pixel_values"][0], np.float32)
        if PATCHES in batch:
            shape = np.zeros((1, pixels.shape[1]), np.float32)
            shape[0, :2] = batch[PATCHES][0]
            pixels = np.concatenate([pixels, shape])
        return pixels


class TransformersEncoder(TorchEncoder):
    """A transformers dual encoder in evaluation mode.

    Args:
        spec: Which model.
        pair: The model, its processor and notes, if they are there already; else they are loaded.
    """

    family = "transformers"

    def __init__(self, spec: ModelSpec, pair: tuple[Any, Any, list[str]] | None = None) -> None:
        model, self.processor, unused = pair or load_pair(spec)
        kind = KINDS.get(model.config.model_type, ReadingKind())
        self.head = HEADS.get(type(model).__name__, PLAIN)
        self.tokenizer, notes = exact_tokenizer(
            self.processor.tokenizer, spec.options.get("cache_dir"), hub.revision_of(spec)
        )
        self.padding = kind.padding
        self.context = context_length(model.config, self.tokenizer, kind, spec.options.get("context_length"))
        self.lower = kind.lower and _keeps_case(self.tokenizer)
        self.accepted = _parameters(model)
        self._prepare = ProcessorImages(self.processor.image_processor)
        super().__init__(spec, model)
        vision = getattr(model.config, "vision_config", model.config)
        seeing = json.dumps(self.processor.image_processor.to_dict(), sort_keys=True, default=str)
        reading = {"padding": self.padding, "length": self.context, "lower": self.lower}
        self.card = self.make_card(
            transform=f"{seeing} | {reading}",
            image_size=getattr(vision, "image_size", None),
            context_length=self.context,
            notes=[*unused, *notes, *([kind.note] if kind.note else [])],
        )

    @property
    def sendable_transform(self) -> ProcessorImages:
        """Return the model's own image processor, without the model."""
        return self._prepare

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the model's own image processor."""
        return self._prepare(image)

    def image_inputs(self, pixels: torch.Tensor) -> Inputs:
        """Take prepared images apart: plain pixels, or patches with their mask and shape.

        Shapes are whole numbers whatever the precision.
        """
        import torch

        if pixels.dim() == 4:
            return {"pixel_values": pixels}
        shapes = pixels[:, -1, :2].round().long()
        places = torch.arange(pixels.shape[1] - 1, device=pixels.device)
        mask = (places[None] < shapes.prod(dim=1)[:, None]).long()
        return {"pixel_values": pixels[:, :-1], "pixel_attention_mask": mask, PATCHES: shapes}

    def image_features(self, model: Any, pixels: Inputs) -> torch.Tensor:
        """Run the image tower and its projection."""
        return self.head.image(model, pixels)

    def text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        """Run the text tower and its projection."""
        return self.head.text(model, inputs)

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - one tokenizer for all
        """Cut and pad as the architecture's authors did."""
        tokens = self.tokenizer(
            self.written(texts),
            padding=self.padding,
            truncation=True,
            max_length=self.context,
            return_tensors="pt",
        )
        return {name: value for name, value in tokens.items() if self.accepted is None or name in self.accepted}

    def written(self, texts: Sequence[str]) -> list[str]:
        """Write texts in lower case where the model was trained so."""
        return [text.lower() for text in texts] if self.lower else list(texts)

    def logit_scale(self, model: Any) -> float | None:
        """Return the scale; ALIGN divides by a temperature instead."""
        temperature = getattr(model, "temperature", None)
        return 1 / number(temperature) if temperature is not None else super().logit_scale(model)


def load_pair(spec: ModelSpec) -> tuple[Any, Any, list[str]]:
    """Load the model that the checkpoint was saved as, its processor, and notes of weights that are not used.

    Weights that are missing are an error.
    """
    import transformers

    source = hub.source_for_library(source_of(spec), spec)
    options = hub.loading(spec)
    try:
        with whole_weights(source) as notes:
            config = transformers.AutoConfig.from_pretrained(source, **options)
            saved_as = (getattr(config, "architectures", None) or [""])[0]
            loader = getattr(transformers, saved_as) if saved_as in HEADS else transformers.AutoModel
            # Whatever the weights were saved in: the precision that was asked for is set when they are all there.
            model = loader.from_pretrained(source, dtype="float32", **options)
            processor = transformers.AutoProcessor.from_pretrained(source, **options)
    except LOAD_ERRORS as error:
        raise _explain(source, error) from error
    check_pair(source, model, processor)
    check_config(processor.image_processor.to_dict(), _transform_file(source))
    return model, processor, notes


def context_length(config: Any, tokenizer: Any, kind: ReadingKind, wanted: Any = None) -> int:
    """Return how many tokens are read: the authors' length, but never more than the tower has positions for."""
    text = getattr(config, "text_config", None) or getattr(config, "qformer_config", None) or config
    positions = getattr(text, "max_position_embeddings", None)
    offset = kind.offset or (2 if "roberta" in getattr(text, "model_type", "") else 0)
    limits = [positions - offset if positions is not None else None]
    limits.append(wanted or kind.length or getattr(tokenizer, "model_max_length", None))
    known = [int(limit) for limit in limits if limit is not None and limit < NO_LIMIT]
    return min(known) if known else DEFAULT_LENGTH


def _explain(source: str, error: Exception) -> ModelError:
    if "trust_remote_code" in str(error):
        return ModelError(
            f"{source} brings its own code, which would run here with your rights.",
            advice="If you have read and trust it: --trust-remote-code, best with a pinned --revision.",
        )
    return broken_file(Path(source)) or load_error(f"transformers {source}", error)


def _transform_file(source: str) -> str:
    """Name the file that says how images are prepared; one of the hub has no other name than its model's."""
    names = ("preprocessor_config.json", "processor_config.json")
    return next((str(Path(source) / name) for name in names if (Path(source) / name).is_file()), source)


def check_pair(source: str, model: Any, processor: Any) -> None:
    """Refuse a model that is no dual encoder, and a processor that lacks a part."""
    if type(model).__name__ not in HEADS:
        for name in ("get_image_features", "get_text_features"):
            if not hasattr(model, name):
                raise ModelError(
                    f"{source} is a {type(model).__name__}, which has no {name}.",
                    advice="A dual encoder (CLIP, SigLIP, ...) is needed here.",
                )
    for part in ("image_processor", "tokenizer"):
        if getattr(processor, part, None) is None:
            raise ModelError(f"{source} has no {part.replace('_', ' ')}.", advice="Copy its config files too.")


def _keeps_case(tokenizer: Any) -> bool:
    return bool(tokenizer("A")["input_ids"] != tokenizer("a")["input_ids"])


def _parameters(model: Any) -> frozenset[str] | None:
    """Return the inputs that the text tower takes, or None if it takes any."""
    method = getattr(model, "get_text_features", None)
    if method is None or type(model).__name__ in HEADS:
        return frozenset({"input_ids", "attention_mask"})
    parameters = inspect.signature(method).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    return frozenset(parameters)
