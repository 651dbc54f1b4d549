"""``clip_benchmark.models`` and ``model_collection``: torch models with transform and tokenizer; named lists."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from eyechart.errors import import_extra, unknown_name
from eyechart.models.encoders.ja_clip import JaClipEncoder, JaClipFamily
from eyechart.models.encoders.open_clip import OpenClipFamily, load_parts
from eyechart.models.family import open_clip_names
from eyechart.models.resolve import collection_names, expand_collection
from eyechart.types import ModelSpec

__all__ = [
    "MODEL_TYPES", "TYPE2FUNC", "get_model_collection_from_file", "load_clip", "load_japanese_clip", "load_open_clip",
    "model_collection",  # noqa: F822 - computed on first use
]  # fmt: skip

Parts = tuple[Any, Callable[[Any], Any], Callable[[list[str]], Any]]
"""A model with ``encode_image`` and ``encode_text``, the image transform, and the tokenizer."""


def load_clip(model_type: str, model_name: str, pretrained: str, cache_dir: str | None, device: Any = "cuda") -> Parts:
    """Load a model of a type; user-defined types are added to ``TYPE2FUNC``."""
    if model_type not in TYPE2FUNC:
        raise unknown_name("model type", model_type, TYPE2FUNC, advice="Add custom types to TYPE2FUNC.")
    load = TYPE2FUNC[model_type]
    return load(model_name=model_name, pretrained=pretrained, cache_dir=cache_dir, device=device)


def load_open_clip(
    model_name: str = "ViT-B-32-quickgelu",
    pretrained: str = "laion400m_e32",
    cache_dir: str | None = None,
    device: Any = "cpu",
) -> Parts:
    """Load an open_clip model. Weights are never unpickled as code, and the activation is the one of the weights."""
    spec = _spec("open_clip", model_name, pretrained, cache_dir)
    if model_name in open_clip_names() or model_name not in import_extra("open_clip", "open-clip").list_models():
        OpenClipFamily().check(spec)  # an architecture that the script added is known only to the library
    model, transform, tokenizer, notes = load_parts(spec)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return model.to(device), transform, tokenizer


def load_japanese_clip(
    pretrained: str, device: Any = "cpu", cache_dir: str | None = None, model_name: str = "ja_clip"
) -> Parts:
    """Load rinna's Japanese CLIP."""
    spec = _spec("ja_clip", model_name, pretrained, cache_dir)
    JaClipFamily().check(spec)
    encoder = JaClipEncoder(spec)
    model = encoder.model.to(device)
    model.encode_image = model.get_image_features
    model.encode_text = lambda inputs: model.get_text_features(**inputs)
    return model, encoder.transform, _JapaneseTokenizer(encoder)


def _spec(family: str, name: str, pretrained: str, cache_dir: str | None) -> ModelSpec:
    options = {"cache_dir": cache_dir} if cache_dir else {}
    return ModelSpec(family, name, pretrained or "", device="cpu", options=options)


class _JapaneseTokenizer:
    def __init__(self, encoder: JaClipEncoder) -> None:
        self.encoder = encoder

    def __call__(self, texts: Sequence[str]) -> _TextInputs:
        return _TextInputs(self.encoder.tokenize(texts, "ja"))

    def __len__(self) -> int:
        return len(self.encoder.tokenizer)


class _TextInputs(dict[str, Any]):
    """Tensors by name that move to a device together."""

    def to(self, device: Any) -> dict[str, Any]:
        return {name: tensor.to(device) for name, tensor in self.items()}


TYPE2FUNC: dict[str, Callable[..., Parts]] = {"open_clip": load_open_clip, "ja_clip": load_japanese_clip}
MODEL_TYPES = list(TYPE2FUNC)


def get_model_collection_from_file(path: str) -> list[list[str]]:
    """Read pairs of model and pretrained, one per line, separated by a comma."""
    return [line.strip().split(",") for line in Path(path).read_text(encoding="utf-8").splitlines()]


def __getattr__(name: str) -> Any:
    if name == "model_collection":  # lists all models of open_clip
        return globals().setdefault(name, {key: expand_collection(key) or [] for key in collection_names()})
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
