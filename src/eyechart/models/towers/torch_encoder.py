"""A torch dual encoder: what is the same in every family, once.

A family says how an image is prepared, how texts become tokens, and what its two towers are called. Devices,
precision, compilation, empty batches and running out of memory are dealt with here.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError
from eyechart.metrics.vectors import unit
from eyechart.models.towers.autotune import CpuAutotuner, count_rows, take
from eyechart.models.towers.cuda_feed import BatchTuning, CudaFeed
from eyechart.models.towers.device_options import EXACT, DeviceWays, channels_last
from eyechart.models.towers.fast_images import FastImages
from eyechart.models.towers.paired import PairedCheck, is_due, plain_model
from eyechart.models.towers.pixel_table import PixelTable, look_up_there
from eyechart.models.towers.structure import structure_digest, tokenizer_digest
from eyechart.models.towers.torch_tools import (
    autocast,
    cast,
    choose_devices,
    count_parameters,
    device_names,
    forward_errors,
    input_type,
    number,
    precision_notes,
    to_numpy,
    weights_digest,
)
from eyechart.types import ModelCard, ModelSpec, digest_json

if TYPE_CHECKING:
    import torch

Inputs = Mapping[str, Any]
"""Tensors by name."""
Vectors = NDArray[np.float32]
PROBE_TEXTS = ("a photo of a cat", "Upper Case, digits 0123456789 & marks: (.,;!?)", "ein Käfer", "一只猫", "😀", "")


COMPANY, COARSE = 1e-4, 1e-1
"""How far the unit vectors of one text may be apart by rounding, in float32 and in less."""
SIZES, HALF = 1e-5, 1e-2
"""How far those of one image may be apart in batches of two sizes, in float32 and in less, for a size to be chosen."""


class TorchEncoder(ABC):
    """A model on one device or several: the batch is split between its replicas."""

    family: str
    tokenizer: Any
    """Set by the family before it makes its card."""
    card: ModelCard
    """Set by the family at the end of its loading, with `make_card`."""
    pixels: PixelTable | FastImages | None = None
    """The image transform without the model, so that other processes can be sent it; set by families that have one."""
    sees = True
    """Whether it encodes images; a family of models that only read says so before it is loaded."""
    paired_check: PairedCheck | None = None
    """Compares the first images with plain float32, if another way was asked for and that is not known yet."""
    packed: Sequence[bool] = ()
    """Which towers have their weights laid out for this CPU."""

    def __init__(self, spec: ModelSpec, model: torch.nn.Module) -> None:
        import torch

        self.spec = spec
        self.precision = spec.precision
        self.ways = DeviceWays.of(spec.options)
        self.devices = choose_devices(spec.device)
        # Digested as loaded: the precision is a line of its own on the card.
        self._facts: dict[str, Any] = {
            "weights_digest": weights_digest(model),
            "parameters": count_parameters(model),
            "logit_scale": self.logit_scale(model),
            "logit_bias": self.logit_bias(model),
        }
        self._structure = structure_digest(model)
        self._plain = plain_model(model, spec, self.ways, self._facts["parameters"]) if self.sees else None
        self.model = cast(model, spec.precision).eval()
        if self.ways.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        self._replicas = [self.model.to(self.devices[0])]
        self._replicas += [copy.deepcopy(self.model).to(device) for device in self.devices[1:]]
        self._pool = ThreadPoolExecutor(len(self.devices)) if len(self.devices) > 1 else None
        self._autotuner: CpuAutotuner | None = None
        self.levels = self.pixels.levels if self.pixels else None
        self._levels: dict[str, torch.Tensor] = {}
        self._image: Callable[..., torch.Tensor] = self.ways.compiled(self.image_features)
        self._text: Callable[..., torch.Tensor] = self.ways.compiled(self.text_features)

    # What a family must say -----------------------------------------------------------------------------

    @abstractmethod
    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the model's own image transform."""

    @abstractmethod
    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:
        """Turn texts into the text tower's inputs, cut and padded as the model was trained."""

    @abstractmethod
    def image_features(self, model: Any, pixels: Any) -> torch.Tensor:
        """Run the image tower and its projection."""

    @abstractmethod
    def text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        """Run the text tower and its projection."""

    def written(self, texts: Sequence[str]) -> list[str]:
        """Write texts as the tokenizer gets them: a place for a prompt, or for lower case."""
        return list(texts)

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text before it is cut, marks included."""
        return [len(row) for row in self.tokenizer(self.written(texts), truncation=False, verbose=False)["input_ids"]]

    def image_inputs(self, pixels: torch.Tensor) -> Any:
        """Make the image tower's input of prepared images, before they are moved and cast."""
        return pixels

    def text_inputs(self, tokens: Inputs) -> Inputs:
        """Make the text tower's input of tokens, before they are moved: a place to cut off padding."""
        return tokens

    def logit_scale(self, model: Any) -> float | None:
        """Return the factor between cosine and logit."""
        scale = getattr(model, "logit_scale", None)
        return number(scale.exp()) if scale is not None else None

    def logit_bias(self, model: Any) -> float | None:
        """Return the summand of a sigmoid model's logit."""
        bias = getattr(model, "logit_bias", None)
        return number(bias) if bias is not None else None

    # What all families do alike -------------------------------------------------------------------------

    def encode_images(self, batch: NDArray[np.float32]) -> Vectors:
        """Encode prepared images."""
        return self._run("image", {"pixels": self._image_batch(batch)}) if len(batch) else self._nothing()

    @property
    def sendable_transform(self) -> Callable[[Any], NDArray[np.float32]]:
        """Return what `prepare_image` does to an RGB image, without the model where that is possible."""
        return self.pixels.prepare if self.pixels else self.prepare_image

    def image_device(self) -> CudaFeed | None:
        """Return the GPUs as a device that is fed ahead; None on a CPU, which computes at once."""
        if not all(name.startswith("cuda") for name in self.devices):
            return None
        pixels = self.pixels if self.levels is not None else None
        prepare = pixels.prepare_bytes if pixels else self.sendable_transform
        errors = partial(forward_errors, self.precision)
        tuning = BatchTuning((self.card.fingerprint, *device_names(self.devices)), SIZES if self._is_exact else HALF)
        return CudaFeed(self.devices, prepare, self._image_batch, self._image_vectors, errors, tuning)

    def _image_batch(self, batch: Any) -> Any:
        """Make the image tower's input of a batch, on the host."""
        import torch

        if len({np.shape(image) for image in batch}) > 1:
            raise ModelError(
                f"{self.spec.label} prepares images to different sizes, which it cannot encode together.",
                advice="Does its transform resize (do_resize)? Else use --batch_size 1.",
            )
        return self.image_inputs(torch.from_numpy(np.ascontiguousarray(batch)))

    def _image_vectors(self, number: int, pixels: Any) -> torch.Tensor:
        """Compute images that are on a device; the vectors stay there."""
        with self.ways.switched():
            return self._features(self._replicas[number], "image", self.devices[number], {"pixels": pixels})

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:
        """Encode texts."""
        if not len(texts):
            return self._nothing()
        return self._run("text", {"inputs": self.text_inputs(self.tokenize(list(texts), language))})

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find the texts with more tokens than the context holds."""
        limit = self.card.context_length
        if limit is None or not len(texts):
            return [False] * len(texts)
        return [count > limit for count in self.token_counts(list(texts))]

    def make_card(self, *, transform: str, context_length: int | None, **facts: Any) -> ModelCard:
        """Fill the card with what every torch model knows of itself."""
        notes = (
            *facts.pop("notes", ()),
            *precision_notes(self.precision, self.devices[0]),
            *self._company_notes(),
        )
        known = {
            "family": self.family,
            "name": self.spec.label,
            "transform": " | ".join(filter(None, [transform, self._token_digest(), self._structure, self.ways.text])),
            "precision": self.precision,
            "context_length": context_length,
            "embedding_dim": int(self.encode_texts(["a"]).shape[1]),
            "notes": notes,
        }
        card = ModelCard(**(known | self._facts | facts))
        if self._plain is not None and is_due(card):
            way = ", ".join(filter(None, [self.precision, self.ways.text]))
            plain = partial(self._in_plain_way, self._plain)
            self.paired_check = PairedCheck(card, f"{way} on {self.devices[0]}", lambda: plain().encode_images)
        self._plain = None
        return card

    def _in_plain_way(self, model: torch.nn.Module) -> TorchEncoder:
        """Return this encoder as it would be in float32 without any faster way, on its first device."""
        other = copy.copy(self)
        other.precision, other.ways, other.devices = "fp32", EXACT, self.devices[:1]
        other._replicas, other._pool, other._autotuner = [model.to(self.devices[0])], None, None
        other._image, other._text = other.image_features, other.text_features
        return other

    def _company_notes(self) -> list[str]:
        """Say so if a text's vector changes with the texts beside it: the tower looks at the padding."""
        together = unit(self.encode_texts(PROBE_TEXTS[:2]))[0]
        alone = unit(self.encode_texts(PROBE_TEXTS[:1]))[0]
        if np.abs(together - alone).max() <= (COMPANY if self._is_exact else COARSE):
            return []
        return ["The vector of a text depends on the texts that are encoded with it: its padding is read as text."]

    @property
    def _is_exact(self) -> bool:
        """Tell whether everything is computed in float32."""
        kinds = {str(weight.dtype) for weight in self.model.parameters()}
        return self.precision == "fp32" and not self.ways.tf32 and kinds == {"torch.float32"}

    def _token_digest(self) -> str:
        """Digest the tokenizer, and what becomes of a few texts: another vocabulary or cleaning is another model."""
        inputs = {name: value.tolist() for name, value in self.tokenize(PROBE_TEXTS, "en").items()}
        return f"tokens {digest_json([inputs, tokenizer_digest(self.tokenizer)])}"

    def _nothing(self) -> Vectors:
        return np.empty((0, self.card.embedding_dim or 0), np.float32)

    def _run(self, tower: str, inputs: Inputs) -> Vectors:
        """Run a tower on all devices, each with its share of the rows."""
        with self.ways.switched():
            return self._shared(tower, inputs)

    def _shared(self, tower: str, inputs: Inputs) -> Vectors:
        if self._pool is None:
            plain = tower == "text" or self.devices != ["cpu"] or self.ways.compile
            return self._forward(tower, 0, inputs) if plain else self._autotuned(inputs)
        n, rows = len(self.devices), count_rows(inputs)
        parts = [take(inputs, rows * i // n, rows * (i + 1) // n) for i in range(n)]
        jobs = [self._pool.submit(self._forward, tower, i, part) for i, part in enumerate(parts) if count_rows(part)]
        return np.concatenate([job.result() for job in jobs])

    def _autotuned(self, inputs: Inputs) -> Vectors:
        """Run the image tower on the CPU in the way that is fastest there."""
        if self._autotuner is None:
            way = [*self.packed, *filter(None, [self.ways.text])]
            key = [self._facts["weights_digest"], self.precision, type(self).__name__, *way]
            self._autotuner = CpuAutotuner(
                self._replicas[0], lambda model, part: self._forward_with(model, "image", "cpu", part), key
            )
        return self._autotuner.run(inputs)

    def _forward(self, tower: str, number: int, inputs: Inputs) -> Vectors:
        return self._forward_with(self._replicas[number], tower, self.devices[number], inputs)

    def _forward_with(self, model: torch.nn.Module, tower: str, device: str, inputs: Inputs) -> Vectors:
        with forward_errors(self.precision):
            return to_numpy(self._features(model, tower, device, inputs))

    def _features(self, model: torch.nn.Module, tower: str, device: str, inputs: Inputs) -> torch.Tensor:
        import torch

        features = {"image": self._image, "text": self._text}[tower]
        with torch.inference_mode(), autocast(self.precision, device), forward_errors(self.precision):
            placed = {name: self._place(value, device) for name, value in inputs.items()}
            if self.ways.channels_last and tower == "image":
                placed = channels_last(placed)
            vectors = features(model, *placed.values())
        if vectors.ndim != 2:
            raise ModelError(
                f"{self.spec.label} gives {vectors.ndim - 1} axes of numbers for one {tower}, not one vector.",
                advice="A dual encoder (CLIP, SigLIP, ...) is needed here.",
            )
        return vectors

    def _levels_on(self, device: str) -> torch.Tensor:
        """Return the table on a device. It is sent there once: a copy from ordinary memory waits for what runs."""
        import torch

        if device not in self._levels:
            self._levels[device] = torch.from_numpy(self.levels).to(device)
        return self._levels[device]

    def _place(self, value: Any, device: str) -> Any:
        """Move tensors to a device; only floating point ones change their type. Bytes of images are looked up there."""
        import torch

        if isinstance(value, Mapping):
            return {name: self._place(inner, device) for name, inner in value.items()}
        if value.dtype == torch.uint8 and self.levels is not None:
            value = look_up_there(value.to(device), self._levels_on(device))
        return value.to(device, input_type(self.precision)) if value.is_floating_point() else value.to(device)
