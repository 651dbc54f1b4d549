"""From what the user asked for to a list of models: pairs, collections, defaults, own models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from eyechart.errors import UsageError, missing_extra, nearest

PYTHON = "python:"
"""``python:module.path:factory`` is a model of one's own, as ``--model`` or as ``--model_type``."""

DEFAULTS = {
    "open_clip": ("ViT-B-32-quickgelu", "laion400m_e32"),
    "ja_clip": ("ViT-B-32-quickgelu", "rinna/japanese-clip-vit-b-16"),
    "onnx": ("eyechart-tiny", ""),
}
"""``--model`` and ``--pretrained`` where they are not given. CLIP_benchmark gives ja_clip open_clip's name, too."""

COLLECTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "openai": (
        ("ViT-B-32", "openai"),
        ("ViT-B-16", "openai"),
        ("ViT-L-14", "openai"),
        ("ViT-L-14-336", "openai"),
    ),
    "openclip_base": (
        ("ViT-B-32-quickgelu", "laion400m_e32"),
        ("ViT-B-32", "laion2b_e16"),
        ("ViT-B-32", "laion2b_s34b_b79k"),
        ("ViT-B-16", "laion400m_e32"),
        ("ViT-B-16-plus-240", "laion400m_e32"),
        ("ViT-L-14", "laion400m_e32"),
        ("ViT-L-14", "laion2b_s32b_b82k"),
        ("ViT-H-14", "laion2b_s32b_b79k"),
        ("ViT-g-14", "laion2b_s12b_b42k"),
    ),
    "openclip_multilingual": (
        ("xlm-roberta-base-ViT-B-32", "laion5b_s13b_b90k"),
        ("xlm-roberta-large-ViT-H-14", "frozen_laion5b_s13b_b90k"),
    ),
}
"""Architecture and tag, as CLIP_benchmark lists them."""

EVERYTHING = ("openclip_all", "openclip_full")
"""All that the installed open_clip knows; the second name is the one in CLIP_benchmark's documentation."""


def collection_names() -> list[str]:
    """List the collections."""
    return [*COLLECTIONS, *EVERYTHING]


def expand_collection(name: str) -> list[tuple[str, str]] | None:
    """Return the models of a collection, or None if there is no such collection."""
    if name in EVERYTHING:
        if find_spec("open_clip") is None:
            raise missing_extra("open_clip", "open_clip")
        import open_clip

        return list(open_clip.list_pretrained())
    return list(COLLECTIONS[name]) if name in COLLECTIONS else None


@dataclass(frozen=True, slots=True)
class Choice:
    """A model as it was asked for."""

    family: str
    name: str
    pretrained: str
    factory: str = ""
    """Where the family is ``python``: ``module.path:factory``."""


def choose_models(
    model_type: str, names: Sequence[str], pretrained: Sequence[str], entries: Iterable[str]
) -> list[Choice]:
    """Return the models of ``--pretrained_model``, or every pair of ``--model`` and ``--pretrained``, each once."""
    listed = [pair for entry in entries for pair in _pairs(entry)]
    return list(dict.fromkeys(_choices(model_type, listed or _product(model_type, names, pretrained))))


def _choices(model_type: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Choice]:
    for name, pretrained in pairs:
        for text in (name, model_type):
            if text.startswith(PYTHON):
                yield Choice("python", name, pretrained, factory=text.removeprefix(PYTHON))
                break
        else:
            yield Choice(model_type, name, pretrained)


def _product(model_type: str, names: Sequence[str], pretrained: Sequence[str]) -> Iterator[tuple[str, str]]:
    default_name, default_weights = DEFAULTS.get(model_type, ("", ""))
    if model_type.startswith(PYTHON):
        default_name = model_type
    if not default_name and not names:
        # A family without architectures: the weights are the model.
        names, pretrained = pretrained, [""]
    if not names and not default_name:
        raise UsageError(f"--model_type {model_type} needs a model.", advice="Name it with --model.")
    return product(names or [default_name], pretrained or [default_weights if not _is_own(names) else ""])


def _is_own(names: Sequence[str]) -> bool:
    return any(name.startswith(PYTHON) for name in names)


def _pairs(entry: str) -> list[tuple[str, str]]:
    """Read an entry of ``--pretrained_model``: a collection, or ``model,pretrained``."""
    collection = expand_collection(entry)
    if collection is not None:
        return collection
    name, comma, pretrained = entry.partition(",")
    if not comma:
        near = nearest(entry, collection_names())
        hint = f"Did you mean {' or '.join(near)}?" if near else "Write for example ViT-B-32,openai."
        raise UsageError(
            f"--pretrained_model: {entry!r} is not 'model,pretrained', a list file or a collection.", advice=hint
        )
    return [(name.strip(), pretrained.strip())]


FOLDERS = {
    "image.onnx": "onnx",
    "vision_model.onnx": "onnx",
    "modules.json": "sentence-transformers",
    "config.json": "transformers",
}
"""The file by which the folder of a family is recognised."""
PREFIXES = {PYTHON: "python", "hf-hub:": "open_clip", "local-dir:": "open_clip", "internvl_": "internvl"}


def recognise(name: str) -> str | None:
    """Guess the family of a model from its name or folder; None if it could be anything."""
    for prefix, family in PREFIXES.items():
        if name.startswith(prefix):
            return family
    if name == DEFAULTS["onnx"][0]:
        return "onnx"
    path = Path(name)
    if path.is_dir():
        return next((family for file, family in FOLDERS.items() if (path / file).is_file()), None)
    library = find_spec("open_clip")
    if library is not None and library.origin is not None:
        known = (Path(library.origin).parent / "model_configs").glob("*.json")
        return "open_clip" if name.replace("/", "-") in {config.stem for config in known} else None
    return None
