"""The ``text`` family: text encoders through sentence-transformers, with a choice of pooling for plain transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, missing_extra
from eyechart.models import hub
from eyechart.models.family import check_path, path_identity
from eyechart.models.towers.checkpoints import LOAD_ERRORS, load_error
from eyechart.models.towers.torch_tools import choose_device, count_parameters, input_type, weights_digest
from eyechart.types import ModelCard, ModelSpec, digest_json

Vectors = NDArray[np.float32]


class TextFamily:
    """Loads a folder or hub id.

    ``options``: pooling_mode, max_seq_length, model_kwargs, config_kwargs, hub, revision, trust_remote_code.
    """

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library or folder."""
        if find_spec("sentence_transformers") is None:
            raise missing_extra("sentence-transformers", "sentence-transformers")
        check_path(spec.name)
        if not Path(spec.name).exists():
            hub.check(spec)

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the files of a local folder; a hub id may move, unless its revision is given."""
        return path_identity(spec.name) if Path(spec.name).exists() or hub.is_pinned(spec) else None

    def load(self, spec: ModelSpec) -> TextEncoder:
        """Load model and tokenizer."""
        return TextEncoder(spec)


class SeesNothing:
    """What every text-only encoder says to an image."""

    card: ModelCard

    def prepare_image(self, image: Image.Image) -> NoReturn:  # noqa: ARG002 - the protocol's signature
        """Refuse."""
        raise ModelError(f"{self.card.name} reads texts only; it cannot see images.")

    def encode_images(self, batch: NDArray[np.float32]) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        raise ModelError(f"{self.card.name} reads texts only; it cannot see images.")


class TextEncoder(SeesNothing):
    """A sentence-transformers model in evaluation mode."""

    def __init__(self, spec: ModelSpec) -> None:
        self.device = choose_device(spec.device)
        self.pooling = spec.options.get("pooling_mode")
        try:
            self.model = _pooled(spec, self.device) if self.pooling else _as_saved(spec, self.device)
        except LOAD_ERRORS as error:
            raise load_error(f"sentence-transformers {spec.name}", error) from error
        self.model.eval()
        self.context = _context(self.model, spec.options.get("max_seq_length"))
        self.model.max_seq_length = self.context
        self.card = ModelCard(
            family="text",
            name=spec.name,
            weights_digest=weights_digest(self.model),
            transform=digest_json([self.context, self.pooling, [_describe(module) for module in self.model]]),
            precision=spec.precision,
            embedding_dim=self.model.get_embedding_dimension(),
            context_length=self.context,
            parameters=count_parameters(self.model),
        )

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - one tokenizer
        """Encode as `SentenceTransformer.encode` does, without prompts: those are part of the texts."""
        if not texts:
            return np.empty((0, self.card.embedding_dim or 0), np.float32)
        vectors = self.model.encode(
            list(texts), batch_size=len(texts), prompt="", show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors, np.float32)

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find the texts with more tokens than the context holds."""
        rows = self.model.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"] if texts else []
        return [len(row) > self.context for row in rows]


def own_prompts(spec: ModelSpec) -> dict[str, str]:
    """Return the prompts that a model's authors saved with it, by role, if its folder is on this machine."""
    path = Path(spec.name) / "config_sentence_transformers.json"
    if not path.is_file():
        return {}
    prompts = json.loads(path.read_text(encoding="utf-8")).get("prompts") or {}
    return {str(role): text for role, text in prompts.items() if isinstance(text, str)}


def _options(spec: ModelSpec) -> dict[str, Any]:
    return {
        "model_kwargs": {"dtype": input_type(spec.precision), **_renamed(spec.options.get("model_kwargs") or {})},
        "config_kwargs": dict(spec.options.get("config_kwargs") or {}),
    }


def _renamed(options: dict[str, Any]) -> dict[str, Any]:
    """Take ``torch_dtype`` by its present name; ``auto`` means ours."""
    out = {("dtype" if key == "torch_dtype" else key): value for key, value in options.items()}
    if out.get("dtype") == "auto":
        del out["dtype"]
    return out


def _as_saved(spec: ModelSpec, device: str) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(
        hub.source_for_library(spec.name, spec),
        device=device,
        revision=hub.revision_of(spec),
        trust_remote_code=bool(spec.options.get("trust_remote_code")),
        **_options(spec),
    )


def _pooled(spec: ModelSpec, device: str) -> Any:
    """Put another pooling on the transformer, whatever the folder says."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    options = _options(spec)
    trust = {"trust_remote_code": bool(spec.options.get("trust_remote_code"))}
    for part in ("model_kwargs", "config_kwargs"):
        options[part] |= trust
    transformer = Transformer(hub.download(spec.name, spec), processor_kwargs=trust, **options)
    pooling = Pooling(transformer.get_embedding_dimension(), str(spec.options["pooling_mode"]))
    return SentenceTransformer(modules=[transformer, pooling], device=device)


def _context(model: Any, wanted: int | None) -> int:
    """Return how many tokens are read: the model's own figure, or the wanted one if it has positions for it."""
    own = model.max_seq_length or 512
    if wanted is None:
        return int(own)
    config = getattr(model.transformers_model, "config", None)
    positions = getattr(config, "max_position_embeddings", None)
    return int(min(wanted, positions)) if positions else int(wanted)


def _describe(module: Any) -> str:
    config = module.get_config_dict() if hasattr(module, "get_config_dict") else {}
    return f"{type(module).__name__} {json.dumps(config, sort_keys=True, default=str)}"
