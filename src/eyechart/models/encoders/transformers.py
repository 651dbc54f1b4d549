"""The ``transformers`` family: dual and image encoders from a local folder, the Hugging Face hub or ModelScope.

`KINDS` and `HEADS` have one row per architecture that needs one. Other dual encoders use the settings of their
tokenizer and must have ``get_image_features`` and ``get_text_features``.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError
from eyechart.io.files import one_connection_attempt
from eyechart.models import hub
from eyechart.models.encoders.late_interaction import LateInteractionEncoder
from eyechart.models.family import CONFIG
from eyechart.models.towers.checkpoints import POOLER, broken_file, load_error, read_json, whole_weights
from eyechart.models.towers.precision import DEVICE_OPTIONS
from eyechart.models.towers.preprocess import check_config, check_scaled, shorter_edge
from eyechart.models.towers.sentencepieces import exact_tokenizer
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.models.towers.torch_tools import number
from eyechart.types import Input, ModelSpec

if TYPE_CHECKING:
    import torch


Tower = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class TextSettings:
    """Text settings of an architecture."""

    padding: bool | str = True
    """Pad to the longest text of a batch, or to full length if the text tower also attends to padding."""
    length: int | None = None
    """Context length used by the authors, if shorter than the number of positions."""
    lower: bool = False
    """Trained on lower-case texts: lower-case them if the tokenizer does not."""
    offset: int = 0
    """Positions that exist but cannot be used (RoBERTa counts from the padding index)."""
    note: str = ""


def features(output: Any) -> Any:
    """Return the projected vectors: transformers 5 wraps them in an output object, earlier versions do not."""
    return getattr(output, "pooler_output", output)


def _blip2_image(model: Any, inputs: Mapping[str, Any]) -> Any:
    """Average the unit vectors of the query tokens: one vector per image."""
    seen = model.vision_model(**inputs).last_hidden_state
    queries = model.qformer(
        query_embeds=model.query_tokens.expand(len(seen), -1, -1), encoder_hidden_states=seen
    ).last_hidden_state
    return _unit(model.vision_projection(queries.to(model.vision_projection.weight.dtype))).mean(dim=1)


def _blip2_text(model: Any, inputs: Mapping[str, Any]) -> Any:
    read = model.qformer(
        query_embeds=model.embeddings(input_ids=inputs["input_ids"]),
        query_length=0,
        attention_mask=inputs["attention_mask"],
    ).last_hidden_state
    return _unit(model.text_projection(read[:, 0].to(model.text_projection.weight.dtype)))


def _unit(vectors: Any) -> Any:
    import torch

    return torch.nn.functional.normalize(vectors, dim=-1)


CLASS_TOKEN = frozenset({"deit", "vit", "vit_msn"})
"""Image encoders whose authors use the class token; their pooler is a layer of one pretraining task, or missing."""
PROJECTED = "WithProjection"
TOWER_CLASSES = ("VisionModel", PROJECTED)
"""Suffixes of the classes of a dual encoder's image tower, which are loaded by name."""


def pooling_of(model: Any) -> str:
    """Return how an image encoder's output becomes one vector."""
    if type(model).__name__.endswith(PROJECTED):
        return "image_embeds"
    if model.config.model_type == "radio":
        return "summary"
    return "class token" if model.config.model_type in CLASS_TOKEN else "pooler_output, else the mean of all tokens"


def _pooled_image(model: Any, inputs: Mapping[str, Any]) -> Any:
    """Return the projected vector, the class token, the pooled output, or the mean of all tokens or places."""
    output = model(**inputs)
    if pooling_of(model) in ("image_embeds", "summary"):
        return output[pooling_of(model)]
    states = output.last_hidden_state
    if pooling_of(model) == "class token":
        return states[:, 0]
    if getattr(output, "pooler_output", None) is not None:
        return output.pooler_output.flatten(1)
    return states.mean(dim=1) if states.dim() == 3 else states.mean(dim=(2, 3))


PLAIN_HEADS: tuple[Tower, Tower] = (
    lambda model, inputs: features(model.get_image_features(**inputs)),
    lambda model, inputs: features(model.get_text_features(**inputs)),
)
HEADS: dict[str, tuple[Tower, Tower]] = {
    "BlipForImageTextRetrieval": (
        lambda model, inputs: _unit(model.vision_proj(model.vision_model(**inputs).last_hidden_state[:, 0])),
        lambda model, inputs: _unit(model.text_proj(model.text_encoder(**inputs).last_hidden_state[:, 0])),
    ),
    "Blip2ForImageTextRetrieval": (_blip2_image, _blip2_text),
}
"""Image and text towers of classes that are loaded by name: AutoModel loads others, without these projections."""

