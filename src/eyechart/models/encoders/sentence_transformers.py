"""The ``sentence-transformers`` family: CLIP-style models that see and read, and text models that only read."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, UsageError, missing_extra
from eyechart.models import hub
from eyechart.models.encoders.sentence_parts import PROMPTS, load_pipeline, own_prompts, prompt_notes, prompt_of
from eyechart.models.encoders.transformers import LIBRARIES, NO_LIMIT, source_of
from eyechart.models.family import check_path
from eyechart.models.identity import content_identity
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.types import ModelSpec

if TYPE_CHECKING:
    import torch

PROMPT = "prompt_length"
"""How many tokens the prompt has: some models leave them out of the mean."""


class SentenceTransformersFamily:
    """Loads models through sentence-transformers.

    ``options``: pooling_mode (another pooling on the plain transformer), max_seq_length, model_kwargs, config_kwargs,
    hub, revision, trust_remote_code, and prompts: ``own`` puts the model's default prompt before every text, ``given``
    puts nothing there, because the texts come with their prompts.
    """

    own_options = MappingProxyType(
        {"pooling_mode": str, "max_seq_length": int, "model_kwargs": dict, "config_kwargs": dict, "prompts": str}
    )

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, folder or hub."""
        if find_spec("sentence_transformers") is None:
            raise missing_extra("sentence_transformers", "sentence-transformers")
        if spec.options.get("prompts", "own") not in PROMPTS:
            raise UsageError(f"Unknown prompts: {spec.options['prompts']!r}.", advice=f"Use {' or '.join(PROMPTS)}.")
        source = source_of(spec)
        check_path(source)
        if not Path(source).exists():
            hub.check(spec)

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the content of the folder, or of what is in the hub's cache."""
        return content_identity(hub.places_of(source_of(spec), spec), "sentence-transformers", *LIBRARIES)

    def load(self, spec: ModelSpec) -> SentenceTransformersEncoder:
        """Load the pipeline of modules."""
        return SentenceTransformersEncoder(spec)


class SentenceTransformersEncoder(TorchEncoder):
    """A SentenceTransformer: its own preprocessing, its modules in order."""

    family = "sentence-transformers"

    def __init__(self, spec: ModelSpec) -> None:
        model = load_pipeline(spec, source_of(spec))
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
            notes=[*prompt_notes(model, spec), *([] if self.sees else ["This model reads texts only."])],
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

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count tokens before the cut."""
        full = [self.prompt + text for text in texts]
        return [len(row) for row in self.tokenizer(full, truncation=False, verbose=False)["input_ids"]]

    def image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        """Run all modules on images."""
        self._need_eyes()
        vectors: torch.Tensor = model({"pixel_values": pixels, "modality": "image"})["sentence_embedding"]
        return vectors

    def text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        """Run all modules on texts."""
        fed = {**inputs, "modality": "text"}
        if PROMPT in fed:
            fed[PROMPT] = int(inputs[PROMPT][0])
        vectors: torch.Tensor = model(fed)["sentence_embedding"]
        return vectors

    def logit_scale(self, model: Any) -> float | None:
        """Return the scale of a CLIP inside."""
        return super().logit_scale(getattr(model[0], "auto_model", None))

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
