"""Base class of torch dual encoders.

A family defines how images are prepared, how texts are tokenized, and how its two towers are called. Devices,
precision, compilation, empty batches and memory errors are handled here.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError
from eyechart.metrics.vectors import float_array
from eyechart.models.family import UNSTEADY_TEXTS, BaseEncoder, probe_images, probe_vectors
from eyechart.models.speedups.autotune import CpuAutotuner
from eyechart.models.speedups.open_clip_towers import strip_padding
from eyechart.models.speedups.transforms import look_up_there
from eyechart.models.towers import torch_tools
from eyechart.models.towers.precision import USUAL, ComputeOptions, PrecisionCheck, channels_last, is_due, plain_model
from eyechart.types import ModelCard, ModelSpec, digest_json

if TYPE_CHECKING:
    import torch

Inputs = Mapping[str, Any]
"""Tensors by name."""
Vectors = NDArray[np.float32]
PROBE_TEXTS = ("a photo of a cat", "Upper Case, digits 0123456789 & marks: (.,;!?)", "ein Käfer", "一只猫", "😀", "")


BATCH_TOLERANCE, COARSE_TOLERANCE = 1e-4, 1e-1
"""Tolerances for unit vectors of the same text, in float32 and in lower precision."""


class TorchEncoder(BaseEncoder, ABC):
    """A model on one device. Several GPUs are used by one process each (`eyechart.engine.workers`).

    A family sets ``card`` at the end of its loading, with `make_card`.
    """

    family: str
    tokenizer: Any
    """Set by the family before it makes its card."""
    pixels: Any = None
    """The image transform without the model, such as a `PixelTable`, which can be sent to other processes; set before
    loading by families that have one."""
    prefix = ""
    """Prompt before every text."""
    sees = True
    """Whether it encodes images; text-only families clear it before loading."""
    reads = True
    """Whether it encodes texts."""
    strips_padding = False
    """Whether the text tower ignores padding at the end, so that it is removed."""
    precision_check: PrecisionCheck | None = None
    """Compares the first images with plain float32, if inexact options are used and their effect is not known yet."""
    speedups: Sequence[str] = ()
    """Exact speed-ups of the image tower, part of the autotuner's cache key."""

    def __init__(self, spec: ModelSpec, model: torch.nn.Module) -> None:
        import torch

        self.spec = spec
        self.precision = spec.precision
        self.compute = ComputeOptions.of(spec.options)
        self.device = torch_tools.choose_device(spec.device)
        self.devices = [self.device]
        # Digested as loaded: the precision is a separate field of the card.
        bias = getattr(model, "logit_bias", None)
        self._facts: dict[str, Any] = {
            **torch_tools.model_facts(model),
            "logit_scale": self.logit_scale(model),
            "logit_bias": torch_tools.number(bias) if bias is not None else None,
        }
        self._structure = torch_tools.structure_digest(model)
        self._plain = plain_model(model, spec, self.compute, self._facts["parameters"]) if self.sees else None
        self.model = torch_tools.cast(model, spec.precision).eval()
        if self.compute.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.model = self.model.to(self.device)
        self._autotuner: CpuAutotuner | None = None
        self.levels = self.pixels.levels if self.pixels else None
        self._levels: torch.Tensor | None = None
        self._image: Callable[..., torch.Tensor] = self.compute.compiled(self._image_features)
        self._text: Callable[..., torch.Tensor] = self.compute.compiled(self._text_features)

    # Interface of a family ------------------------------------------------------------------------------

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the model's image transform: `pixels`, unless the family has another one."""
        prepared: NDArray[np.float32] = self.pixels.prepare(image)
        return prepared

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:
        """Convert texts to inputs of the text tower, truncated and padded as in training."""
        raise NotImplementedError

    @abstractmethod
    def _image_features(self, model: Any, pixels: Any) -> torch.Tensor:
        """Run the image tower and its projection."""

    def _text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        """Run the text tower and its projection."""
        raise NotImplementedError

    def written(self, texts: Sequence[str]) -> list[str]:
        """Return texts as the tokenizer receives them."""
        return [self.prefix + text for text in texts]

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text before truncation, special tokens included."""
        return [len(row) for row in self.tokenizer(self.written(texts), truncation=False, verbose=False)["input_ids"]]

    def image_inputs(self, pixels: torch.Tensor) -> Any:
        """Convert prepared images to inputs of the image tower, before they are moved and cast."""
        return pixels

    def logit_scale(self, model: Any) -> float | None:
        """Return the factor between cosine and logit."""
        scale = getattr(model, "logit_scale", None)
        return torch_tools.number(scale.exp()) if scale is not None else None

    # Common to all families -----------------------------------------------------------------------------

    @property
    def on_gpu(self) -> bool:
        """Whether the model runs on a device other than the CPU, so that loader workers may feed it."""
        return not self.device.startswith("cpu")

    @property
    def image_transform(self) -> Callable[[Any], NDArray[Any]]:
        """The transform of `prepare_image` for RGB images, without the model if possible.

        A GPU receives bytes, a quarter of the data, and normalises them with the same table.
        """
        if self.pixels is None:
            return self.prepare_image
        as_bytes = self.on_gpu and self.levels is not None
        transform: Callable[[Any], NDArray[Any]] = self.pixels.prepare_bytes if as_bytes else self.pixels.prepare
        return transform

    def encode_images(self, batch: Any) -> Vectors:
        """Encode prepared images: an array, a tensor or a list."""
        if not len(batch):
            return self.no_vectors()
        return self._run("image", self.image_inputs(torch_tools.stack_images(batch, self.spec.label)))

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:
        """Encode texts."""
        if not len(texts):
            return self.no_vectors()
        return self._run("text", self.text_inputs(self.tokenize(list(texts), language)))

    def text_inputs(self, tokens: Inputs) -> Inputs:
        """Remove padding that the text tower ignores."""
        return {name: strip_padding(value) for name, value in tokens.items()} if self.strips_padding else tokens

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find the texts that exceed the context length."""
        limit = self.card.context_length
        if limit is None or not len(texts):
            return super().truncated(texts)
        return [count > limit for count in self.token_counts(list(texts))]

    def make_card(self, *, transform: str, context_length: int | None, **facts: Any) -> ModelCard:
        """Create the card with the fields common to all torch models."""
        notes = [*facts.pop("notes", ()), *torch_tools.precision_notes(self.precision, self.device)]
        kinds = {str(weight.dtype) for weight in self.model.parameters()}
        exact = self.precision == "fp32" and not self.compute.tf32 and kinds == {"torch.float32"}
        tolerance = BATCH_TOLERANCE if exact else COARSE_TOLERANCE
        reading = ""
        if self.reads:
            together, steady = probe_vectors(self.encode_texts, PROBE_TEXTS[:2], tolerance)
            notes += [] if steady else [UNSTEADY_TEXTS]
            # The tokens of a few texts reveal a changed vocabulary or cleaning.
            tokens = {name: value.tolist() for name, value in self.tokenize(PROBE_TEXTS, "en").items()}
            reading = f"tokens {digest_json([tokens, torch_tools.tokenizer_digest(self.tokenizer)])}"
        else:
            together = probe_images(self, self.spec.label, tolerance)
            facts = {"inputs": ("image",), **facts}
        seeing = [transform, reading, self._structure, self.compute.text]
        known = {
            "family": self.family,
            "name": self.spec.label,
            "transform": " | ".join(filter(None, seeing)),
            "precision": self.precision,
            "context_length": context_length,
            "embedding_dim": int(together.shape[1]),
            "notes": tuple(notes),
        }
        card = ModelCard(**(known | self._facts | facts))
        if self._plain is not None and is_due(card):
            way = ", ".join(filter(None, [self.precision, self.compute.text]))
            plain = self._plain
            self.precision_check = PrecisionCheck(
                card, f"{way} on {self.device}", lambda: self._plain_encoder(plain).encode_images
            )
        self._plain = None
        return card

    def _plain_encoder(self, model: torch.nn.Module) -> TorchEncoder:
        """Return this encoder in float32 without compute options."""
        other = copy.copy(self)
        other.precision, other.compute = "fp32", USUAL
        other.model, other._autotuner = model.to(self.device), None
        other._image, other._text = other._image_features, other._text_features
        return other

    def _run(self, tower: str, inputs: Any) -> Vectors:
        """Run a tower; the image tower on a CPU with the autotuner."""
        if tower == "text" or self.device != "cpu" or self.compute.compile:
            return self._forward(self.model, tower, inputs)
        if self._autotuner is None:
            way = [*self.speedups, *filter(None, [self.compute.text])]
            key = [self._facts["weights_digest"], self.precision, type(self).__name__, *way]
            self._autotuner = CpuAutotuner(self.model, lambda model, part: self._forward(model, "image", part), key)
        return self._autotuner.run(inputs)

    def _forward(self, model: torch.nn.Module, tower: str, inputs: Any) -> Vectors:
        import torch

        features = self._image if tower == "image" else self._text
        with torch.inference_mode(), torch_tools.forward_pass(self.precision, self.device, tf32=self.compute.tf32):
            placed = self._place(inputs)
            if self.compute.channels_last and tower == "image":
                placed = channels_last(placed)
            vectors = float_array(features(model, placed))
        if vectors.ndim != 2:
            raise ModelError(
                "{label} returns an array with {ndim} axes per {tower}, not one vector.",
                advice="Use a model that returns one vector per input.",
                label=self.spec.label,
                ndim=vectors.ndim - 1,
                tower=tower,
            )
        return vectors

    def _place(self, value: Any) -> Any:
        """Move tensors to the device and cast floating-point ones; image bytes are normalised there.

        The copy does not block if the tensor is in page-locked memory; reading the vectors waits for it.
        """
        import torch

        if isinstance(value, Mapping):
            return {name: self._place(inner) for name, inner in value.items()}
        if not hasattr(value, "to"):
            return value  # a setting, such as the modality
        value = value.to(self.device, non_blocking=True)
        if value.dtype == torch.uint8 and self.levels is not None:
            if self._levels is None:
                self._levels = torch.from_numpy(self.levels).to(self.device)
            value = look_up_there(value, self._levels)
        return value.to(torch_tools.input_type(self.precision)) if value.is_floating_point() else value
