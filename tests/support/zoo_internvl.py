"""InternVL stand-ins: small models with InternVL's call signature, defined here.

The authors' code and weights are not on this machine. The folder form is a stand-in that implements
``encode_image(pixels, mode)`` and ``encode_text(ids)`` as a few lines of its own remote code; the ``.pth`` form is a
random state dict with the names and proportions of ``internvl_c_13b_224px.pth``, and `reference` computes its vectors
step by step from the tensors, independently of `eyechart.models.encoders.internvl_c`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from eyechart.types import ModelSpec
from support.zoo import Case, as_array, seeded
from support.zoo_tokenizers import llama_model

CODE = """
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


class StandInConfig(PretrainedConfig):
    model_type = "internvl_stand_in"

    def __init__(self, width=16, words=400, image_size=32, force_image_size=None, **options):
        self.width, self.words, self.force_image_size = width, words, force_image_size
        super().__init__(**options)
        self.vision_config = PretrainedConfig(image_size=image_size)


class StandIn(PreTrainedModel):
    config_class = StandInConfig

    def __init__(self, config):
        super().__init__(config)
        self.see = nn.Conv2d(3, config.width, 8, 8)
        self.see_again = nn.Linear(config.width, config.width)
        self.read = nn.Embedding(config.words, config.width)
        self.logit_scale = nn.Parameter(torch.tensor(2.0))
        self.post_init()

    def encode_image(self, image, mode):
        first = self.see(image).mean((2, 3))
        if mode == "InternVL-C":
            return first
        if mode == "InternVL-G":
            return first / first.norm(dim=1, keepdim=True) + self.see_again(first)
        raise NotImplementedError(mode)

    def encode_text(self, text):
        mask = text > 0
        hidden = self.read(text).cumsum(1)
        return hidden[torch.arange(len(text)), mask.sum(1) - 1]
"""


def _tokenizer(folder: Path):
    """Save a vocabulary like LLaMA's with Chinese behind it, and return what reads it: SentencePiece."""
    from sentencepiece import SentencePieceProcessor

    path = llama_model(folder / "tokenizer.model")
    settings = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"add_bos_token": True}))
    return SentencePieceProcessor(model_file=str(path))


