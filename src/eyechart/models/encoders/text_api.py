"""The ``text-api`` family: text embeddings from an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eyechart import api
from eyechart.api.transport import check_api_base
from eyechart.errors import UsageError
from eyechart.models.encoders.text import SeesNothing
from eyechart.types import ModelCard, ModelSpec, digest_json

REQUEST_SIZE = 32
"""Texts per request: hosted services refuse many more."""


class TextApiFamily:
    """Encoders by address and model name; ``options``: api_base, dimensions."""

    def __init__(self, client: api.ApiClient | None = None, request_size: int = REQUEST_SIZE) -> None:
        self.client, self.request_size = client, request_size

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing or bad address."""
        if not spec.options.get("api_base"):
            raise UsageError(f"The model {spec.name!r} has no api_base.", advice="Example: http://localhost:8000/v1")
        check_api_base(spec.options["api_base"])

    def identity(self, spec: ModelSpec) -> str:
        """Name address, model and size: all that is known of a model that others run."""
        return digest_json([spec.name, dict(spec.options)])

    def load(self, spec: ModelSpec) -> TextApiEncoder:
        """Make the encoder."""
        return TextApiEncoder(spec, self.client or api.ApiClient(spec.options["api_base"]), self.request_size)


class TextApiEncoder(SeesNothing):
    """Sends texts to the server, several requests at a time."""

    def __init__(self, spec: ModelSpec, client: api.ApiClient, request_size: int = REQUEST_SIZE) -> None:
        self.name, self.client, self.request_size = spec.name, client, request_size
        self.dimensions: int | None = spec.options.get("dimensions")
        self.card = ModelCard(
            family="text-api",
            name=spec.name,
            weights_digest=digest_json([client.api_base, spec.name]),
            transform=digest_json([self.dimensions]),
            precision="unknown",
            embedding_dim=self.dimensions,
        )

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> NDArray[np.float32]:  # noqa: ARG002
        """Embed texts in requests of ``request_size``."""
        return api.embed_texts(self.client, self.name, texts, batch_size=self.request_size, dimension=self.dimensions)

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Nobody tells: a server cuts long texts silently or refuses them."""
        return [False] * len(texts)
