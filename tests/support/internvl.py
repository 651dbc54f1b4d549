"""Small InternVL checkpoints in both forms, whose weights are a function of their names.

`folder_parameters` and `file_parameters` say which parameters a network of given sizes has; ``tests/data/internvl``
holds the same lists for two networks as the authors' code made them, and the vectors that it computed.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np

from support.zoo_tokenizers import llama_model

DATA = Path(__file__).parent.parent / "data" / "internvl"
SMALL = {
    "model_type": "internvl",
    "clip_embed_dim": 24,
    "attn_pool_num_heads": 6,
    "num_query_token": 100,
    "cross_attention_frequency": 3,
    "vision_config": {
        "hidden_size": 48, "num_attention_heads": 3, "num_hidden_layers": 3, "intermediate_size": 80,
        "image_size": 42, "patch_size": 14, "qk_normalization": True, "layer_norm_eps": 1e-5,
    },
    "qllama_config": {
        "vocab_size": 400, "hidden_size": 96, "num_attention_heads": 6, "num_hidden_layers": 5,
        "intermediate_size": 100, "rms_norm_eps": 1e-5,
    },
    "use_backbone_lora": 0,
    "use_qllama_lora": 0,
}  # fmt: skip
"""Another network than the oracle's in every size."""
SMALL_FILE = {
    "img_size": 32, "patch_size": 8, "embed_dim": 256, "hidden": 64, "depth": 2, "clip_embed_dim": 24,
    "transformer_width": 256, "transformer_hidden": 64, "layers": 2, "words": 400,
}  # fmt: skip
"""Widths are multiples of the 128 that one head of the published file has."""


def weight(name, shape, key="a"):
    """Make a weight out of its name, as the oracle's were made."""
    x = np.random.default_rng(zlib.crc32(f"{key}:{name}".encode())).standard_normal(shape)
    if "norm" in name and name.endswith("weight"):
        x = 1 + 0.1 * x
    else:
        x = x * (0.5 / shape[-1] ** 0.5 if len(shape) > 1 else 0.1)
    return np.asarray(x).astype(np.float16)


def weights(parameters, key="a"):
    """Make all weights of a list of parameters."""
    return {name: weight(name, shape, key) for name, shape in parameters.items()}


