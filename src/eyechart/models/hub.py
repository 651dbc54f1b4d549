"""Models on a hub: Hugging Face or ModelScope, at a pinned revision if one is given."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from eyechart.errors import ModelError, UsageError, missing_extra, unknown_name
from eyechart.types import ModelSpec

HUGGINGFACE, MODELSCOPE = "huggingface", "modelscope"
HUBS = (HUGGINGFACE, MODELSCOPE)
OTHER_FORMATS = ("*.h5", "*.msgpack", "*.tflite", "*.ot", "*.mlmodel", "onnx/*", "openvino/*", "coreml/*")
"""The same weights once more, for other libraries."""
MOVING = ("", "main", "master")
"""Revisions that are no pin."""


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


def is_pinned(spec: ModelSpec) -> bool:
    """Tell whether the revision names fixed content and not a branch that moves."""
    return (revision_of(spec) or "") not in MOVING


def check(spec: ModelSpec) -> None:
    """Refuse an unknown hub, or one whose client is not installed."""
    library = {HUGGINGFACE: "huggingface_hub", MODELSCOPE: "modelscope_hub"}[name_of(spec)]
    if find_spec(library) is None:
        raise missing_extra(library, "hub")


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
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"Cannot get {name} from {name_of(spec)} ({first}).",
            advice="Check the name, the revision and the network, or download the folder and give its path.",
        ) from error


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
