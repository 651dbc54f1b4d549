"""``eyechart.load_model``: a named model as an encoder of images and texts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from eyechart.calls.settings import ARGUMENTS
from eyechart.config import make_config
from eyechart.datasets.objects.table import ObjectRow, ObjectRows, make_dataset
from eyechart.errors import UsageError
from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.manifest import read_manifest
from eyechart.metrics.vectors import Vectors, unit
from eyechart.models.registry import open_model
from eyechart.plan import Planner
from eyechart.plan_models import model_specs
from eyechart.store.vectors import EmbeddingStore, store_place
from eyechart.types import OBJECT, DatasetSpec, ModelCard, ModelSpec


class LoadedEncoder:
    """A named model: lists of images and texts to vectors, with the transform and the tokenizer that belong to it.

    Weights are read when they are first needed. It can be given to `eyechart.evaluate` in place of its name.
    """

    def __init__(self, spec: ModelSpec, *, store: bool, normalize: bool, batch_size: int, num_workers: int) -> None:
        self.spec = spec
        self.store = store
        self.normalize = normalize
        self._sizes: dict[str, Any] = {"batch_size": batch_size, "workers": num_workers}
        self._model = open_model(spec)

    @property
    def card(self) -> ModelCard:
        """Describe the model: dimensions, transform, precision, digest of the weights."""
        return self._model.card

    def encode_images(self, images: Iterable[Any]) -> Vectors:
        """Encode images of PIL, paths, arrays of bytes or encoded bytes to an array (n, dimensions) of float32."""
        # An array of three axes that ends in channels is one image, too.
        shape: tuple[int, ...] = getattr(images, "shape", ())
        alone = len(shape) == 3 and shape[2] in (3, 4)
        if alone or isinstance(images, str | Path | bytes) or not hasattr(images, "__iter__"):
            raise UsageError("encode_images takes a list.", advice="Write [image] for one image.")
        listed = list(images)
        if not listed:
            return self._nothing()
        rows = ObjectRows("images", lambda: (ObjectRow(image, None) for image in listed))
        dataset = make_dataset(DatasetSpec("images", OBJECT, ""), rows, "list", "")
        with ARGUMENTS.spoken(), self._behind_store() as model:
            return self._given(model.images(read_manifest(dataset)).vectors)

    def encode_texts(self, texts: Iterable[str], *, language: str = "en") -> Vectors:
        """Encode texts to an array (n, dimensions) of float32."""
        listed: list[Any] = [texts] if isinstance(texts, str) or not hasattr(texts, "__iter__") else list(texts)
        strange = [text for text in listed if not isinstance(text, str)]
        if strange:
            raise UsageError(f"encode_texts takes a list of texts, and {strange[0]!r:.60} is none.")
        if not listed:
            return self._nothing()
        with ARGUMENTS.spoken(), self._behind_store() as model:
            return self._given(model.texts(listed, language=language))

    def __repr__(self) -> str:
        return f"<{self.spec.label} ({self.spec.family}, {self.spec.precision})>"

    def _given(self, vectors: Vectors) -> Vectors:
        return unit(vectors) if self.normalize else vectors

    def _nothing(self) -> Vectors:
        return np.empty((0, self.card.embedding_dim or 0), np.float32)

    @contextmanager
    def _behind_store(self) -> Iterator[StoredEmbeddings]:
        """Put the store before the model, or one that is empty and soon gone."""
        if self.store:
            yield StoredEmbeddings(self._model, EmbeddingStore(store_place()), **self._sizes)
            return
        with tempfile.TemporaryDirectory(prefix="eyechart-vectors-") as folder:
            yield StoredEmbeddings(self._model, EmbeddingStore(folder), **self._sizes)


def load_model(
    name: str | Path,
    pretrained: str | Path | None = None,
    *,
    model_type: str | None = None,
    precision: Literal["auto", "fp32", "fp16", "bf16", "amp", "half"] = "auto",
    device: str = "auto",
    store: bool = False,
    normalize: bool = True,
    batch_size: int = 64,
    num_workers: int = 4,
    model_options: Mapping[str, Any] | None = None,
) -> LoadedEncoder:
    """Load a model by its name, as `evaluate` would.

    Args:
        name: As on the command line: ``ViT-B-32``, a folder, a hub id, ``python:module:factory``.
        pretrained: Its weights: a tag, a checkpoint, a folder or a hub id.
        model_type: Its family; by default found out.
        precision: ``auto`` is fp32.
        device: ``auto`` is a GPU if there is one.
        store: Whether vectors are taken from the embedding store and kept there.
        normalize: Whether vectors are scaled to unit length, so that their product is the cosine; else they are as the
            model gives them.
        batch_size: Images or texts per forward pass.
        num_workers: Threads that decode and prepare images.
        model_options: What single families take besides.

    Returns:
        An encoder with ``encode_images`` and ``encode_texts``.

    Raises:
        EyechartError: If there is no such model, or a library that it needs is missing.

    Example:
        ```python
        import eyechart

        model = eyechart.load_model("eyechart-tiny")
        model.encode_texts(["a photo of a cat"]).shape
        ```
    """
    with ARGUMENTS.spoken():
        config = make_config(
            {
                "model": [str(name)],
                "pretrained": [] if pretrained is None else [str(pretrained)],
                "model_type": model_type,
                "precision": precision,
                "device": device,
                "batch_size": batch_size,
                "num_workers": num_workers,
                "model_options": dict(model_options or {}),
            }
        )
        specs = model_specs(config)
        if len(specs) != 1:
            raise UsageError(f"{name} stands for {len(specs)} models.", advice="Load one of them at a time.")
        Planner().check(specs[0], "encoder")
    return LoadedEncoder(specs[0], store=store, normalize=normalize, batch_size=batch_size, num_workers=num_workers)
