"""Locate the files of an open_clip model without importing its library, which takes seconds."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eyechart.io.files import cache_root, write_cached
from eyechart.models import hub
from eyechart.models.family import OPEN_CLIP
from eyechart.models.towers.checkpoints import read_json
from eyechart.types import ModelSpec

HUB, FOLDER = "hf-hub:", "local-dir:"
DEFAULT_WEIGHTS = "open_clip_pytorch_model.bin"
"""Weights file of a repository that is given without a file name."""

Tags = dict[str, dict[str, dict[str, str]]]
"""``hf_hub`` or ``url`` by architecture and tag."""


def plain_name(name: str) -> str:
    """Return an architecture name as open_clip writes it: OpenAI's ViT-B/32 is ViT-B-32."""
    return name.replace("/", "-")


def folder_of(name: str) -> Path | None:
    """Return the folder that a name refers to: ``local-dir:folder`` or the folder itself; else None."""
    path = Path(name.removeprefix(FOLDER))
    return path if name.startswith(FOLDER) or path.is_dir() else None


def own_place(spec: ModelSpec) -> Path | None:
    """Return the path that the name refers to: a folder, or the file of an architecture."""
    folder = folder_of(spec.name)
    if folder is not None:
        return folder
    if spec.name.startswith(HUB):
        return hub.cached_place(spec.name.removeprefix(HUB), spec)
    if Path(spec.name).is_file():
        return Path(spec.name)
    library = find_spec("open_clip")
    if library is None or library.origin is None:
        return None
    path = Path(library.origin).parent / "model_configs" / f"{plain_name(spec.name)}.json"
    return path if path.is_file() else None


def architecture(spec: ModelSpec) -> dict[str, Any] | None:
    """Read an architecture that is available offline: built into the library, a file, or a saved folder."""
    own = own_place(spec)
    path = own / OPEN_CLIP if own is not None and own.is_dir() else own
    content = read_json(path) if path is not None and path.is_file() else {}
    return dict(content.get("model_cfg", content)) or registered(spec)


def registered(spec: ModelSpec) -> dict[str, Any] | None:
    """Return an architecture that was added to the library in this process without a file."""
    library = sys.modules.get("open_clip")
    if library is None or own_place(spec) is not None or spec.name.startswith(HUB):
        return None
    config: dict[str, Any] | None = library.get_model_config(plain_name(spec.name))
    return config


def tag_checkpoint(spec: ModelSpec) -> Path | None:
    """Return the checkpoint of a tag in the cache of the hub or of open_clip."""
    source = tags().get(plain_name(spec.name), {}).get(spec.pretrained.lower().replace("-", "_"), {})
    cache = spec.options.get("cache_dir")
    if source.get("hf_hub") and find_spec("huggingface_hub") is not None:
        repository, _, file = source["hf_hub"].rpartition("/")
        folder = hub.cached_folder(repository, cache)
        name = file or DEFAULT_WEIGHTS
        safe = "open_clip_model.safetensors" if name == DEFAULT_WEIGHTS else f"{Path(name).stem}.safetensors"
        names = [folder / one for one in (safe, name)] if folder else []
    else:
        names = [Path(cache or Path.home() / ".cache" / "clip") / Path(source.get("url", "")).name]
    return next((path for path in names if path.is_file()), None)


def tags() -> Tags:
    """Return open_clip's table of tags, cached per version of the library."""
    path = cache_root() / "open_clip" / f"tags-{version('open_clip_torch')}.json"
    try:
        known: Tags = json.loads(path.read_bytes())
        if all(isinstance(source, dict) for by_tag in known.values() for source in by_tag.values()):
            return known
    except (OSError, ValueError, AttributeError):
        pass  # missing or damaged: rebuilt below
    import open_clip

    found: Tags = {}
    for name, tag in open_clip.list_pretrained():
        source = open_clip.get_pretrained_cfg(name, tag)
        found.setdefault(name, {})[tag] = {key: source[key] for key in ("hf_hub", "url") if source.get(key)}
    write_cached(path, json.dumps(found).encode())
    return found
