"""The parts of a sentence-transformers model: its modules, its prompts, how many tokens it reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eyechart.errors import ModelError
from eyechart.models import hub
from eyechart.models.folders import MODULES
from eyechart.models.towers.checkpoints import LOAD_ERRORS, load_error, whole_weights
from eyechart.models.towers.sentencepieces import disagreements
from eyechart.models.towers.small_files import read_json
from eyechart.types import ModelSpec

PROMPTS = ("own", "given")
CONFIG = "config_sentence_transformers.json"
DEFAULT_LENGTH = 512
DOCUMENT = ("document", "passage")
"""What authors call the prompt of documents; the first that says anything counts."""
POOLER = "pooler."
"""BERT's own pooling. sentence-transformers pools the tokens itself, and many of its models are saved without this."""


def own_prompts(spec: ModelSpec) -> dict[str, str]:
    """Return the prompts that a model's authors saved with it, by role, if its files are on this machine."""
    saved = _saved(hub.place_of(spec.pretrained or spec.name, spec)).get("prompts") or {}
    prompts = {str(role): text for role, text in saved.items() if isinstance(text, str)}
    document = next((prompts[name] for name in DOCUMENT if prompts.get(name)), "")
    return prompts | {"document": document} if document else prompts


def prompt_of(model: Any, spec: ModelSpec) -> str:
    """Return what is put before every text."""
    if spec.options.get("prompts") == "given":
        return ""
    return (model.prompts or {}).get(model.default_prompt_name or "") or ""


def prompt_notes(model: Any, spec: ModelSpec) -> list[str]:
    """Say so if prompts inside the texts are counted, where the model was trained to leave them out of the mean."""
    leaves_out = any(not getattr(module, "include_prompt", True) for module in model)
    if spec.options.get("prompts") != "given" or not leaves_out:
        return []
    return ["Prompts are part of the texts here, and of the mean; this model was made to leave them out."]


def load_pipeline(spec: ModelSpec, source: str) -> tuple[Any, list[str]]:
    """Load the modules, with as many tokens as were asked for; also return what is to be said of the weights."""
    try:
        with whole_weights(source, unused=POOLER) as notes:
            model = (_pooled if spec.options.get("pooling_mode") else _as_saved)(spec, source)
    except LOAD_ERRORS as error:
        raise load_error(f"sentence-transformers {source}", error) from error
    notes += _part_notes(spec, source, model)
    if any({"query", "document"} <= set(getattr(module, "sub_modules", ())) for module in model):
        raise ModelError(
            f"{source} has one way for queries and another for documents, which is not known here.",
            advice="A model with the same modules for both can be scored.",
        )
    other = disagreements(model.tokenizer, spec.options.get("cache_dir"), hub.revision_of(spec))
    if other:
        raise ModelError(
            f"{source}: transformers reads {other[0]!r} otherwise than SentencePiece, which it was trained with.",
            advice="Its vocabulary is of another kind than its tokenizer's class expects.",
        )
    if spec.options.get("max_seq_length") or (model.max_seq_length is None and _only_reads(model)):
        model.max_seq_length = _length(model, spec.options.get("max_seq_length"))
    return model, notes


def _part_notes(spec: ModelSpec, source: str, model: Any) -> Iterator[str]:
    """Say which modules another pooling leaves out, and that ``model_kwargs`` decided the precision."""
    path = Path(hub.place_of(source, spec) or source) / MODULES
    if spec.options.get("pooling_mode") and path.is_file():
        kinds = [str(module["type"]).rpartition(".")[2] for module in json.loads(path.read_bytes())]
        out = [kind for kind in kinds if kind not in ("Transformer", "Pooling")]
        if out:
            yield f"With another pooling, these modules are left out: {', '.join(out)}."
    types = {str(weight.dtype) for weight in model.parameters()} - {"torch.float32"}
    if types:
        yield f"The weights were loaded as {', '.join(sorted(types))}, as model_kwargs say."


def _as_saved(spec: ModelSpec, source: str) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(
        hub.source_for_library(source, spec),
        device="cpu",
        **hub.loading(spec, cache="cache_folder"),
        **_options(spec),
    )


def _pooled(spec: ModelSpec, source: str) -> Any:
    """Put another pooling on the transformer; prompts and similarity stay those of the folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    trust = {"trust_remote_code": bool(spec.options.get("trust_remote_code"))}
    options = {part: wished | trust for part, wished in _options(spec).items()}
    folder = hub.download(source, spec)
    transformer = Transformer(folder, processor_kwargs=trust, **options)
    pooling = Pooling(transformer.get_embedding_dimension(), str(spec.options["pooling_mode"]))
    saved = _saved(Path(folder))
    kept = {name: saved.get(name) for name in ("prompts", "default_prompt_name", "similarity_fn_name")}
    return SentenceTransformer(modules=[transformer, pooling], device="cpu", **kept)


def _options(spec: ModelSpec) -> dict[str, dict[str, Any]]:
    """Return the keyword arguments of model and config; what ``torch_dtype: auto`` means is ours to say."""
    wished = {("dtype" if key == "torch_dtype" else key): value for key, value in _given(spec, "model_kwargs").items()}
    if wished.get("dtype") in (None, "auto"):
        wished["dtype"] = "float32"
    return {"model_kwargs": wished, "config_kwargs": _given(spec, "config_kwargs")}


def _given(spec: ModelSpec, option: str) -> dict[str, Any]:
    return dict(spec.options.get(option) or {})


def _length(model: Any, wanted: int | None) -> int:
    """Return how many tokens are read, never more than there are positions."""
    config = getattr(model.transformers_model, "config", None)
    positions = getattr(config, "max_position_embeddings", None)
    length = int(wanted or DEFAULT_LENGTH)
    return min(length, positions) if positions else length


def _only_reads(model: Any) -> bool:
    return "image" not in (getattr(model, "modalities", None) or ["text"])


def _saved(folder: Path | None) -> dict[str, Any]:
    path = folder / CONFIG if folder is not None else None
    return read_json(path) if path is not None and path.is_file() else {}