KINDS: dict[str, TextSettings] = {
    "align": TextSettings(padding="max_length", length=64),
    "altclip": TextSettings(length=77, offset=2),
    "blip": TextSettings(length=35),
    "blip-2": TextSettings(
        length=32,
        note="BLIP-2 scores an image by the best of its query vectors; here their mean represents the image.",
    ),
    "chinese_clip": TextSettings(length=52),
    "clip": TextSettings(),
    "clipseg": TextSettings(),
    "siglip": TextSettings(padding="max_length", length=64, lower=True),
    "siglip2": TextSettings(padding="max_length", length=64, lower=True),
}
"""By ``model_type`` of the config."""


LIBRARIES = ("transformers", "torchvision", "tokenizers", "sentencepiece")
"""Libraries that produce tokens and pixels."""
NO_LIMIT = 100_000
"""A tokenizer without a real limit reports an absurdly large one."""
DEFAULT_LENGTH = 512
PATCHES = "spatial_shapes"
"""Extra output of the processor of a model for images of any aspect ratio (NaFlex)."""


class ProcessorImages:
    """An image processor as the transform of one image; NaFlex patches get their grid shape as a last row."""

    levels = None
    """It returns floats, not bytes and a table."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor
        self.edge = shorter_edge(processor.to_dict())

    def prepare(self, image: Image.Image) -> NDArray[np.float32]:
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
    """A transformers encoder in evaluation mode; ``pair`` is model, processor and notes, if loaded already."""

    family = "transformers"

    def __init__(self, spec: ModelSpec, pair: tuple[Any, Any, list[str]] | None = None) -> None:
        model, self.processor, unused = pair or load_pair(spec)
        kind = KINDS.get(model.config.model_type, TextSettings())
        self.image_head, self.text_head = HEADS.get(type(model).__name__, PLAIN_HEADS)
        self.reads, self.context = self.processor.tokenizer is not None, None
        notes: list[str] = []
        reading: Any = pooling_of(model)
        if self.reads:
            self.tokenizer, notes = exact_tokenizer(
                self.processor.tokenizer, spec.options.get("cache_dir"), hub.revision_of(spec)
            )
            self.padding = kind.padding
            self.context = context_length(model.config, self.tokenizer, kind, spec.options.get("context_length"))
            keeps_case = self.tokenizer("A")["input_ids"] != self.tokenizer("a")["input_ids"]
            self.lower = kind.lower and keeps_case
            # Input names of the text tower; None if it accepts any.
            self.accepted: frozenset[str] | None = frozenset({"input_ids", "attention_mask"})
            if type(model).__name__ not in HEADS:
                parameters = inspect.signature(model.get_text_features).parameters
                takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
                self.accepted = None if takes_any else frozenset(parameters)
            reading = {"padding": self.padding, "length": self.context, "lower": self.lower}
        else:
            self.image_head = _pooled_image
        self.pixels = ProcessorImages(self.processor.image_processor)
        super().__init__(spec, model)
        vision = getattr(model.config, "vision_config", model.config)
        seeing = json.dumps(self.processor.image_processor.to_dict(), sort_keys=True, default=str)
        self.card = self.make_card(
            transform=f"{seeing} | {reading}",
            image_size=getattr(vision, "image_size", None),
            context_length=self.context,
            notes=[*unused, *notes, *([kind.note] if kind.note else [])],
        )

    def image_inputs(self, pixels: torch.Tensor) -> Inputs:
        """Build the inputs of the image tower: plain pixels, or patches with their mask and shape.

        Shapes are exact integers in every precision.
        """
        import torch

        if pixels.dim() == 4:
            return {"pixel_values": pixels}
        shapes = pixels[:, -1, :2].round().long()
        places = torch.arange(pixels.shape[1] - 1, device=pixels.device)
        mask = (places[None] < shapes.prod(dim=1)[:, None]).long()
        return {"pixel_values": pixels[:, :-1], "pixel_attention_mask": mask, PATCHES: shapes}

    def _image_features(self, model: Any, pixels: Inputs) -> torch.Tensor:
        return self.image_head(model, pixels)

    def _text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        return self.text_head(model, inputs)

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - one tokenizer for all
        """Tokenize with the truncation and padding of the original authors."""
        tokens = self.tokenizer(
            self.written(texts),
            padding=self.padding,
            truncation=True,
            max_length=self.context,
            return_tensors="pt",
        )
        return {name: value for name, value in tokens.items() if self.accepted is None or name in self.accepted}

    def written(self, texts: Sequence[str]) -> list[str]:
        """Lower-case texts for models trained that way."""
        return [text.lower() for text in texts] if self.lower else list(texts)

    def logit_scale(self, model: Any) -> float | None:
        """Return the logit scale; ALIGN divides by a temperature instead."""
        temperature = getattr(model, "temperature", None)
        return 1 / number(temperature) if temperature is not None else super().logit_scale(model)


class TransformersFamily(hub.DenseFamily):
    """Loads models through transformers' AutoModel and AutoProcessor."""

    own_options = MappingProxyType({"context_length": int, "token_pooling": int, **DEVICE_OPTIONS})
    needs, extra, read_by = ("transformers", "torch"), "transformers", LIBRARIES
    model, late_interaction = TransformersEncoder, LateInteractionEncoder

    def inputs(self, spec: ModelSpec) -> Sequence[Input] | None:
        """Return images only if the files have neither a text tower nor a tokenizer."""
        place = hub.place_of(self.source(spec), spec)
        if place is None or not (place / CONFIG).is_file():
            return None
        reads = read_json(place / CONFIG).keys() & {"text_config", "qformer_config"} or any(place.glob("*token*"))
        return ("image", "text") if reads else ("image",)