def _pixels(refs, size: int, *, crop: bool):
    """Write the authors' two transforms down again."""
    import torch
    from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Normalize, Resize, ToTensor

    bicubic = InterpolationMode.BICUBIC
    shape = [Resize(size, bicubic), CenterCrop(size)] if crop else [Resize((size, size), bicubic)]
    transform = Compose([*shape, ToTensor(), Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    return torch.stack([transform(ref.convert("RGB")) for ref in refs])


def _ids(vocabulary, strings, *, full: bool):
    """Read as LLaMA's original tokenizer does: both marks, cut at 80 tokens, filled up with 0 on the right."""
    import torch

    rows = [[1, *vocabulary.encode("summarize:" + string)[:78], 2] for string in strings]
    length = 80 if full else max(map(len, rows))
    return torch.tensor([row + [0] * (length - len(row)) for row in rows])


def folder_form(name: str):
    """Return a builder of the folder form under one of the four ``_hf`` names."""

    def build(folder: Path) -> Case:
        import torch
        from transformers import AutoModel

        seeded()
        checkpoint = folder / "InternVL-stand-in"
        checkpoint.mkdir(parents=True)
        (checkpoint / "modeling_stand_in.py").write_text(CODE)
        vocabulary = _tokenizer(checkpoint)
        config = {
            "model_type": "internvl_stand_in",
            "auto_map": {"AutoConfig": "modeling_stand_in.StandInConfig", "AutoModel": "modeling_stand_in.StandIn"},
        }
        (checkpoint / "config.json").write_text(json.dumps(config))
        from transformers import AutoConfig

        settings = AutoConfig.from_pretrained(checkpoint, trust_remote_code=True)
        made = AutoModel.from_config(settings, trust_remote_code=True)
        made.save_pretrained(checkpoint)
        model = AutoModel.from_pretrained(checkpoint, trust_remote_code=True).eval()
        mode = "InternVL-C" if "_c_" in name else "InternVL-G"

        def images(refs):
            with torch.no_grad():
                pixels = _pixels(refs, 32, crop="classification" in name)
                return as_array(model.encode_image(pixels, mode=mode))

        def texts(strings):
            with torch.no_grad():
                return as_array(model.encode_text(_ids(vocabulary, strings, full=True)))

        weights = (checkpoint / "model.safetensors",)
        return Case(ModelSpec("internvl", name, str(checkpoint)), images, texts, parts=weights)

    return build


WIDTH, PATCH, SIZE, DEPTH, HIDDEN, OUT, WORDS = 256, 8, 32, 2, 64, 24, 400


def random_state():
    """Make tensors with the checkpoint's names; widths are multiples of the 128 that one head has."""
    import torch

    seeded()
    shapes = {
        "cls_token": (1, 1, WIDTH), "pos_embed": (1, (SIZE // PATCH) ** 2 + 1, WIDTH), "logit_scale": (),
        "patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH), "patch_embed.proj.bias": (WIDTH,),
        "text_projection": (WIDTH, OUT), "transformer.embed_tokens.weight": (WORDS, WIDTH),
        "transformer.norm.weight": (WIDTH,),
        "clip_projector.cross_attn.proj.weight": (OUT, WIDTH), "clip_projector.cross_attn.proj.bias": (OUT,),
    }  # fmt: skip
    for letter in "qkv":
        shapes[f"clip_projector.norm1_{letter}.weight"] = shapes[f"clip_projector.norm1_{letter}.bias"] = (WIDTH,)
        shapes[f"clip_projector.cross_attn.{letter}.weight"] = (WIDTH, WIDTH)
        shapes[f"clip_projector.cross_attn.{letter}_bias"] = (WIDTH,)
    for i in range(DEPTH):
        block, layer = f"blocks.{i}.", f"transformer.layers.{i}."
        for name in ("norm1.weight", "norm2.weight", "attn.q_norm.weight", "attn.k_norm.weight", "ls1.gamma",
                     "ls2.gamma", "attn.proj.bias", "mlp.fc2.bias"):  # fmt: skip
            shapes[block + name] = (WIDTH,)
        shapes |= {
            block + "attn.qkv.weight": (3 * WIDTH, WIDTH), block + "attn.proj.weight": (WIDTH, WIDTH),
            block + "mlp.fc1.weight": (HIDDEN, WIDTH), block + "mlp.fc1.bias": (HIDDEN,),
            block + "mlp.fc2.weight": (WIDTH, HIDDEN),
            layer + "input_layernorm.weight": (WIDTH,), layer + "post_attention_layernorm.weight": (WIDTH,),
            layer + "mlp.gate_proj.weight": (HIDDEN, WIDTH), layer + "mlp.up_proj.weight": (HIDDEN, WIDTH),
            layer + "mlp.down_proj.weight": (WIDTH, HIDDEN),
        }  # fmt: skip
        shapes |= {f"{layer}self_attn.{name}_proj.weight": (WIDTH, WIDTH) for name in "qkvo"}
    state = {name: torch.randn(shape) / math.sqrt(max(shape, default=1)) for name, shape in shapes.items()}
    return {name: 1 + tensor if "norm" in name and "weight" in name else tensor for name, tensor in state.items()}


def reference(state):
    """Compute both vectors from the tensors, one formula after the other."""
    import torch
    from torch.nn.functional import conv2d, gelu, layer_norm, linear
    from transformers import LlamaConfig, LlamaModel

    def rms(x, name):
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * state[name + ".weight"]

    def attention(q, k, v, heads):
        width = q.shape[-1] // heads
        outs = []
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            weights = (q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(width)).softmax(-1)
            outs.append(weights @ v[..., part])
        return torch.cat(outs, dim=-1)

    def images(pixels):
        x = conv2d(pixels, state["patch_embed.proj.weight"], state["patch_embed.proj.bias"], stride=PATCH)
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([state["cls_token"].expand(len(x), -1, -1), x], dim=1) + state["pos_embed"]
        for i in range(DEPTH):
            p = f"blocks.{i}."
            q, k, v = linear(rms(x, p + "norm1"), state[p + "attn.qkv.weight"]).split(WIDTH, dim=-1)
            y = attention(rms(q, p + "attn.q_norm"), rms(k, p + "attn.k_norm"), v, WIDTH // 128)
            x = x + state[p + "ls1.gamma"] * linear(y, state[p + "attn.proj.weight"], state[p + "attn.proj.bias"])
            y = gelu(linear(rms(x, p + "norm2"), state[p + "mlp.fc1.weight"], state[p + "mlp.fc1.bias"]))
            x = x + state[p + "ls2.gamma"] * linear(y, state[p + "mlp.fc2.weight"], state[p + "mlp.fc2.bias"])
        p = "clip_projector."
        parts = []
        for letter, tokens in (("q", x.mean(1, keepdim=True)), ("k", x), ("v", x)):
            norm = p + f"norm1_{letter}."
            normed = layer_norm(tokens, (WIDTH,), state[norm + "weight"], state[norm + "bias"], 1e-5)
            weight, bias = state[p + f"cross_attn.{letter}.weight"], state[p + f"cross_attn.{letter}_bias"]
            parts.append(linear(normed, weight, bias))
        y = attention(*parts, 16)[:, 0]
        return linear(y, state[p + "cross_attn.proj.weight"], state[p + "cross_attn.proj.bias"])

    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=HIDDEN, pad_token_id=0, num_hidden_layers=DEPTH,
        num_attention_heads=WIDTH // 128, rms_norm_eps=1e-6,
    )  # fmt: skip
    llama = LlamaModel(config)
    llama.load_state_dict({k.removeprefix("transformer."): v for k, v in state.items() if k.startswith("transformer.")})
    llama.eval()

    def texts(ids):
        rows = []
        for row in ids:
            kept = row[row > 0]
            rows.append(llama(input_ids=kept[None]).last_hidden_state[0, -1] @ state["text_projection"])
        return torch.stack(rows)

    return images, texts


def file_form(name: str):
    """Return a builder of the ``.pth`` form under one of its two names."""

    def build(folder: Path) -> Case:
        import torch

        folder.mkdir(parents=True)
        state = random_state()
        old = {f"transformer.layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(4) for i in range(DEPTH)}
        torch.save({key: tensor.half() for key, tensor in state.items()} | old, folder / "internvl_c_stand_in.pth")
        vocabulary = _tokenizer(folder / "chinese_alpaca_lora_7b")
        see, read = reference({key: tensor.half().float() for key, tensor in state.items()})

        def images(refs):
            with torch.no_grad():
                return as_array(see(_pixels(refs, SIZE, crop="classification" in name)))

        def texts(strings):
            with torch.no_grad():
                return as_array(read(_ids(vocabulary, strings, full=False)))

        checkpoint = folder / "internvl_c_stand_in.pth"
        return Case(ModelSpec("internvl", name, str(checkpoint)), images, texts, parts=(checkpoint,))

    return build


CASES = {
    "internvl_c_classification": file_form("internvl_c_classification"),
    "internvl_c_retrieval": file_form("internvl_c_retrieval"),
    "internvl_c_classification_hf": folder_form("internvl_c_classification_hf"),
    "internvl_c_retrieval_hf": folder_form("internvl_c_retrieval_hf"),
    "internvl_g_classification_hf": folder_form("internvl_g_classification_hf"),
    "internvl_g_retrieval_hf": folder_form("internvl_g_retrieval_hf"),
}
