"""What a loaded model is besides its weights: its tokenizer, its configs, and code that came with it.

The same weights with another number of heads, another activation or another vocabulary give other vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from eyechart.io.code import code_digest, is_own
from eyechart.io.digests import digest_bytes
from eyechart.types import digest_json

if TYPE_CHECKING:
    import torch

VOLATILE = frozenset({"transformers_version", "dtype", "torch_dtype", "name_or_path"})
"""Settings of a config that say where it is from, or how it is computed."""
SETTINGS = (
    "padding_side",
    "truncation_side",
    "do_lower_case",
    "special_tokens_map",
    "src_lang",
    "split_special_tokens",
    "clean_up_tokenization_spaces",
)


def structure_digest(model: torch.nn.Module) -> str:
    """Digest the configs of a model's parts, and the code of those that no library has."""
    parts = list(model.modules())
    configs: dict[int, Any] = {id(part.config): part.config for part in parts if hasattr(part, "config")}
    plain = [_stable(config.to_dict()) for config in configs.values() if hasattr(config, "to_dict")]
    own = {kind for kind in map(type, parts) if is_own(kind)}
    return digest_json([plain, sorted(code_digest(kind) for kind in own)])


def tokenizer_digest(tokenizer: Any) -> str:
    """Digest all that a tokenizer holds: vocabulary, merges, cleaning, special tokens."""
    inner = getattr(tokenizer, "tokenizer", None)
    content = [type(tokenizer).__name__, *(str(getattr(tokenizer, name, "")) for name in SETTINGS)]
    return digest_json([content, *_content(tokenizer), *([tokenizer_digest(inner)] if inner is not None else [])])


def _content(tokenizer: Any) -> Iterator[str]:
    """Yield digests of a tokenizer's tables, whichever library it is from."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):
        text: str = backend.to_str()
        # Before this stand truncation and padding, which change with every call.
        yield digest_bytes(text[text.index('"added_tokens"') :].encode()).hex()
        return
    if hasattr(tokenizer, "sp_model"):
        yield digest_bytes(tokenizer.sp_model.serialized_model_proto()).hex()
    if hasattr(tokenizer, "get_vocab"):
        yield digest_json(tokenizer.get_vocab())
    if hasattr(tokenizer, "stop_words"):
        yield digest_json(sorted(tokenizer.stop_words))
    if isinstance(getattr(tokenizer, "encoder", None), Mapping):
        yield digest_json([list(tokenizer.encoder), list(getattr(tokenizer, "bpe_ranks", ()))])


def _stable(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _stable(inner) for key, inner in value.items() if not str(key).startswith("_")}
        return {key: inner for key, inner in kept.items() if key not in VOLATILE}
    return [_stable(inner) for inner in value] if isinstance(value, list | tuple) else value
