"""The models that are known by name on this machine, without importing their libraries."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from eyechart.demo import MODELS
from eyechart.models.resolve import open_clip_names

Row = tuple[str, str, str]


def known_models() -> Iterator[Row]:
    """Yield name, family and a word on each model; those of open_clip if it is installed."""
    yield from ((name, "onnx", "embedded: small, for trying things out") for name in MODELS)
    if find_spec("open_clip") is None:
        yield "ViT-B-32:openai", "open_clip", "and many more: pip install 'eyechart[open-clip]'"
        return
    from eyechart.models.encoders.open_clip_files import tags

    by_name = tags()
    for name in sorted(open_clip_names()):
        yield from ((f"{name}:{tag}", "open_clip", _source(source)) for tag, source in by_name.get(name, {}).items())
        if name not in by_name:
            yield name, "open_clip", "an architecture: give a checkpoint with --pretrained"


def _source(source: dict[str, str]) -> str:
    """Return where the weights come from."""
    return source.get("hf_hub", "").rstrip("/") or source.get("url", "").partition("?")[0]
