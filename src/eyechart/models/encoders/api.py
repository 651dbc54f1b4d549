"""The ``api`` family: embeddings from an OpenAI-compatible server, texts and (in three dialects) images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.api import ApiClient, EncodedImage, Retry, embed_images, embed_texts, encode_image
from eyechart.api.embeddings import ImageForm
from eyechart.api.transport import check_api_base
from eyechart.errors import ModelError, UsageError, unknown_name
from eyechart.types import ModelCard, ModelSpec, digest_json

FORMS: tuple[str, ...] = get_args(ImageForm)
MAX_EDGE = 1024
"""Images are scaled down to this before they are sent; no embedding model looks closer."""
BATCH = 64
"""Texts in one request; OpenAI takes 2048, many servers 32 to 128."""
NUMBERS = {"concurrency": 8, "timeout": 120.0, "tries": 5, "batch": BATCH, "max_edge": MAX_EDGE}
OPTIONS = frozenset({"api_base", "image_form", "api_key", "api_key_variable", "dimension", *NUMBERS})
Vectors = NDArray[np.float32]


class ApiFamily:
    """Models behind an address: ``--model NAME --pretrained http://host/v1``, or the option ``api_base``."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing or wrong address, an unknown option or dialect; the server itself is asked on load."""
        check_api_base(base_of(spec))
        unknown = set(spec.options) - OPTIONS - {"cache_dir"}
        if unknown:
            raise unknown_name("option of an API model", min(unknown), OPTIONS)
        if spec.precision not in ("fp32", "amp"):
            raise UsageError(f"The server decides how it computes, not --precision {spec.precision}.")
        form = spec.options.get("image_form")
        if form is not None and form not in FORMS:
            raise unknown_name("image_form", str(form), FORMS)

    def identity(self, spec: ModelSpec) -> str:
        """Name the address and what is asked of it; the weights behind it cannot be seen."""
        return digest_json([base_of(spec), spec.name, _asked(spec)])

    def load(self, spec: ModelSpec) -> ApiEncoder:
        """See that the server is there, serves the model and answers."""
        return ApiEncoder(spec)


def base_of(spec: ModelSpec) -> str:
    """Return the server's address."""
    base = str(spec.options.get("api_base") or spec.pretrained)
    if not base:
        raise UsageError("An API model needs an address.", advice="Give it as --pretrained http://localhost:8000/v1")
    return base


class ApiEncoder:
    """Asks a server for vectors: several requests at once, with retries."""

    def __init__(self, spec: ModelSpec) -> None:
        numbers: dict[str, Any] = {name: spec.options.get(name, default) for name, default in NUMBERS.items()}
        self.model = spec.name
        self.form = spec.options.get("image_form")
        self.batch, self.max_edge = int(numbers["batch"]), int(numbers["max_edge"])
        self.client = ApiClient(
            base_of(spec),
            spec.options.get("api_key"),
            api_key_variable=spec.options.get("api_key_variable"),
            concurrency=int(numbers["concurrency"]),
            timeout=float(numbers["timeout"]),
            retry=Retry(tries=int(numbers["tries"])),
        )
        self.client.check(self.model)
        wanted = spec.options.get("dimension")
        self.dimension: int | None = int(wanted) if wanted else None
        self.dimension = int(self.encode_texts(["a"]).shape[1])
        self.card = ModelCard(
            family="api",
            name=spec.name,
            weights_digest=digest_json([self.client.api_base, spec.name, self.dimension]),
            transform=f"{_asked(spec)}",
            embedding_dim=self.dimension,
            notes=("The weights behind an API cannot be checked: the server may change them under the same name.",),
        )

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Encode an image losslessly for sending; its bytes are what a batch holds."""
        if self.form is None:
            raise ModelError(
                f"It is not known how {self.client.api_base} takes images.",
                advice=f"Say it with --model_option image_form={'|'.join(FORMS)}.",
            )
        return np.frombuffer(encode_image(image, max_edge=self.max_edge, format="png").data, np.uint8)

    def encode_images(self, batch: Sequence[NDArray[Any]]) -> Vectors:
        """Send images in the server's dialect."""
        if not len(batch) or self.form is None:
            return np.empty((0, self.dimension or 0), np.float32)
        images = [EncodedImage("image/png", bytes(data)) for data in batch]
        return embed_images(self.client, self.model, images, form=self.form, dimension=self.dimension)

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - the server's task
        """Send texts, many in one request."""
        if not len(texts):
            return np.empty((0, self.dimension or 0), np.float32)
        return embed_texts(self.client, self.model, texts, batch_size=self.batch, dimension=self.dimension)

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Say nothing: a server cuts, or refuses, by itself."""
        return [False] * len(texts)


def _asked(spec: ModelSpec) -> dict[str, Any]:
    """Return the options that change what the server sees."""
    return {name: spec.options.get(name, NUMBERS.get(name)) for name in ("image_form", "max_edge")}
