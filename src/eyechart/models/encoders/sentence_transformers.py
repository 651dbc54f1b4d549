"""The ``sentence-transformers`` family: text models, CLIP-style models, and multimodal LLMs that take messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, UsageError, unknown_name
from eyechart.messages import UserMessage
from eyechart.models import hub
from eyechart.models.encoders.late_interaction import LateInteractionEncoder, describe_modules, module_options
from eyechart.models.encoders.transformers import LIBRARIES, NO_LIMIT
from eyechart.models.family import MODULES, SENTENCE, read_saved
from eyechart.models.family import sees as folder_sees
from eyechart.models.hub import source_of
from eyechart.models.towers.checkpoints import POOLER, load_errors, whole_weights
from eyechart.models.towers.precision import DEVICE_OPTIONS
from eyechart.models.towers.sentencepieces import disagreements
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder, Vectors
from eyechart.models.towers.torch_tools import forward_pass
from eyechart.types import Input, ModelSpec

if TYPE_CHECKING:
    import torch


PROMPTS = ("own", "given")
DEFAULT_LENGTH = 512
PIXEL_LIMITS = {"min_pixels": "shortest_edge", "max_pixels": "longest_edge"}
"""Options, and their names in image processors that resize by area (Qwen2-VL and its successors)."""
MAX_BATCH = 8
"""Maximum images per forward pass of a model that takes images of any size: they wait as full-size RGB pixels."""
DOCUMENT = ("document", "passage")
"""Common names of the document prompt; the first non-empty one is used."""


def own_prompts(spec: ModelSpec) -> dict[str, str]:
    """Return the prompts saved with a model by role, if its files are on this machine."""
    saved = read_saved(hub.place_of(source_of(spec), spec), SENTENCE).get("prompts") or {}
    prompts = {str(role): text for role, text in saved.items() if isinstance(text, str)}
    document = next((prompts[name] for name in DOCUMENT if prompts.get(name)), "")
    return prompts | {"document": document} if document else prompts


def inputs_of(model: Any) -> tuple[Input, ...]:
    """Return what a SentenceTransformer encodes."""
    kinds: dict[Input, Any] = {"image": "image", "text": "text", "image+text": ("image", "text")}
    return tuple(name for name, kind in kinds.items() if model.supports(kind))


def load_pipeline(spec: ModelSpec, source: str) -> tuple[Any, list[str]]:
    """Load the modules with the requested context length; also return notes on the weights."""
    with load_errors(f"sentence-transformers {source}"), whole_weights(source, unused=POOLER) as notes:
        model = _load(spec, source)
    if any({"query", "document"} <= set(getattr(module, "sub_modules", ())) for module in model):
        raise ModelError(
            "{source} encodes queries and documents with different modules, which is not supported.",
            advice="Use a model with the same modules for both.",
            source=source,
        )
    other = disagreements(model.tokenizer, spec.options.get("cache_dir"), hub.revision_of(spec))
    if other:
        raise ModelError(
            "{source}: transformers tokenizes {first!r} differently from SentencePiece, which was used in training.",
            advice="The vocabulary does not match the class of the tokenizer.",
            source=source,
            first=other[0],
        )
    wanted = spec.options.get("max_seq_length")
    if not inputs_of(model):
        raise ModelError(
            "{source} encodes neither images nor texts ({modalities}).",
            advice="Use an encoder of images or texts.",
            source=source,
            modalities=", ".join(map(str, model.modalities)),
        )
    limits = {edge: spec.options[name] for name, edge in PIXEL_LIMITS.items() if name in spec.options}
    if limits:
        processor: Any = getattr(getattr(model[0], "processor", None), "image_processor", None)
        size = dict(getattr(processor, "size", None) or {})
        if not all(size.get(edge) for edge in PIXEL_LIMITS.values()):
            raise UsageError(
                "{label} has no limits of the number of pixels.",
                advice="Omit {names}.",
                label=spec.label,
                names=", ".join(PIXEL_LIMITS),
            )
        processor.size = {**size, **limits}
    if wanted or (model.max_seq_length is None and inputs_of(model) == ("text",)):
        config = getattr(model.transformers_model, "config", None)
        positions = getattr(config, "max_position_embeddings", None)
        length = int(wanted or DEFAULT_LENGTH)
        model.max_seq_length = min(length, positions) if positions else length
    return model, notes + _part_notes(spec, source, model)


def _part_notes(spec: ModelSpec, source: str, model: Any) -> list[str]:
    """Note modules dropped by another pooling, prompts in the mean, and a precision chosen by ``model_kwargs``."""
    notes: list[str] = []
    path = Path(hub.place_of(source, spec) or source) / MODULES
    if spec.options.get("pooling_mode") and path.is_file():
        kinds = [str(module["type"]).rpartition(".")[2] for module in json.loads(path.read_bytes())]
        out = [kind for kind in kinds if kind not in ("Transformer", "Pooling")]
        if out:
            notes.append(UserMessage("The changed pooling drops these modules: {out}.", out=", ".join(out)))
    types = {str(weight.dtype) for weight in model.parameters()} - {"torch.float32"}
    if types:
        listed = ", ".join(sorted(types))
        notes.append(UserMessage("The weights were loaded as {types}, as set by model_kwargs.", types=listed))
    leaves_out = any(not getattr(module, "include_prompt", True) for module in model)
    if spec.options.get("prompts") == "given" and leaves_out:
        notes.append("Prompts are part of the texts and enter the mean, but this model was trained to exclude them.")
    return notes


def _load(spec: ModelSpec, source: str) -> Any:
    """Load the modules as saved, or the transformer with another pooling; prompts and similarity are kept."""
    from sentence_transformers import SentenceTransformer

    options = module_options(spec)
    pooling = spec.options.get("pooling_mode")
    if not pooling:
        where = hub.loading(spec, cache="cache_folder")
        name = hub.source_for_library(source, spec)
        return SentenceTransformer(name, device="cpu", **options, **where)
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    trust = {"trust_remote_code": bool(spec.options.get("trust_remote_code"))}
    folder = hub.download(source, spec)
    transformer = Transformer(folder, processor_kwargs=trust, **{key: own | trust for key, own in options.items()})
    saved = read_saved(Path(folder), SENTENCE)
    return SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension(), str(pooling))],
        device="cpu",
        **{name: saved.get(name) for name in ("prompts", "default_prompt_name", "similarity_fn_name")},
    )


class SentenceTransformersEncoder(TorchEncoder):
    """A SentenceTransformer: its preprocessing, then its modules in order.

    A model that takes an image and a text as one input (as a message of its chat template, or as a tuple) preprocesses
    whole batches, with its prompt; a CLIP-style model prepares images one by one.
    """

    family = "sentence-transformers"

    def __init__(self, spec: ModelSpec) -> None:
        model, notes = load_pipeline(spec, source_of(spec))
        self.pipeline, self.tokenizer = model, model.tokenizer
        inputs = inputs_of(model)
        self.sees, self.reads, self.joint = (name in inputs for name in ("image", "text", "image+text"))
        if self.joint:
            self.max_batch = MAX_BATCH
        default = "" if spec.options.get("prompts") == "given" else model.default_prompt_name
        self.prefix = (model.prompts or {}).get(default or "") or ""
        super().__init__(spec, model)
        if not self.sees:
            notes.append("This model encodes texts only.")
        elif self.reads and model.similarity_fn_name != "cosine":
            notes.append(
                UserMessage(
                    "This model was trained with {similarity} similarity; images and texts are compared by cosine.",
                    similarity=model.similarity_fn_name,
                )
            )
        length = model.max_seq_length
        self.card = self.make_card(
            transform=f"{describe_modules(model)} | prompt {self.prefix!r} | {length} | {model.truncate_dim}",
            context_length=length if length and length < NO_LIMIT else None,
            similarity=model.similarity_fn_name,
            prompts=own_prompts(spec),
            notes=notes,
            inputs=inputs,
            prompting="message" if self.joint else "prefix",
        )

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Preprocess an image with the first module; keep the RGB pixels of one that is preprocessed with its batch."""
        if self.joint:
            return np.asarray(image.convert("RGB"))
        prepared = self.pipeline.preprocess([image.convert("RGB")])
        pixels: NDArray[np.float32] = np.asarray(prepared["pixel_values"][0].cpu().numpy(), np.float32)
        return pixels

    def encode_images(self, batch: Any, *, instruction: str = "") -> Vectors:
        """Encode images with an instruction, if the model takes one."""
        if not self.joint:
            return super().encode_images(batch)
        return self._encode([Image.fromarray(np.asarray(pixels)) for pixels in batch], instruction)

    def encode_texts(self, texts: Sequence[str], *, language: str = "en", instruction: str = "") -> Vectors:  # noqa: ARG002 - one tokenizer for all
        """Encode texts with an instruction, if the model takes one."""
        return self._encode(list(texts), instruction)

    def encode_joint(self, batch: Sequence[Any], texts: Sequence[str], *, instruction: str = "") -> Vectors:
        """Encode each image with its text as one input."""
        images = (Image.fromarray(np.asarray(pixels)) for pixels in batch)
        pairs = [{"image": image, "text": text} for image, text in zip(images, texts, strict=True)]
        return self._encode(pairs, instruction)

    def _encode(self, inputs: list[Any], instruction: str) -> Vectors:
        """Feed the library's whole preprocessing output to the modules."""
        if not inputs:
            return self.no_vectors()
        with forward_pass(self.precision, self.device):
            prepared = self._preprocess(inputs, instruction)
        return self._forward(self.model, "text", prepared)

    def _preprocess(self, inputs: list[Any], instruction: str = "", **options: Any) -> dict[str, Any]:
        return dict(self.pipeline.preprocess(inputs, prompt=instruction or self.prefix or None, **options))

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - one tokenizer for all
        """Preprocess texts with the first module, with the default prompt, as tensors with one row per text."""
        prepared = self._preprocess(list(texts))
        length = prepared.get("prompt_length")
        rows = {name: value for name, value in prepared.items() if hasattr(value, "dim") and value.dim()}
        return rows if length is None else {**rows, "prompt_length": rows["input_ids"].new_full((len(texts),), length)}

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text before truncation, with its chat template if there is one."""
        if not self.joint:
            return super().token_counts(texts)
        whole = self._preprocess(list(texts), processing_kwargs={"text": {"truncation": False}})
        counts: list[int] = whole["attention_mask"].sum(dim=1).tolist()
        return counts

    def _image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        return self._text_features(model, {"pixel_values": pixels, "modality": "image"})

    def _text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        """Run all modules on preprocessed inputs, and cut the vectors to the length that the model was saved with."""
        vectors: torch.Tensor = model(dict(inputs))["sentence_embedding"]
        return vectors[:, : self.pipeline.truncate_dim]

    def logit_scale(self, model: Any) -> float | None:
        """Return the logit scale of an inner CLIP."""
        return super().logit_scale(getattr(model[0], "auto_model", None))


class SentenceTransformersFamily(hub.DenseFamily):
    """Loads models through sentence-transformers.

    ``options``: pooling_mode (replaces the pooling of the plain transformer), max_seq_length, min_pixels, max_pixels,
    model_kwargs, config_kwargs, hub, revision, trust_remote_code, token_pooling (for models with several vectors per
    input: merge this many vectors of a document into one, on average), and prompts: ``own`` prepends the model's
    default prompt to every text, ``given`` prepends nothing because the texts contain their prompts.
    """

    own_options = MappingProxyType(
        {
            "pooling_mode": str,
            "max_seq_length": int,
            "model_kwargs": dict,
            "config_kwargs": dict,
            "prompts": str,
            **dict.fromkeys(PIXEL_LIMITS, int),
            "token_pooling": int,
            **DEVICE_OPTIONS,
        }
    )

    needs, extra = ("sentence_transformers",), "sentence-transformers"
    read_by = ("sentence-transformers", *LIBRARIES)
    model, late_interaction, pools = SentenceTransformersEncoder, LateInteractionEncoder, True

    def inputs(self, spec: ModelSpec) -> Sequence[Input] | None:
        """Return texts only if the folder has no image processor; loading the model tells the rest."""
        place = hub.place_of(self.source(spec), spec)
        return ("text",) if place is not None and place.is_dir() and not folder_sees(place) else None

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, folder or hub, and unknown prompts."""
        super().check(spec)
        if spec.options.get("prompts", "own") not in PROMPTS:
            raise unknown_name("prompts", str(spec.options["prompts"]), PROMPTS)
