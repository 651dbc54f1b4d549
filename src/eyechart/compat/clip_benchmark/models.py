"""``clip_benchmark.models``: models as torch objects, with their transform and tokenizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from eyechart.errors import import_extra, unknown_name
from eyechart.models.encoders.ja_clip import JaClipEncoder, JaClipFamily
from eyechart.models.encoders.open_clip import OpenClipFamily, load_parts
from eyechart.models.resolve import open_clip_names
from eyechart.types import ModelSpec

__all__ = ["MODEL_TYPES", "TYPE2FUNC", "load_clip", "load_japanese_clip", "load_open_clip"]

Parts = tuple[Any, Callable[[Any], Any], Callable[[list[str]], Any]]
"""A model with ``encode_image`` and ``encode_text``, the transform of an image, and the tokenizer of texts."""


def load_clip(model_type: str, model_name: str, pretrained: str, cache_dir: str | None, device: Any = "cuda") -> Parts:
    """Load a model of a type; types of one's own are added to ``TYPE2FUNC``."""
    if model_type not in TYPE2FUNC:
        raise unknown_name("model type", model_type, TYPE2FUNC, advice="Those of your own go into TYPE2FUNC.")
    load = TYPE2FUNC[model_type]
    return load(model_name=model_name, pretrained=pretrained, cache_dir=cache_dir, device=device)


def load_open_clip(
    model_name: str = "ViT-B-32-quickgelu",
    pretrained: str = "laion400m_e32",
    cache_dir: str | None = None,
    device: Any = "cpu",
) -> Parts:
    """Load a model of open_clip. Weights are never unpickled as code, and activations are those of the weights."""
    spec = _spec("open_clip", model_name, pretrained, cache_dir)
    if model_name in open_clip_names() or model_name not in import_extra("open_clip", "open-clip").list_models():
        OpenClipFamily().check(spec)  # an architecture that the script has added itself is known to the library alone
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
    return _JapaneseModel(encoder.model.to(device)), encoder.transform, _JapaneseTokenizer(encoder)


def _spec(family: str, name: str, pretrained: str, cache_dir: str | None) -> ModelSpec:
    options = {"cache_dir": cache_dir} if cache_dir else {}
    return ModelSpec(family, name, pretrained or "", device="cpu", options=options)


class _JapaneseModel:
    """The library's model under the names of CLIP."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def eval(self) -> _JapaneseModel:
        self.model.eval()
        return self

    def encode_image(self, image: Any) -> Any:
        return self.model.get_image_features(image)

    def encode_text(self, inputs: Any) -> Any:
        return self.model.get_text_features(**inputs)


class _JapaneseTokenizer:
    def __init__(self, encoder: JaClipEncoder) -> None:
        self.encoder = encoder

    def __call__(self, texts: Sequence[str]) -> _TextInputs:
        return _TextInputs(self.encoder.tokenize(texts, "ja"))

    def __len__(self) -> int:
        return len(self.encoder.tokenizer)


class _TextInputs(dict[str, Any]):
    """Tensors by name that go to a device together."""

    def to(self, device: Any) -> dict[str, Any]:
        return {name: tensor.to(device) for name, tensor in self.items()}


TYPE2FUNC: dict[str, Callable[..., Parts]] = {"open_clip": load_open_clip, "ja_clip": load_japanese_clip}
MODEL_TYPES = list(TYPE2FUNC)
