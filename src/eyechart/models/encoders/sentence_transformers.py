"""The ``sentence-transformers`` family: CLIP-style models for images and texts, and text-only models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, unknown_name
from eyechart.messages import UserMessage
from eyechart.models import hub
from eyechart.models.encoders.late_interaction import LateInteractionEncoder
from eyechart.models.encoders.transformers import LIBRARIES, NO_LIMIT
from eyechart.models.family import MODULES, SENTENCE
from eyechart.models.family import sees as folder_sees
from eyechart.models.hub import source_of
from eyechart.models.towers.checkpoints import load_errors, read_json, whole_weights
from eyechart.models.towers.precision import DEVICE_OPTIONS
from eyechart.models.towers.sentencepieces import disagreements
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.types import Input, ModelSpec

if TYPE_CHECKING:
    import torch


PROMPTS = ("own", "given")
DEFAULT_LENGTH = 512
PROMPT = "prompt_length"
"""Number of prompt tokens: some models exclude them from the mean."""
DOCUMENT = ("document", "passage")
"""Common names of the document prompt; the first non-empty one is used."""
POOLER = "pooler."
"""BERT's pooler. sentence-transformers pools tokens itself, and many models are saved without these weights."""


def own_prompts(spec: ModelSpec) -> dict[str, str]:
    """Return the prompts saved with a model by role, if its files are on this machine."""
    saved = _saved(hub.place_of(source_of(spec), spec)).get("prompts") or {}
    prompts = {str(role): text for role, text in saved.items() if isinstance(text, str)}
    document = next((prompts[name] for name in DOCUMENT if prompts.get(name)), "")
    return prompts | {"document": document} if document else prompts


def sees(model: Any) -> bool:
    """Whether a SentenceTransformer encodes images."""
    return "image" in (getattr(model, "modalities", None) or ["text"])


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
    if wanted or (model.max_seq_length is None and not sees(model)):
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

    options = dict(spec.options.get("model_kwargs") or {})
    dtype = options.pop("torch_dtype", None) or options.get("dtype")
    options["dtype"] = "float32" if dtype in (None, "auto") else dtype  # auto means float32 here
    config = dict(spec.options.get("config_kwargs") or {})
    pooling = spec.options.get("pooling_mode")
    if not pooling:
        where = hub.loading(spec, cache="cache_folder")
        name = hub.source_for_library(source, spec)
        return SentenceTransformer(name, device="cpu", model_kwargs=options, config_kwargs=config, **where)
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    trust = {"trust_remote_code": bool(spec.options.get("trust_remote_code"))}
    folder = hub.download(source, spec)
    transformer = Transformer(
        folder, processor_kwargs=trust, model_kwargs=options | trust, config_kwargs=config | trust
    )
    saved = _saved(Path(folder))
    return SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension(), str(pooling))],
        device="cpu",
        **{name: saved.get(name) for name in ("prompts", "default_prompt_name", "similarity_fn_name")},
    )


def _saved(folder: Path | None) -> dict[str, Any]:
    path = folder / SENTENCE if folder is not None else None
    return read_json(path) if path is not None and path.is_file() else {}


class SentenceTransformersEncoder(TorchEncoder):
    """A SentenceTransformer: its preprocessing, then its modules in order."""

    family = "sentence-transformers"

    def __init__(self, spec: ModelSpec) -> None:
        model, notes = load_pipeline(spec, source_of(spec))
        self.pipeline, self.tokenizer = model, model.tokenizer
        self.sees = sees(model)
        default = "" if spec.options.get("prompts") == "given" else model.default_prompt_name
        self.prefix = (model.prompts or {}).get(default or "") or ""
        super().__init__(spec, model)
        if not self.sees:
            notes.append("This model encodes texts only.")
        elif model.similarity_fn_name != "cosine":
            notes.append(
                UserMessage(
                    "This model was trained with {similarity} similarity; images and texts are compared by cosine.",
                    similarity=model.similarity_fn_name,
                )
            )
        parts = []
        for module in model:
            settings: dict[str, Any] = getattr(module, "get_config_dict", dict)()
            processor = getattr(getattr(module, "processor", None), "image_processor", None)
            parts.append(f"{type(module).__name__} {settings} {processor.to_dict() if processor is not None else ''}")
        length = model.max_seq_length
        self.card = self.make_card(
            transform=f"{' > '.join(parts)} | prompt {self.prefix!r} | {length}",
            context_length=length if length and length < NO_LIMIT else None,
            similarity=model.similarity_fn_name,
            prompts=own_prompts(spec),
            notes=notes,
            inputs=("image", "text") if self.sees else ("text",),
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Preprocess an image with the first module."""
        prepared = self.pipeline.preprocess([image.convert("RGB")])
        pixels: NDArray[np.float32] = np.asarray(prepared["pixel_values"][0].cpu().numpy(), np.float32)
        return pixels

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - one tokenizer for all
        """Preprocess texts with the first module, prepending the prompt."""
        import torch

        prepared = self.pipeline.preprocess(list(texts), prompt=self.prefix or None)
        inputs = {name: value for name, value in prepared.items() if hasattr(value, "shape") and value.dim() > 0}
        if PROMPT in prepared:
            # One number for the batch; as a column it can be split by rows like every other input.
            inputs[PROMPT] = torch.full((len(texts),), int(prepared[PROMPT]))
        return inputs

    def image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        """Run all modules on images."""
        return model({"pixel_values": pixels, "modality": "image"})["sentence_embedding"]

    def text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        """Run all modules on texts."""
        fed = {**inputs, "modality": "text"}
        if PROMPT in fed:
            fed[PROMPT] = int(inputs[PROMPT][0])
        return model(fed)["sentence_embedding"]

    def logit_scale(self, model: Any) -> float | None:
        """Return the logit scale of an inner CLIP."""
        return super().logit_scale(getattr(model[0], "auto_model", None))


class SentenceTransformersFamily(hub.DenseFamily):
    """Loads models through sentence-transformers.

    ``options``: pooling_mode (replaces the pooling of the plain transformer), max_seq_length, model_kwargs,
    config_kwargs, hub, revision, trust_remote_code, token_pooling (for models with several vectors per input: merge
    this many vectors of a document into one, on average), and prompts: ``own`` prepends the model's default prompt to
    every text, ``given`` prepends nothing because the texts contain their prompts.
    """

    own_options = MappingProxyType(
        {
            "pooling_mode": str,
            "max_seq_length": int,
            "model_kwargs": dict,
            "config_kwargs": dict,
            "prompts": str,
            "token_pooling": int,
            **DEVICE_OPTIONS,
        }
    )

    needs, extra = ("sentence_transformers",), "sentence-transformers"
    read_by = ("sentence-transformers", *LIBRARIES)
    model, late_interaction = SentenceTransformersEncoder, LateInteractionEncoder

    def inputs(self, spec: ModelSpec) -> Sequence[Input] | None:
        """Return texts only if the folder has no image processor; loading the model tells the rest."""
        place = hub.place_of(self.source(spec), spec)
        return ("text",) if place is not None and place.is_dir() and not folder_sees(place) else None

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, folder or hub, and unknown prompts."""
        super().check(spec)
        if spec.options.get("prompts", "own") not in PROMPTS:
            raise unknown_name("prompts", str(spec.options["prompts"]), PROMPTS)
