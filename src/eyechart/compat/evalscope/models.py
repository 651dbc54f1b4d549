"""From a model entry of a config to the family that loads it; whoever cannot do the task is refused here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eyechart.api import Budget
from eyechart.compat.evalscope.schema import Endpoint, Requests, VisionModel
from eyechart.errors import UsageError
from eyechart.models.generators.family import Access
from eyechart.types import ModelSpec

EMBEDDED = "eyechart-tiny"
CHECKPOINTS = (".pt", ".pth", ".bin", ".safetensors", ".ckpt")
HUB_PREFIXES = ("hf-hub:", "local-dir:")


def encoder_spec(entry: VisionModel) -> ModelSpec:
    """Find the family of a CLIP-like model: as the entry says, else by what its path holds, else a hub's id."""
    if entry.api_base and not entry.image_form and entry.model_type is None:
        raise UsageError(
            f"{entry.model_name!r} is behind an API that writes text: it gives no vectors to compare.",
            advice="Set task: image_caption to let it describe the images; if the server embeds images, "
            "set image_form to vllm, infinity or jina.",
        )
    family, name, pretrained = _family(entry)
    options: dict[str, Any] = {}
    if entry.api_base:
        options = {"api_base": entry.api_base, "image_form": entry.image_form}
        options |= {"api_key": entry.api_key, "api_key_variable": entry.api_key_variable}
    elif not Path(name).exists() and family in ("transformers", "sentence-transformers"):
        options = {"hub": entry.hub, "revision": entry.revision}
    if entry.trust_remote_code:
        options["trust_remote_code"] = True
    options = {key: value for key, value in options.items() if value is not None}
    precision = "fp32" if entry.precision == "auto" else entry.precision
    return ModelSpec(family, name, pretrained, precision, entry.device, options)


def _family(entry: VisionModel) -> tuple[str, str, str]:
    """Return family, name and pretrained."""
    name, pretrained = entry.model_name, entry.pretrained
    if entry.model_type:
        return entry.model_type, name, pretrained
    if entry.api_base:
        return "api", name, pretrained
    if name == EMBEDDED:
        return "onnx", name, pretrained
    path = Path(name)
    if path.is_dir():
        return _family_of_folder(path), name, pretrained
    if path.is_file() or name.endswith(CHECKPOINTS):
        raise UsageError(
            f"{name} is a checkpoint file: its architecture is not known.",
            advice="Give model_name: <architecture>, pretrained: <file>, model_type: open_clip.",
        )
    if pretrained or name.startswith(HUB_PREFIXES):
        return "open_clip", name, pretrained
    return "transformers", name, pretrained


FOLDERS: tuple[tuple[str, str], ...] = (
    ("image.onnx", "onnx"),
    ("modules.json", "sentence-transformers"),
    ("config.json", "transformers"),
)
"""The file by which a folder is recognised, and the family that reads it."""


SEEING = ("*.onnx", "*processor_config.json", "*/*processor_config.json", "open_clip_config.json")
"""Files by one of which a folder shows that its model takes images."""


def _family_of_folder(path: Path) -> str:
    for file, family in FOLDERS:
        if (path / file).is_file():
            if not any(found for pattern in SEEING for found in path.glob(pattern)):
                raise UsageError(
                    f"{path} reads texts only: it has no image processor.",
                    advice="Text models belong to the tool MTEB, or to text_models of retrieval_comparison.",
                )
            return family
    known = ", ".join(file for file, _ in FOLDERS)
    raise UsageError(f"{path} is not the folder of a model.", advice=f"It holds none of {known}.")


def generator_spec(entry: VisionModel) -> ModelSpec:
    """Return the spec of a model that writes captions: behind an API, or a local transformers model."""
    settings: dict[str, Any] = {"temperature": entry.temperature, "max_tokens": entry.max_tokens, **entry.extra_body}
    settings = {key: value for key, value in settings.items() if value is not None}
    if entry.api_base:
        options = {"api_base": entry.api_base, "settings": settings, "max_edge": entry.max_edge}
        return ModelSpec("api", entry.model_name, options=options)
    options = {"settings": settings, "max_edge": entry.max_edge, "trust_remote_code": entry.trust_remote_code}
    if not Path(entry.model_name).exists():
        options |= {"hub": entry.hub, "revision": entry.revision}
    precision = "fp32" if entry.precision == "auto" else entry.precision
    return ModelSpec(entry.model_type or "transformers", entry.model_name, "", precision, entry.device, options)


def access_of(entry: Endpoint, requests: Requests, budget: Budget, *, concurrency: int, batch_size: int) -> Access:
    """Return how a model is reached; the budget is one for each config, shared by its models."""
    return Access(
        key=entry.api_key,
        key_variable=entry.api_key_variable,
        concurrency=concurrency,
        timeout=requests.timeout,
        tries=requests.tries,
        batch_size=batch_size,
        budget=budget,
    )
