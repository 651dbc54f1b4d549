"""InternVL's vectors computed from the weights in plain numpy, one formula after the other: a second reading."""

from __future__ import annotations

import math

import numpy as np

FILE_TO_FOLDER = (
    ("patch_embed.proj", "vision_model.embeddings.patch_embedding"),
    ("pos_embed", "vision_model.embeddings.position_embedding"),
    ("cls_token", "vision_model.embeddings.class_embedding"),
    ("blocks.", "vision_model.encoder.layers."),
    (".gamma", ""),
    ("transformer.", "qllama.model."),
)


class Reference:
    """A network of the folder form; `of_file` makes one of the other form."""

    def __init__(self, arrays, *, vision_heads, text_heads, pool_heads, vision_eps=1e-6, text_eps=1e-6):
        self.w = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
        self.vision_heads, self.text_heads, self.pool_heads = vision_heads, text_heads, pool_heads
        self.vision_eps, self.text_eps = vision_eps, text_eps

    @classmethod
    def of_config(cls, arrays, config):
        vision, text = config["vision_config"], config["qllama_config"]
        return cls(
            arrays,
            vision_heads=vision["num_attention_heads"],
            text_heads=text["num_attention_heads"],
            pool_heads=config["attn_pool_num_heads"],
            vision_eps=vision.get("layer_norm_eps", 1e-6),
            text_eps=text.get("rms_norm_eps", 1e-6),
        )

    @classmethod
    def of_file(cls, arrays, **heads):
        renamed = {}
        for name, array in arrays.items():
            for theirs, ours in FILE_TO_FOLDER:
                name = name.replace(theirs, ours)  # noqa: PLW2901 - renamed step by step
            renamed[name] = array
        return cls(renamed, **heads)

    def image_c(self, pixels):
        return self._pool(self._see(pixels), "clip_projector")

    def image_g(self, pixels):
        seen = self._see(pixels)
        queries = np.repeat(self.w["query_tokens"], len(seen), axis=0)
        states = self._read(queries, np.ones((queries.shape[1],) * 2, bool), seen)
        parts = self._pool(seen, "clip_projector"), self._pool(states, "clip_projector2")
        return sum(part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts)

    def texts(self, ids):
        rows = []
        for row in np.asarray(ids):
            read = row > 0
            mask = np.tril(np.ones((len(row),) * 2, bool)) & read[None, :]
            states = self._read(self.w["qllama.model.embed_tokens.weight"][row][None], mask)
            rows.append(states[0, read.sum() - 1] @ self.w["text_projection"])
        return np.stack(rows)

    def _see(self, pixels):
        w, here = self.w, "vision_model.embeddings."
        kernel = w[here + "patch_embedding.weight"]
        patch = kernel.shape[-1]
        n, _, height, width = pixels.shape
        rows, columns = height // patch, width // patch
        cut = np.asarray(pixels, np.float64)[:, :, : rows * patch, : columns * patch]
        cut = cut.reshape(n, -1, rows, patch, columns, patch).transpose(0, 2, 4, 1, 3, 5).reshape(n, rows * columns, -1)
        x = cut @ kernel.reshape(len(kernel), -1).T + w[here + "patch_embedding.bias"]
        first = np.repeat(w[here + "class_embedding"], n, axis=0)
        x = np.concatenate([first, x], axis=1) + w[here + "position_embedding"]
        for i in range(self._count("vision_model.encoder.layers.")):
            here = f"vision_model.encoder.layers.{i}."
            q, k, v = np.split(self._linear(self._rms(x, here + "norm1", self.vision_eps), here + "attn.qkv"), 3, -1)
            if here + "attn.q_norm.weight" in w:
                q = self._rms(q, here + "attn.q_norm", self.vision_eps)
                k = self._rms(k, here + "attn.k_norm", self.vision_eps)
            x = x + w[here + "ls1"] * self._linear(attention(q, k, v, self.vision_heads), here + "attn.proj")
            y = gelu(self._linear(self._rms(x, here + "norm2", self.vision_eps), here + "mlp.fc1"))
            x = x + w[here + "ls2"] * self._linear(y, here + "mlp.fc2")
        return x

    def _read(self, x, mask, seen=None):
        eps = self.text_eps
        for i in range(self._count("qllama.model.layers.")):
            here = f"qllama.model.layers.{i}."
            y = self._rms(x, here + "input_layernorm", eps)
            q, k, v = (self._linear(y, f"{here}self_attn.{letter}_proj") for letter in "qkv")
            q, k = self._turned(q), self._turned(k)
            x = x + self._linear(attention(q, k, v, self.text_heads, mask), here + "self_attn.o_proj")
            cross = here + "cross_attn."
            if seen is not None and x.shape[1] >= 96 and cross + "q_proj.weight" in self.w:
                y = self._linear(self._rms(x[:, :96], cross + "norm1", eps), cross + "q_proj")
                image = self._rms(seen, cross + "norm2", eps)
                k, v = self._linear(image, cross + "k_proj"), self._linear(image, cross + "v_proj")
                looked = x[:, :96] + self._linear(attention(y, k, v, self.text_heads), cross + "o_proj")
                x = np.concatenate([looked, x[:, 96:]], axis=1)
            y = self._rms(x, here + "post_attention_layernorm", eps)
            gate = self._linear(y, here + "mlp.gate_proj")
            x = x + self._linear(
                gate / (1 + np.exp(-gate)) * self._linear(y, here + "mlp.up_proj"), here + "mlp.down_proj"
            )
        return self._rms(x, "qllama.model.norm", eps)

    def _turned(self, x):
        """Turn the pairs (i, i + half) of each head by the position's angle."""
        n, length, width = x.shape
        heads = x.reshape(n, length, self.text_heads, -1)
        half = heads.shape[-1] // 2
        turns = np.arange(length)[:, None] * 10000.0 ** (-np.arange(half) / half)
        numbers = (heads[..., :half] + 1j * heads[..., half:]) * np.exp(1j * turns)[:, None, :]
        return np.concatenate([numbers.real, numbers.imag], axis=-1).reshape(n, length, width)

    def _pool(self, x, name):
        parts = []
        for letter, tokens in (("q", x.mean(axis=1, keepdims=True)), ("k", x), ("v", x)):
            norm = f"{name}.norm1_{letter}."
            y = tokens - tokens.mean(-1, keepdims=True)
            y = y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-5) * self.w[norm + "weight"] + self.w[norm + "bias"]
            parts.append(self._linear(y, f"{name}.cross_attn.{letter}") + self.w[f"{name}.cross_attn.{letter}_bias"])
        return self._linear(attention(*parts, self.pool_heads), f"{name}.cross_attn.proj")[:, 0]

    def _rms(self, x, name, eps):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * self.w[name + ".weight"]

    def _linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0)

    def _count(self, prefix):
        return 1 + max(int(name.removeprefix(prefix).split(".")[0]) for name in self.w if name.startswith(prefix))


def attention(q, k, v, heads, mask=None):
    width = q.shape[-1] // heads
    found = []
    for h in range(heads):
        part = slice(h * width, (h + 1) * width)
        scores = q[..., part] @ k[..., part].transpose(0, 2, 1) / math.sqrt(width)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        found.append(scores / scores.sum(-1, keepdims=True) @ v[..., part])
    return np.concatenate(found, axis=-1)


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
