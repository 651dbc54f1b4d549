"""The ``sentence-transformers`` family: CLIP-style models that see and read, and text models that only read."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, UsageError
from eyechart.models import hub
from eyechart.models.encoders.sentence_parts import PROMPTS, load_pipeline, own_prompts, prompt_notes, prompt_of
from eyechart.models.encoders.transformers import LIBRARIES, NO_LIMIT, source_of
from eyechart.models.towers.device_options import DEVICE_OPTIONS
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.types import ModelSpec

if TYPE_CHECKING:
    import torch

PROMPT = "prompt_length"
"""How many tokens the prompt has: some models leave them out of the mean."""


class SentenceTransformersFamily(hub.HubFamily):
    """Loads models through sentence-transformers.

    ``options``: pooling_mode (another pooling on the plain transformer), max_seq_length, model_kwargs, config_kwargs,
    hub, revision, trust_remote_code, and prompts: ``own`` puts the model's default prompt before every text, ``given``
    puts nothing there, because the texts come with their prompts.
    """

    own_options = MappingProxyType(
        {
            "pooling_mode": str,
            "max_seq_length": int,
            "model_kwargs": dict,
            "config_kwargs": dict,
            "prompts": str,
            **DEVICE_OPTIONS,
        }
    )

    needs, extra = ("sentence_transformers",), "sentence-transformers"
    read_by = ("sentence-transformers", *LIBRARIES)

    def source(self, spec: ModelSpec) -> str:
        """Return ``pretrained`` if it is given, else the model's name."""
        return source_of(spec)

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, folder or hub, and prompts that nobody knows."""
        super().check(spec)
        if spec.options.get("prompts", "own") not in PROMPTS:
            raise UsageError(f"Unknown prompts: {spec.options['prompts']!r}.", advice=f"Use {' or '.join(PROMPTS)}.")

    def load(self, spec: ModelSpec) -> SentenceTransformersEncoder:
        """Load the pipeline of modules."""
        return SentenceTransformersEncoder(spec)


class SentenceTransformersEncoder(TorchEncoder):
    """A SentenceTransformer: its own preprocessing, its modules in order."""

    family = "sentence-transformers"

    def __init__(self, spec: ModelSpec) -> None:
        model, notes = load_pipeline(spec, source_of(spec))
        self.pipeline, self.tokenizer = model, model.tokenizer
        self.sees = "image" in (getattr(model, "modalities", None) or ["text"])
        self.prompt = prompt_of(model, spec)
        super().__init__(spec, model)
        length = model.max_seq_length
        self.card = self.make_card(
            transform=f"{_describe(model)} | prompt {self.prompt!r} | {length}",
            context_length=length if length and length < NO_LIMIT else None,
            similarity=model.similarity_fn_name,
            prompts=own_prompts(spec),
            notes=[*notes, *prompt_notes(model, spec), *self._kind_notes(model.similarity_fn_name)],
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Let the first module prepare the image."""
        self._need_eyes()
        prepared = self.pipeline.preprocess([image.convert("RGB")])
        pixels: NDArray[np.float32] = np.asarray(prepared["pixel_values"][0].cpu().numpy(), np.float32)
        return pixels

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - one tokenizer for all
        """Let the first module prepare the texts, with the prompt before each."""
        import torch

        prepared = self.pipeline.preprocess(list(texts), prompt=self.prompt or None)
        inputs = {name: value for name, value in prepared.items() if hasattr(value, "shape") and value.dim() > 0}
        if PROMPT in prepared:
            # A number for the whole batch; as a column it can be split between devices like everything else.
            inputs[PROMPT] = torch.full((len(texts),), int(prepared[PROMPT]))
        return inputs

    def written(self, texts: Sequence[str]) -> list[str]:
        """Put the prompt before every text."""
        return [self.prompt + text for text in texts]

    def image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        """Run all modules on images."""
        self._need_eyes()
        return model({"pixel_values": pixels, "modality": "image"})["sentence_embedding"]

    def text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        """Run all modules on texts."""
        fed = {**inputs, "modality": "text"}
        if PROMPT in fed:
            fed[PROMPT] = int(inputs[PROMPT][0])
        return model(fed)["sentence_embedding"]

    def logit_scale(self, model: Any) -> float | None:
        """Return the scale of a CLIP inside."""
        return super().logit_scale(getattr(model[0], "auto_model", None))

    def _kind_notes(self, similarity: str) -> list[str]:
        if not self.sees:
            return ["This model reads texts only."]
        if similarity == "cosine":
            return []
        return [f"This model compares vectors by {similarity}; with images, they are compared by cosine."]

    def _need_eyes(self) -> None:
        if not self.sees:
            raise ModelError(
                f"{self.spec.label} reads texts only; it cannot see images.",
                advice="Use a CLIP-style model for tasks with images.",
            )


def _describe(model: Any) -> str:
    """Write down the modules and their settings."""
    parts = []
    for module in model:
        settings: dict[str, Any] = getattr(module, "get_config_dict", dict)()
        processor = getattr(getattr(module, "processor", None), "image_processor", None)
        parts.append(f"{type(module).__name__} {settings} {processor.to_dict() if processor is not None else ''}")
    return " > ".join(parts)
