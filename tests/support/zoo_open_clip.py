"""Small open_clip models: plain CLIP, CoCa, SigLIP, a Hugging Face text tower, NLLB."""

from __future__ import annotations

import json
from pathlib import Path

from eyechart.types import ModelSpec
from support.zoo import Case, as_array, seeded
from support.zoo_tokenizers import gemma_like, sentencepiece_model, xlmr_tokenizer

VISION = {"image_size": 32, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
PLAIN = {"embed_dim": 32, "vision_cfg": VISION, "text_cfg": TEXT}
COCA = {
    "embed_dim": 32,
    "vision_cfg": VISION | {"attentional_pool": True, "attn_pooler_queries": 8, "attn_pooler_heads": 4,
                            "output_tokens": True},
    "text_cfg": TEXT | {"context_length": 76, "embed_cls": True, "output_tokens": True},
    "multimodal_cfg": {"context_length": 76, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2,
                       "attn_pooler_heads": 4},
    "custom_text": True,
}  # fmt: skip


def documented(model, transform, tokenizer):
    """Write down the usage of open_clip's README, without autocast."""
    import torch

    def images(refs):
        with torch.no_grad():
            return as_array(model.encode_image(torch.stack([transform(ref) for ref in refs])))

    def texts(strings):
        with torch.no_grad():
            return as_array(model.encode_text(tokenizer(strings)))

    return images, texts


def make(folder: Path, config: dict, name: str = "made"):
    """Write an architecture and make a random model of it."""
    import open_clip

    seeded()
    folder.mkdir(parents=True, exist_ok=True)
    architecture = folder / f"{name}.json"
    architecture.write_text(json.dumps(config))
    open_clip.add_model_config(architecture)
    return architecture, open_clip.create_model(name, pretrained_text=False)


def from_file(architecture: Path, checkpoint: Path) -> Case:
    """Load a checkpoint file with open_clip itself."""
    import open_clip

    model, _, transform = open_clip.create_model_and_transforms(architecture.stem, pretrained=str(checkpoint))
    images, texts = documented(model.eval(), transform, open_clip.get_tokenizer(architecture.stem))
    return Case(ModelSpec("open_clip", str(architecture), str(checkpoint)), images, texts, parts=(checkpoint,))


def plain(folder: Path) -> Case:
    """Plain CLIP, saved as open_clip's training saves it."""
    import torch

    architecture, model = make(folder, PLAIN)
    torch.save({"epoch": 1, "name": "made", "state_dict": model.state_dict()}, folder / "epoch_1.pt")
    return from_file(architecture, folder / "epoch_1.pt")


def coca(folder: Path) -> Case:
    """CoCa, as safetensors."""
    from safetensors.torch import save_model

    architecture, model = make(folder, COCA, "made-coca")
    save_model(model, str(folder / "coca.safetensors"))
    return from_file(architecture, folder / "coca.safetensors")


def save_folder(folder: Path, config: dict, tokenizer) -> None:
    """Make a model and save it as open_clip does for the hub."""
    from open_clip.push_to_hf_hub import save_for_hf

    _, model = make(folder / "made", config)
    save_for_hf(model, tokenizer, config, folder)


def from_folder(folder: Path) -> Case:
    """Load a folder with open_clip itself."""
    import open_clip

    name = f"local-dir:{folder}"
    model, _, transform = open_clip.create_model_and_transforms(name)
    images, texts = documented(model.eval(), transform, open_clip.get_tokenizer(name))
    return Case(ModelSpec("open_clip", name), images, texts, parts=(folder / "open_clip_model.safetensors",))


def siglip(folder: Path) -> Case:
    """SigLIP: a timm image tower, a T5 vocabulary, canonical text, a bias."""
    from open_clip.tokenizer import HFTokenizer
    from transformers import SiglipTokenizer

    SiglipTokenizer(str(sentencepiece_model(folder / "spm" / "spiece.model"))).save_pretrained(folder / "tokenizer")
    config = {
        "embed_dim": 64,
        "init_logit_bias": -10,
        "custom_text": True,
        "vision_cfg": {"image_size": 160, "timm_model_name": "test_vit", "timm_model_pretrained": False,
                       "timm_pool": "map", "timm_proj": "none"},
        "text_cfg": {"context_length": 64, "vocab_size": 400, "hf_tokenizer_name": str(folder / "tokenizer"),
                     "tokenizer_kwargs": {"clean": "canonicalize"}, "width": 32, "heads": 2, "layers": 2,
                     "no_causal_mask": True, "proj_bias": True, "pool_type": "last"},
    }  # fmt: skip
    save_folder(folder, config, HFTokenizer(str(folder / "tokenizer"), context_length=64, clean="canonicalize"))
    return from_folder(folder)


def multilingual(folder: Path) -> Case:
    """XLM-R as text tower."""
    from transformers import XLMRobertaConfig

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    _save_text_tower(folder, XLMRobertaConfig, xlmr_tokenizer, max_position_embeddings=100, **small)
    return from_folder(folder)


def nllb(folder: Path) -> Case:
    """NLLB-CLIP: the text tower is told the language."""
    from transformers import M2M100Config

    def tokenizer(target):
        return gemma_like("NllbTokenizer", target)

    _save_text_tower(
        folder,
        M2M100Config,
        tokenizer,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
    )
    return from_folder(folder)


def _save_text_tower(folder: Path, config_class, make_tokenizer, **options) -> None:
    from open_clip.tokenizer import HFTokenizer

    tower = folder / "tower"
    tokenizer = make_tokenizer(tower)
    config_class(vocab_size=len(tokenizer) + 8, pad_token_id=1, **options).save_pretrained(tower)
    config = {
        "embed_dim": 32,
        "vision_cfg": VISION,
        "text_cfg": {"hf_model_name": str(tower), "hf_tokenizer_name": str(tower), "hf_proj_type": "mlp",
                     "hf_pooler_type": "mean_pooler", "context_length": 77},
    }  # fmt: skip
    save_folder(folder, config, HFTokenizer(str(tower), context_length=77))


CASES = {
    "open_clip": plain,
    "open_clip-coca": coca,
    "open_clip-siglip": siglip,
    "open_clip-xlmr": multilingual,
    "open_clip-nllb": nllb,
}
