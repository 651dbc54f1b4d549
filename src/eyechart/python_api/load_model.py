"""``eyechart.load_model``: load a model by name and encode images and texts with it."""

from collections.abc import Callable, Iterable, Mapping, Sized
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from eyechart.config import make_config
from eyechart.datasets.in_memory_rows import ObjectRow, ObjectRows, make_dataset
from eyechart.errors import UsageError, errors_on
from eyechart.inference.embeddings import CachedEncoder
from eyechart.manifest import Manifest, read_manifest
from eyechart.metrics.vectors import unit
from eyechart.models.registry import open_model
from eyechart.plan import Planner
from eyechart.plan_models import model_specs
from eyechart.python_api.arguments import ARGUMENTS
from eyechart.store.vector_store import EmbeddingStore, store_place
from eyechart.types import IN_MEMORY, DatasetSpec, EncodeOptions, ModelCard, ModelSpec


class LoadedEncoder:
    """A model loaded by name: encodes lists of images and texts with its own transform and tokenizer.

    A late-interaction model returns `eyechart.metrics.vectors.MultiVectors`: all vectors one after another.
    Weights are loaded on first use. `eyechart.evaluate` accepts it in place of its name.
    """

    def __init__(self, spec: ModelSpec, *, store: bool, normalize: bool, batch_size: int, num_workers: int) -> None:
        self.spec = spec
        self.store = store
        self.normalize = normalize
        self._options = EncodeOptions(batch_size, num_workers, half=False)
        self._model = open_model(spec)

    @property
    def card(self) -> ModelCard:
        """Description of the model: dimensions, transform, precision, digest of the weights."""
        return self._model.card

    def encode_images(self, images: Iterable[Any], *, prompt: str = "") -> Any:
        """Encode PIL images, paths, uint8 arrays or encoded bytes to a float32 array (n, dimensions)."""
        listed = self._listed(images)
        return self._encode(listed, lambda model: model.images(self._manifest(listed), prompt=prompt).vectors)

    def encode_joint(self, images: Iterable[Any], texts: Iterable[str], *, prompt: str = "") -> Any:
        """Encode pairs of an image and a text to one vector each, if the model takes both as one input."""
        listed, words = self._listed(images), list(texts)
        if len(listed) != len(words):
            raise UsageError(
                "encode_joint takes one text per image, not {n} for {images}.", n=len(words), images=len(listed)
            )
        return self._encode(listed, lambda model: model.joint(self._manifest(listed), words, prompt=prompt).vectors)

    def _listed(self, images: Iterable[Any]) -> list[Any]:
        # An array of three axes that ends in channels is a single image.
        shape: tuple[int, ...] = getattr(images, "shape", ())
        alone = len(shape) == 3 and shape[2] in (3, 4)
        if alone or isinstance(images, str | Path | bytes) or not hasattr(images, "__iter__"):
            raise UsageError("encode_images takes a list.", advice="Pass [image] for a single image.")
        return list(images)

    def _manifest(self, listed: list[Any]) -> Manifest:
        rows = ObjectRows("images", lambda: (ObjectRow(image, None) for image in listed))
        return read_manifest(make_dataset(DatasetSpec("images", IN_MEMORY, ""), rows, "list", ""))

    def encode_texts(self, texts: Iterable[str], *, language: str = "en", prompt: str = "") -> Any:
        """Encode texts to a float32 array (n, dimensions)."""
        listed: list[Any] = [texts] if isinstance(texts, str) or not hasattr(texts, "__iter__") else list(texts)
        strange = [text for text in listed if not isinstance(text, str)]
        if strange:
            raise UsageError("encode_texts takes a list of strings; {first!r:.60} is not a string.", first=strange[0])
        return self._encode(listed, lambda model: model.texts(listed, language=language, prompt=prompt))

    def __repr__(self) -> str:
        return f"<{self.spec.label} ({self.spec.family}, {self.spec.precision})>"

    def _encode(self, inputs: Sized, encode: Callable[[CachedEncoder], Any]) -> Any:
        """Encode with the vector store, or with a temporary one."""
        if not inputs:
            return np.empty((0, self.card.embedding_dim or 0), np.float32)
        place = nullcontext(store_place()) if self.store else TemporaryDirectory(prefix="eyechart-vectors-")
        with errors_on(ARGUMENTS), place as folder:
            vectors = encode(CachedEncoder(self._model, EmbeddingStore(folder), self._options))
            return unit(vectors) if self.normalize else vectors


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
    """Load a model by name, as `evaluate` does.

    Args:
        name: As on the command line: ``ViT-B-32``, a folder, a hub id, ``python:module:factory``.
        pretrained: Its weights: a tag, a checkpoint, a folder or a hub id.
        model_type: Its family; by default detected.
        precision: ``auto`` is fp32.
        device: ``auto`` is a GPU if there is one.
        store: Whether to read vectors from the embedding cache and store them there.
        normalize: Whether to L2-normalise the vectors, so that their dot product is the cosine similarity.
        batch_size: Images or texts per forward pass.
        num_workers: Threads that decode and transform images.
        model_options: Options specific to the model family.

    Returns:
        An encoder with ``encode_images`` and ``encode_texts``.

    Raises:
        EyechartError: If the model is unknown, or a required library is missing.

    Example:
        ```python
        import eyechart

        model = eyechart.load_model("eyechart-tiny")
        model.encode_texts(["a photo of a cat"]).shape
        ```
    """
    with errors_on(ARGUMENTS):
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
            raise UsageError("{name} names {n} models.", advice="Load one model at a time.", name=name, n=len(specs))
        Planner().check(specs[0], "encoder")
    return LoadedEncoder(specs[0], store=store, normalize=normalize, batch_size=batch_size, num_workers=num_workers)