def load_pair(spec: ModelSpec) -> tuple[Any, Any, list[str]]:
    """Load the model as the class it was saved as, its processor, and notes on unused weights.

    Missing weights are an error.
    """
    import transformers

    source = hub.source_for_library(hub.source_of(spec), spec)
    options = hub.loading(spec)
    try:
        with one_connection_attempt():
            config = transformers.AutoConfig.from_pretrained(source, **options)
        with whole_weights(source, unused=POOLER if config.model_type in CLASS_TOKEN else "") as notes:
            saved_as = (getattr(config, "architectures", None) or [""])[0]
            by_name = saved_as in HEADS or (saved_as.endswith(TOWER_CLASSES) and hasattr(transformers, saved_as))
            loader = getattr(transformers, saved_as) if by_name else transformers.AutoModel
            # Load in float32 regardless of the saved dtype; the requested precision is set afterwards.
            model = loader.from_pretrained(source, dtype="float32", **options)
            alone = model.main_input_name == "pixel_values" and not hasattr(model, "get_text_features")
            alone = alone and type(model).__name__ not in HEADS
            processor = (transformers.AutoImageProcessor if alone else transformers.AutoProcessor).from_pretrained(
                source, **options
            )
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise ModelError(
                "{path} contains custom code, which would run with your permissions.",
                advice="If you have reviewed and trust it, pass {--trust_remote_code}, ideally with a pinned "
                "{--revision}.",
                path=source,
            ) from error
        raise (broken_file(Path(source)) or load_error(f"transformers {source}", error)) from error
    if alone:
        processor = SimpleNamespace(image_processor=processor, tokenizer=None)
    else:
        check_pair(source, model, processor)
    files = (Path(source, name) for name in ("preprocessor_config.json", "processor_config.json"))
    check_config(processor.image_processor.to_dict(), next((str(file) for file in files if file.is_file()), source))
    return model, processor, notes


def context_length(config: Any, tokenizer: Any, kind: TextSettings, wanted: Any = None) -> int:
    """Return the context length: that of the authors, limited to the number of positions."""
    text = getattr(config, "text_config", None) or getattr(config, "qformer_config", None) or config
    positions = getattr(text, "max_position_embeddings", None)
    offset = kind.offset or (2 if "roberta" in getattr(text, "model_type", "") else 0)
    limits = [positions - offset if positions is not None else None]
    limits.append(wanted or kind.length or getattr(tokenizer, "model_max_length", None))
    known = [int(limit) for limit in limits if limit is not None and limit < NO_LIMIT]
    return min(known) if known else DEFAULT_LENGTH


def check_pair(source: str, model: Any, processor: Any) -> None:
    """Refuse a model that is not a dual encoder, and a processor that lacks a part."""
    if type(model).__name__ not in HEADS:
        for name in ("get_image_features", "get_text_features"):
            if not hasattr(model, name):
                raise ModelError(
                    "{path} is a {kind}, which has no {name}.",
                    advice="Use a dual encoder (CLIP, SigLIP, ...).",
                    path=source,
                    kind=type(model).__name__,
                    name=name,
                )
    for part in ("image_processor", "tokenizer"):
        if getattr(processor, part, None) is None:
            raise ModelError(
                "{source} has no {part}.",
                advice="Copy its config files as well.",
                source=source,
                part=part.replace("_", " "),
            )