def folder_parameters(config):
    """List the parameters of the folder form: name and shape."""
    vision, text = config["vision_config"], config["qllama_config"]
    w, h, patch = vision["hidden_size"], vision["intermediate_size"], vision["patch_size"]
    t, m, out = text["hidden_size"], text["intermediate_size"], config["clip_embed_dim"]
    size = config.get("force_image_size") or vision["image_size"]
    found = {
        "query_tokens": [1, config["num_query_token"], t],
        "text_projection": [t, out],
        "logit_scale": [],
        "vision_model.embeddings.class_embedding": [1, 1, w],
        "vision_model.embeddings.position_embedding": [1, (size // patch) ** 2 + 1, w],
        "vision_model.embeddings.patch_embedding.weight": [w, 3, patch, patch],
        "vision_model.embeddings.patch_embedding.bias": [w],
    }
    for i in range(vision["num_hidden_layers"]):
        here = f"vision_model.encoder.layers.{i}."
        found |= {here + "ls1": [w], here + "ls2": [w], here + "attn.qkv.weight": [3 * w, w]}
        if vision.get("qkv_bias"):
            found[here + "attn.qkv.bias"] = [3 * w]
        if vision.get("qk_normalization", True):
            found |= {here + "attn.q_norm.weight": [w], here + "attn.k_norm.weight": [w]}
        found |= {
            here + "attn.proj.weight": [w, w], here + "attn.proj.bias": [w],
            here + "mlp.fc1.weight": [h, w], here + "mlp.fc1.bias": [h],
            here + "mlp.fc2.weight": [w, h], here + "mlp.fc2.bias": [w],
            here + "norm1.weight": [w], here + "norm2.weight": [w],
        }  # fmt: skip
    found["qllama.model.embed_tokens.weight"] = [text["vocab_size"], t]
    for i in range(text["num_hidden_layers"]):
        here = f"qllama.model.layers.{i}."
        found |= {f"{here}self_attn.{name}_proj.weight": [t, t] for name in "qkvo"}
        if i % config["cross_attention_frequency"] == 0:
            cross = here + "cross_attn."
            found |= {cross + "q_proj.weight": [t, t], cross + "o_proj.weight": [t, t], cross + "norm1.weight": [t]}
            found |= {cross + "k_proj.weight": [t, w], cross + "v_proj.weight": [t, w], cross + "norm2.weight": [w]}
        found |= _llama_rest(here, t, m)
    found |= {"qllama.model.norm.weight": [t], "qllama.lm_head.weight": [text["vocab_size"], t]}
    found |= _pool("clip_projector.", w, out) | _pool("clip_projector2.", t, out)
    return found | {"itm_head.weight": [2, t], "itm_head.bias": [2]}


def file_parameters(sizes):
    """List the parameters of the ``.pth`` form: name and shape."""
    w, h, patch, t, m = (
        sizes[key] for key in ("embed_dim", "hidden", "patch_size", "transformer_width", "transformer_hidden")
    )
    out = sizes["clip_embed_dim"]
    found = {
        "text_projection": [t, out], "logit_scale": [],
        "pos_embed": [1, (sizes["img_size"] // patch) ** 2 + 1, w], "cls_token": [1, 1, w],
        "transformer.embed_tokens.weight": [sizes["words"], t], "transformer.norm.weight": [t],
        "patch_embed.proj.weight": [w, 3, patch, patch], "patch_embed.proj.bias": [w],
    }  # fmt: skip
    for i in range(sizes["layers"]):
        here = f"transformer.layers.{i}."
        found |= {f"{here}self_attn.{name}_proj.weight": [t, t] for name in "qkvo"} | _llama_rest(here, t, m)
    for i in range(sizes["depth"]):
        here = f"blocks.{i}."
        found |= {here + name: [w] for name in ("norm1.weight", "norm2.weight", "ls1.gamma", "ls2.gamma")}
        found |= {here + "attn.qkv.weight": [3 * w, w], here + "attn.proj.weight": [w, w], here + "attn.proj.bias": [w]}
        found |= {here + "attn.q_norm.weight": [w], here + "attn.k_norm.weight": [w]}
        found |= {here + "mlp.fc1.weight": [h, w], here + "mlp.fc1.bias": [h]}
        found |= {here + "mlp.fc2.weight": [w, h], here + "mlp.fc2.bias": [w]}
    return found | _pool("clip_projector.", w, out)


def _llama_rest(here, width, hidden):
    return {
        here + "mlp.gate_proj.weight": [hidden, width], here + "mlp.up_proj.weight": [hidden, width],
        here + "mlp.down_proj.weight": [width, hidden],
        here + "input_layernorm.weight": [width], here + "post_attention_layernorm.weight": [width],
    }  # fmt: skip


def _pool(here, width, out):
    found = {here + "cross_attn.proj.weight": [out, width], here + "cross_attn.proj.bias": [out]}
    for letter in "qkv":
        found |= {f"{here}norm1_{letter}.weight": [width], f"{here}norm1_{letter}.bias": [width]}
        found |= {f"{here}cross_attn.{letter}.weight": [width, width], f"{here}cross_attn.{letter}_bias": [width]}
    return found


def write_folder(folder, config=SMALL, arrays=None, *, shards=3, form="bin", vocabulary=True):
    """Write the folder form: a config, shards with an index (or one file), and a small vocabulary.

    Args:
        folder: Where.
        config: What ``config.json`` holds.
        arrays: The weights by name; by default those that the config asks for.
        shards: How many files.
        form: ``bin`` or ``safetensors``.
        vocabulary: Whether it has a tokenizer.
    """
    import torch
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    items = list((weights(folder_parameters(config)) if arrays is None else arrays).items())
    stem = {"bin": "pytorch_model", "safetensors": "model"}[form]
    names = [f"{stem}-{k + 1:05d}-of-{shards:05d}.{form}" for k in range(shards)] if shards > 1 else [f"{stem}.{form}"]
    index = {}
    for k, name in enumerate(names):
        part = {key: torch.from_numpy(np.array(array)) for key, array in items[k::shards]}
        (torch.save if form == "bin" else save_file)(part, folder / name)
        index |= dict.fromkeys(part, name)
    if shards > 1:
        (folder / f"{stem}.{form}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    if vocabulary:
        llama_model(folder / "tokenizer.model")
    return folder


def write_file(path, sizes=SMALL_FILE, arrays=None, *, vocabulary=True):
    """Write the ``.pth`` form, and the folder with the tokenizer beside it."""
    import torch

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = weights(file_parameters(sizes)) if arrays is None else arrays
    torch.save({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}, path)
    if vocabulary:
        llama_model(path.parent / "chinese_alpaca_lora_7b" / "tokenizer.model")
    return path
