"""Model specs from the model entries of a config; models that cannot do the task are rejected."""

from pathlib import Path
from typing import Any

from eyechart.api import Budget
from eyechart.compat.evalscope.schema import DEFAULT_CONCURRENCY, ClipEval, Endpoint, Requests, TextModel, VisionModel
from eyechart.errors import UsageError, nearest
from eyechart.models.access import Access, priced
from eyechart.models.resolve import check_sees, resolve_model
from eyechart.types import ModelSpec, Role

REQUEST_SIZE = 32
"""Texts per request: hosted services reject larger batches."""
TEXT_BATCH = 32
LOCAL_BATCH = 8
"""Largest number of images per forward pass of a local generator: 128 prompts with images fit no GPU."""
WITHOUT_EFFECT = frozenset({"show_progress_bar", "convert_to_tensor", "convert_to_numpy"})
"""Arguments of ``encode`` that do not affect results here."""
NORMALIZE = "normalize_embeddings"
"""The argument that turns dot products into cosines."""


def vision_spec(entry: VisionModel, role: Role, settings: ClipEval, budget: Budget) -> ModelSpec:
    """Return the spec of a vision model: a CLIP-like encoder or a generator."""
    size = min(settings.batch_size, LOCAL_BATCH) if role == "generator" else REQUEST_SIZE
    access = _access(entry, entry.model_name, settings, budget, size)
    if role == "generator":
        length = {} if entry.max_tokens is None else {"max_tokens": entry.max_tokens}
        options: dict[str, Any] = {"settings": {"temperature": entry.temperature, **length, **entry.extra_body}}
        options["max_edge"] = entry.max_edge
        if entry.api_base:
            return ModelSpec("api", entry.model_name, options=options | {"api_base": entry.api_base}, access=access)
        options |= _from_hub(entry, entry.model_name) | {"trust_remote_code": entry.trust_remote_code}
        family = resolve_model(entry.model_name, entry.pretrained, family=entry.model_type, role=role).family
        return _local(entry, entry.model_name, family, options, access)
    if entry.api_base and not entry.image_form and entry.model_type is None:
        raise UsageError(
            "{model_name!r} is a chat API, which returns text instead of embeddings.",
            advice="Set task: image_caption to caption the images; if the server embeds images, set image_form.",
            model_name=entry.model_name,
        )
    address = entry.api_base or ""
    family = resolve_model(entry.model_name, entry.pretrained, family=entry.model_type, address=address).family
    check_sees(entry.model_name)
    options = {"api_base": entry.api_base, "image_form": entry.image_form}
    if not entry.api_base and family in ("transformers", "sentence-transformers"):
        options |= _from_hub(entry, entry.model_name)
    options["trust_remote_code"] = entry.trust_remote_code
    return _local(entry, entry.model_name, family, _given(options), access)


def text_spec(entry: TextModel, requests: Requests, budget: Budget, encode_kwargs: dict[str, Any]) -> ModelSpec:
    """Return the spec of a text encoder or a reranker, with the batch size of ``encode_kwargs``."""
    name, encoding = entry.model_name_or_path, {**encode_kwargs, **entry.encode_kwargs}
    unknown = sorted(set(encoding) - WITHOUT_EFFECT - {"batch_size", NORMALIZE})
    if unknown:
        raise UsageError(
            "encode_kwargs: {name!r} is not supported.",
            advice="Supported: batch_size and {normalize}.",
            name=unknown[0],
            normalize=NORMALIZE,
        )
    batch = int(encoding.get("batch_size") or (REQUEST_SIZE if entry.api_base else TEXT_BATCH))
    access = _access(entry, name, requests, budget, batch)
    if entry.api_base:
        options: dict[str, Any] = {"api_base": entry.api_base, "dimension": entry.dimensions}
        options |= {"rerank_form": entry.rerank_form} if entry.is_cross_encoder else {}
        return ModelSpec("api", name, options=_given(options), access=access)
    options = {
        "pooling_mode": entry.pooling_mode,
        "max_seq_length": entry.max_seq_length,
        "model_kwargs": entry.model_kwargs,
        "config_kwargs": entry.config_kwargs,
        "trust_remote_code": entry.trust_remote_code,
        **_from_hub(entry, name),
    }
    family = "cross-encoder" if entry.is_cross_encoder else entry.model_type or "sentence-transformers"
    return _local(entry, name, family, _given(options), access)


def _access(entry: Endpoint, name: str, requests: Requests, budget: Budget, batch_size: int) -> Access:
    """Return the access settings of a model; the models of a config share one budget."""
    access = Access(
        key=entry.api_key,
        key_variable=entry.api_key_variable,
        concurrency=requests.concurrency or DEFAULT_CONCURRENCY,
        timeout=requests.timeout,
        tries=requests.tries,
        batch_size=batch_size,
        budget=budget,
    )
    return priced(access, requests.prices, name)


def encode_options(entry: TextModel, encode_kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the prompts of an entry (none to use the model's), and whether its vectors are normalised."""
    prompts = dict(entry.prompts)
    for role in prompts:
        if role not in ("query", "document", "passage"):
            near = nearest(role, ["query", "document"])
            hint = f"did you mean {near[0]}?" if near else "use query or document."
            raise UsageError(
                "prompts of {model}: unknown role {role!r}; {hint}",
                model=entry.model_name_or_path,
                role=role,
                hint=hint,
            )
    if entry.prompt:
        prompts.setdefault("query", entry.prompt)
    if "passage" in prompts:
        prompts.setdefault("document", prompts.pop("passage"))
    unit = {**encode_kwargs, **entry.encode_kwargs}.get(NORMALIZE)
    return {f"{role}_prompt": text for role, text in prompts.items()} | ({NORMALIZE: True} if unit else {})


def _from_hub(entry: VisionModel | TextModel, name: str) -> dict[str, Any]:
    return {} if Path(name).exists() else {"hub": entry.hub, "revision": entry.revision}


def _local(
    entry: VisionModel | TextModel, name: str, family: str, options: dict[str, Any], access: Access
) -> ModelSpec:
    precision = "fp32" if entry.precision == "auto" else entry.precision
    return ModelSpec(family, name, entry.pretrained, precision, entry.device, options, access=access)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value not in (None, {}, False)}
