"""The ``sentence-transformers`` family: CLIP-style models that see and read, and text models that only read."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, missing_extra
from eyechart.models import hub
from eyechart.models.encoders.transformers import NO_LIMIT, source_of
from eyechart.models.family import check_path, path_identity
from eyechart.models.towers.checkpoints import LOAD_ERRORS, load_error
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.models.towers.torch_tools import library_versions, quiet_transformers
from eyechart.types import ModelSpec

if TYPE_CHECKING:
    import torch

PROMPT = "prompt_length"
"""How many tokens the prompt has: some models leave them out of the mean."""


class SentenceTransformersFamily:
    """Loads models through sentence-transformers."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, folder or hub."""
        if find_spec("sentence_transformers") is None:
            raise missing_extra("sentence_transformers", "sentence-transformers")
        source = source_of(spec)
        check_path(source)
        if not Path(source).exists():
            hub.check(spec)

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the files of a local folder; a hub id may move, unless its revision is given."""
        source = source_of(spec)
        if not Path(source).exists() and not hub.is_pinned(spec):
            return None
        return f"{path_identity(source)} {library_versions('sentence-transformers', 'transformers', 'tokenizers')}"

    def load(self, spec: ModelSpec) -> SentenceTransformersEncoder:
        """Load the pipeline of modules."""
        return SentenceTransformersEncoder(spec)


class SentenceTransformersEncoder(TorchEncoder):
    """A SentenceTransformer: its own preprocessing, its default prompt, its modules in order."""

    family = "sentence-transformers"

    def __init__(self, spec: ModelSpec) -> None:
        model = _load(spec)
        self.pipeline = model
        self.sees = "image" in (getattr(model, "modalities", None) or ["text"])
        self.prompt = (model.prompts or {}).get(model.default_prompt_name or "")
        self.context = model.max_seq_length
        super().__init__(spec, model)
        self.card = self.make_card(
            transform=f"{_describe(model)} | prompt {self.prompt!r} | {self.context}",
            context_length=self.context if self.context and self.context < NO_LIMIT else None,
            notes=[] if self.sees else ["This model reads text only; it cannot see images."],
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Let the first module prepare the image."""
        if not self.sees:
            raise ModelError(
                f"{self.spec.label} reads text only.", advice="Use a CLIP-style model for tasks with images."
            )
        prepared = self.pipeline.preprocess([image.convert("RGB")])
        pixels: NDArray[np.float32] = np.asarray(prepared["pixel_values"][0].cpu().numpy(), np.float32)
        return pixels

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - one tokenizer for all
        """Let the first module prepare the texts, with the model's default prompt."""
        import torch

        prepared = self.pipeline.preprocess(list(texts), prompt=self.prompt)
        inputs = {name: value for name, value in prepared.items() if hasattr(value, "shape") and value.dim() > 0}
        if PROMPT in prepared:
            # A number for the whole batch; as a column it can be split between devices like everything else.
            inputs[PROMPT] = torch.full((len(texts),), int(prepared[PROMPT]))
        return inputs

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count tokens before the cut."""
        full = [f"{self.prompt or ''}{text}" for text in texts]
        return [len(row) for row in self.pipeline.tokenizer(full, truncation=False, verbose=False)["input_ids"]]

    def image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        """Run all modules on images."""
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


def _load(spec: ModelSpec) -> Any:
    from sentence_transformers import SentenceTransformer

    source = source_of(spec)
    if hub.name_of(spec) != hub.HUGGINGFACE:
        source = hub.download(source, spec)
    try:
        with quiet_transformers():
            return SentenceTransformer(
                source,
                device="cpu",
                revision=hub.revision_of(spec),
                cache_folder=spec.options.get("cache_dir"),
                trust_remote_code=bool(spec.options.get("trust_remote_code")),
            )
    except (*LOAD_ERRORS, ImportError, AttributeError) as error:
        raise load_error(f"sentence-transformers {source}", error) from error


def _describe(model: Any) -> str:
    """Write down the modules and their settings."""
    parts = []
    for module in model:
        settings: dict[str, Any] = getattr(module, "get_config_dict", dict)()
        processor = getattr(getattr(module, "processor", None), "image_processor", None)
        parts.append(f"{type(module).__name__} {settings} {processor.to_dict() if processor is not None else ''}")
    return " > ".join(parts)
