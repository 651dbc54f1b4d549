"""Small models that really look: they see the colours of the two halves of an image, some sharper than others.

They are models of one's own (``python:support.chart_models:encoder``), so that every result of the report's tests is
one that a task wrote. Their names are of eye charts, so that nobody takes the numbers for measurements.
"""

from __future__ import annotations

import hashlib

import numpy as np
from PIL import Image

from eyechart.errors import DataError
from eyechart.types import ModelCard

PALETTE = {
    "red": (205, 45, 45), "green": (45, 165, 65), "blue": (45, 85, 210), "yellow": (230, 205, 45),
    "purple": (140, 60, 175), "white": (240, 240, 240), "black": (25, 25, 25), "orange": (240, 140, 30),
}  # fmt: skip
WORDS = {name: name for name in PALETTE} | {
    "rosso": "red", "verde": "green", "blu": "blue", "giallo": "yellow", "viola": "purple", "bianco": "white",
    "nero": "black", "arancio": "orange",
    "赤": "red", "緑": "green", "青": "blue", "黄": "yellow", "紫": "purple", "白": "white", "黒": "black",
    "橙": "orange",
}  # fmt: skip
BLUR = {
    "Snellen-S": (0.30, 12_000_000, 160),
    "Snellen-B": (0.17, 86_000_000, 224),
    "Snellen-L": (0.09, 304_000_000, 224),
    "Landolt-B": (0.18, 88_000_000, 224),
    "Landolt-L": (0.10, 307_000_000, 336),
    "Tumbling-E": (0.60, 5_000_000, 128),
}
"""Name -> how badly it sees, its parameters and its image size."""
LONGEST = 120


def halves(image: Image.Image) -> np.ndarray:
    """Return the mean colours of the left and the right half, six numbers around 0."""
    small = image.convert("RGB").resize((2, 1), Image.Resampling.BOX)
    return np.asarray(small, np.float32).reshape(6) / 255 - 0.5


def colours_in(text: str) -> list[str]:
    """Return the colours that a text names, in its order."""
    words = text.lower().replace(",", " ").replace(".", " ").split()
    return [WORDS[word] for word in words if word in WORDS]


def colour_vector(names: list[str]) -> np.ndarray:
    """Return what an image of one or two colours looks like."""
    both = (names * 2)[:2] if names else []
    return np.array([PALETTE[name] for name in both], np.float32).reshape(-1) / 255 - 0.5


class ChartEncoder:
    """Encodes images and texts as the colours of two halves, more or less blurred."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.blur, parameters, size = BLUR[name]
        self.card = ModelCard(
            "python", name, f"chart {name}", "two halves", embedding_dim=6, image_size=size,
            context_length=LONGEST, parameters=parameters, logit_scale=20.0,
        )  # fmt: skip

    def prepare_image(self, image):
        return halves(image)

    def encode_images(self, batch):
        return np.stack([row + self._noise(row.tobytes(), self.blur) for row in batch])

    def encode_texts(self, texts, *, language="en"):
        blur = self.blur * (0.2 if language == "en" else 1.5)
        return np.stack([self._text(text, blur) for text in texts])

    def truncated(self, texts):
        return [len(text) > LONGEST for text in texts]

    def _text(self, text: str, blur: float) -> np.ndarray:
        names = colours_in(text)
        known = colour_vector(names) if names else self._noise(b"unknown" + text.encode(), 1.0)
        return known + self._noise(text.encode(), blur)

    def _noise(self, content: bytes, scale: float) -> np.ndarray:
        key = hashlib.blake2b(self.name.encode() + content, digest_size=8).digest()
        return scale * np.random.default_rng(int.from_bytes(key, "big")).standard_normal(6).astype(np.float32)


def encoder(model_name):
    """Make the encoder of a name: a factory for ``--model_type python:support.chart_models:encoder``."""
    return ChartEncoder(model_name)


class Examinee:
    """Reads the class and the number of an image off its pixel, and misses the numbers that it is told to miss."""

    def __init__(self, name, misses, blind) -> None:
        self.misses, self.blind = frozenset(misses), frozenset(blind)
        known = f"examinee {sorted(self.misses)} {sorted(self.blind)}"
        self.card = ModelCard("python", name, known, "one pixel", embedding_dim=2)

    def prepare_image(self, image):
        red, green, _ = image.convert("RGB").getpixel((0, 0))
        if green in self.blind:
            raise DataError("this model cannot see the image")
        return np.array([red >= 100, green], np.float32)

    def encode_images(self, batch):
        return np.stack([np.eye(2, dtype=np.float32)[int(red) ^ (int(green) in self.misses)] for red, green in batch])

    def encode_texts(self, texts):
        return np.stack([np.eye(2, dtype=np.float32)[int("one" in text)] for text in texts])


def examinee(model_name, spec):
    """Make a model that misses what ``--model_options`` says: ``misses`` and ``blind``, numbers of images."""
    return Examinee(model_name, spec.options.get("misses", ()), spec.options.get("blind", ()))


class SharpVLM:
    """Answers questions about colours and describes images: it names the two colours that it sees."""

    blur = 0.05

    def generate(self, message, dataset=None):
        path = next(part["value"] for part in message if part["type"] == "image")
        prompt = " ".join(part["value"] for part in message if part["type"] == "text")
        with Image.open(path) as image:
            seen = halves(image)
        noise = np.random.default_rng(int.from_bytes(hashlib.blake2b(seen.tobytes(), digest_size=8).digest(), "big"))
        left, right = (nearest(half) for half in (seen + self.blur * noise.standard_normal(6)).reshape(2, 3))
        for line in prompt.splitlines():
            letter, dot, option = line.partition(".")
            if dot and len(letter) == 1 and colours_in(option) == [left]:
                return f"The answer is {letter}."
        return f"{left} beside {right}"


class BlurredVLM(SharpVLM):
    """The same with worse eyes."""

    blur = 0.45


def nearest(colour: np.ndarray) -> str:
    """Name a colour."""
    return min(PALETTE, key=lambda name: float(((np.array(PALETTE[name]) / 255 - 0.5 - colour) ** 2).sum()))
