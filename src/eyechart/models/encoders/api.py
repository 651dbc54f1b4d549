"""The ``api`` family: embeddings from an OpenAI-compatible server, texts and (in three dialects) images."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart import api
from eyechart.api.embeddings import ImageForm
from eyechart.errors import ModelError, UsageError, unknown_name
from eyechart.models.access import ServedFamily, ServedModel, address_of
from eyechart.models.family import check_options
from eyechart.types import ModelCard, ModelSpec, digest_json

FORMS: tuple[str, ...] = get_args(ImageForm)
MAX_EDGE = 1024
"""Images are scaled down to this before they are sent; no embedding model looks closer."""
REQUEST_SIZE = 32
"""Texts in one request, unless the access says otherwise: OpenAI takes 2048, many servers 32 to 128."""
Vectors = NDArray[np.float32]


class ApiFamily(ServedFamily):
    """Models behind an address: ``--model NAME --pretrained http://host/v1``, or the option ``api_base``.

    ``options``: api_base, image_form (how the server takes images), max_edge, dimension (refuse another one). How the
    server is reached, and how many texts go into a request, is the spec's access.
    """

    own_options = MappingProxyType({"api_base": str, "image_form": str, "max_edge": int, "dimension": int})

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing or wrong address, an unknown option or dialect; the server itself is asked on load."""
        super().check(spec)
        check_options(self, spec.family, spec.options)
        if spec.precision not in ("fp32", "amp"):
            raise UsageError(f"The server decides how it computes, not --precision {spec.precision}.")
        form = spec.options.get("image_form")
        if form is not None and form not in FORMS:
            raise unknown_name("image_form", str(form), FORMS)

    def identity(self, spec: ModelSpec) -> str:
        """Name the address and what is asked of it; the weights behind it cannot be seen."""
        return digest_json([address_of(spec), spec.name, _asked(spec), spec.options.get("dimension")])

    def load(self, spec: ModelSpec) -> ApiEncoder:
        """See that the server is there and serves the model; ask for a vector, unless its size was given."""
        return ApiEncoder(spec)


class ApiEncoder(ServedModel):
    """Asks a server for vectors: several requests at once, with retries."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.form = spec.options.get("image_form")
        self.max_edge = int(spec.options.get("max_edge", MAX_EDGE))
        self.request_size = spec.access.batch_size if spec.access is not None else REQUEST_SIZE
        self.client.check(spec.name)
        wanted = spec.options.get("dimension")
        self.dimension = int(wanted) if wanted else int(self._embed(["a"], None).shape[1])
        self.card = ModelCard(
            family="api",
            name=spec.name,
            weights_digest=digest_json([address_of(spec), spec.name, self.dimension]),
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
        return np.frombuffer(api.encode_image(image, max_edge=self.max_edge, format="png").data, np.uint8)

    def encode_images(self, batch: Sequence[NDArray[Any]]) -> Vectors:
        """Send images in the server's dialect."""
        if not len(batch) or self.form is None:
            return np.empty((0, self.dimension), np.float32)
        images = [api.EncodedImage("image/png", bytes(data)) for data in batch]
        return api.embed_images(self.client, self.spec.name, images, form=self.form, dimension=self.dimension)

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - the server's task
        """Send texts, many in one request."""
        return self._embed(texts, self.dimension) if len(texts) else np.empty((0, self.dimension), np.float32)

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Say nothing: a server cuts, or refuses, by itself."""
        return [False] * len(texts)

    def _embed(self, texts: Sequence[str], dimension: int | None) -> Vectors:
        return api.embed_texts(self.client, self.spec.name, texts, batch_size=self.request_size, dimension=dimension)


def _asked(spec: ModelSpec) -> dict[str, Any]:
    """Return the options that change what the server sees."""
    return {"image_form": spec.options.get("image_form"), "max_edge": spec.options.get("max_edge", MAX_EDGE)}
