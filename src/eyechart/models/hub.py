"""Models on a hub: Hugging Face or ModelScope, at a pinned revision if one is given."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eyechart.errors import (
    ModelError,
    UsageError,
    first_line,
    is_unreachable,
    missing_extra,
    unknown_name,
    unreachable,
)
from eyechart.io.hub_cache import cached_snapshot
from eyechart.models.family import check_path
from eyechart.models.identity import OTHER_FORMATS, content_identity
from eyechart.types import ModelSpec

HUGGINGFACE, MODELSCOPE = "huggingface", "modelscope"
HUBS = (HUGGINGFACE, MODELSCOPE)
_CODE = re.compile(rb'"([\w.-]+/[\w.-]+)--[\w.]+"')
"""How a config names a class in another repository: ``org/name--module.Class``."""


class HubFamily:
    """What the families have in common whose library loads a folder, or a name of a hub."""

    needs: tuple[str, ...]
    """The modules that it imports."""
    extra: str
    """What installs them."""
    read_by: tuple[str, ...]
    """Packages whose transforms or tokenizers are part of the model."""

    def source(self, spec: ModelSpec) -> str:
        """Return the folder or hub id."""
        return spec.name

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, folder or hub."""
        missing = [name for name in self.needs if find_spec(name) is None]
        if missing:
            raise missing_extra(missing[0], self.extra)
        check_path(self.source(spec))
        if not Path(self.source(spec)).exists():
            check(spec)

    def places(self, spec: ModelSpec) -> list[Path | None]:
        """Return where the model is on this machine; None for what is not here."""
        return places_of(self.source(spec), spec)

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the content of the folder, or of what is in the hub's cache."""
        return content_identity(self.places(spec), *self.read_by)


def name_of(spec: ModelSpec) -> str:
    """Return which hub the model comes from."""
    name = str(spec.options.get("hub") or HUGGINGFACE)
    if name not in HUBS:
        raise unknown_name("hub", name, HUBS)
    return name


def revision_of(spec: ModelSpec) -> str | None:
    """Return the revision that the user asked for."""
    revision = spec.options.get("revision")
    if revision is not None and not isinstance(revision, str):
        raise UsageError(f"The revision must be a text, not {revision!r}.")
    return revision or None


def loading(spec: ModelSpec, cache: str = "cache_dir") -> dict[str, Any]:
    """Return what a library is told besides the name: revision, cache (as it calls that), whether code may be run."""
    return {
        "revision": revision_of(spec),
        cache: spec.options.get("cache_dir"),
        "trust_remote_code": bool(spec.options.get("trust_remote_code")),
    }


def check(spec: ModelSpec) -> None:
    """Refuse an unknown hub, or one whose client is not installed."""
    library = {HUGGINGFACE: "huggingface_hub", MODELSCOPE: "modelscope_hub"}[name_of(spec)]
    if find_spec(library) is None:
        raise missing_extra(library, "hub")


def place_of(name: str, spec: ModelSpec) -> Path | None:
    """Return where a model is on this machine: its path, or its folder in the hub's cache; None if it is not here."""
    return Path(name) if Path(name).exists() else cached_place(name, spec)


def places_of(name: str, spec: ModelSpec) -> list[Path | None]:
    """Return where a model is, and where the code is that its configs take from other repositories."""
    place = place_of(name, spec)
    if place is None or not place.is_dir() or not spec.options.get("trust_remote_code"):
        return [place]
    others = {found.decode() for file in place.glob("*.json") for found in _CODE.findall(file.read_bytes())}
    return [place, *(cached_folder(repository, spec.options.get("cache_dir")) for repository in sorted(others))]


def cached_place(name: str, spec: ModelSpec) -> Path | None:
    """Return the folder of a model in the cache of its hub, without asking the hub."""
    if name_of(spec) == MODELSCOPE:
        return _in_modelscope_cache(name, spec)
    return cached_folder(name, spec.options.get("cache_dir"), revision_of(spec))


def source_for_library(name: str, spec: ModelSpec) -> str:
    """Return what a library that knows the Hugging Face hub can load itself: an id from there, else a local folder."""
    return name if name_of(spec) == HUGGINGFACE else download(name, spec)


def download(name: str, spec: ModelSpec) -> str:
    """Return the local folder of a model, downloaded with the hub's own client if it is not there yet."""
    if Path(name).is_dir():
        return name
    check(spec)
    fetch = {HUGGINGFACE: _huggingface, MODELSCOPE: _modelscope}[name_of(spec)]
    try:
        return fetch(name, spec)
    except Exception as error:
        # Each client has its own tree of exceptions for no network, no such model and no access.
        if is_unreachable(error):
            raise unreachable(ModelError, f"{name_of(spec)} for {name}", error, name_of(spec)) from error
        raise ModelError(
            f"Cannot get {name} from {name_of(spec)} ({first_line(error)}).",
            advice="Check the name, the revision and the network, or download the folder and give its path.",
        ) from error


def cached_folder(repository: str, cache: str | None = None, revision: str | None = None) -> Path | None:
    """Return the folder of a repository in the cache of Hugging Face, without asking the hub."""
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub.constants import HF_HUB_CACHE

    return cached_snapshot("models", repository, cache or HF_HUB_CACHE, revision)


def _in_modelscope_cache(name: str, spec: ModelSpec) -> Path | None:
    if find_spec("modelscope_hub") is None:
        return None
    from modelscope_hub import HubApi
    from modelscope_hub.errors import HubError

    where = {"revision": revision_of(spec), "cache_dir": spec.options.get("cache_dir")}
    try:
        return Path(HubApi().download_repo(name, "model", local_files_only=True, **where))
    except (HubError, OSError):
        return None  # not in the cache


def _huggingface(name: str, spec: ModelSpec) -> str:
    from huggingface_hub import snapshot_download

    return str(
        snapshot_download(
            name,
            revision=revision_of(spec),
            cache_dir=spec.options.get("cache_dir"),
            # The library itself looks only when it is imported.
            endpoint=os.environ.get("HF_ENDPOINT"),
            ignore_patterns=list(OTHER_FORMATS),
        )
    )


def _modelscope(name: str, spec: ModelSpec) -> str:
    from modelscope_hub import HubApi

    api = HubApi(endpoint=os.environ.get("MODELSCOPE_ENDPOINT"))
    folder = api.download_repo(
        name,
        "model",
        revision=revision_of(spec),
        cache_dir=spec.options.get("cache_dir"),
        ignore_patterns=list(OTHER_FORMATS),
    )
    return str(folder)
