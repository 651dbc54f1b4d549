"""Small transformers models, saved with ``save_pretrained`` and used as their documentation says."""

from __future__ import annotations

import json
from pathlib import Path

from eyechart.types import ModelSpec
from support.zoo import Case, as_array, seeded
from support.zoo_tokenizers import bert_tokenizer, clip_tokenizer, gemma_like, sentencepiece_model, xlmr_tokenizer

TOWER = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = TOWER | {"image_size": 32, "patch_size": 8, "num_channels": 3}


def save(folder: Path, model, processor) -> None:
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)


def documented(folder: Path, *, family: str = "transformers", **text_options) -> Case:
    """AutoModel and AutoProcessor, ``get_image_features`` and ``get_text_features``, as on every model's page."""
    import torch
    from transformers import AutoModel, AutoProcessor

    model, processor = AutoModel.from_pretrained(folder).eval(), AutoProcessor.from_pretrained(folder)

    def images(refs):
        with torch.no_grad():
            inputs = processor(images=[ref.convert("RGB") for ref in refs], return_tensors="pt")
            return as_array(model.get_image_features(**inputs).pooler_output)

    def texts(strings):
        with torch.no_grad():
            inputs = processor(text=strings, truncation=True, return_tensors="pt", **text_options)
            return as_array(model.get_text_features(**inputs).pooler_output)

    return Case(ModelSpec(family, str(folder)), images, texts, parts=(folder / "model.safetensors",))


def clip(folder: Path) -> Case:
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor

    seeded()
    tokenizer = clip_tokenizer(folder)
    text = TOWER | {"vocab_size": len(tokenizer), "max_position_embeddings": 77, "eos_token_id": 49407}
    config = CLIPConfig(text_config=text, vision_config=VISION, projection_dim=24)
    pixels = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    save(folder, CLIPModel(config), CLIPProcessor(pixels, tokenizer))
    return documented(folder, padding=True)


def chinese_clip(folder: Path) -> Case:
    from transformers import ChineseCLIPConfig, ChineseCLIPImageProcessor, ChineseCLIPModel, ChineseCLIPProcessor

    seeded()
    tokenizer = bert_tokenizer(folder)
    config = ChineseCLIPConfig(
        text_config=TOWER | {"vocab_size": len(tokenizer)}, vision_config=VISION, projection_dim=24
    )
    pixels = ChineseCLIPImageProcessor(size={"height": 32, "width": 32}, do_center_crop=False)
    save(folder, ChineseCLIPModel(config), ChineseCLIPProcessor(pixels, tokenizer))
    # 52 is what the authors' own library cuts at.
    return documented(folder, padding=True, max_length=52)


def siglip(folder: Path) -> Case:
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel, SiglipProcessor, SiglipTokenizer

    seeded()
    # As in the released models: their text tower reads the padding, too.
    names = ["input_ids"]
    tokenizer = SiglipTokenizer(str(sentencepiece_model(folder / "spm" / "spiece.model")), model_input_names=names)
    text = TOWER | {"vocab_size": len(tokenizer) + 10, "max_position_embeddings": 64, "projection_size": 32}
    config = SiglipConfig(text_config=text, vision_config=VISION)
    pixels = SiglipImageProcessor(size={"height": 32, "width": 32})
    save(folder, SiglipModel(config), SiglipProcessor(pixels, tokenizer))
    return documented(folder, padding="max_length", max_length=64)


def siglip2(folder: Path) -> Case:
    """SigLIP 2 at a fixed size: the SigLIP classes with another tokenizer."""
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel, SiglipProcessor

    seeded()
    tokenizer = gemma_like("Siglip2Tokenizer", folder, padding_side="right")
    text = TOWER | {"vocab_size": len(tokenizer) + 10, "max_position_embeddings": 64, "projection_size": 32}
    pixels = SiglipImageProcessor(size={"height": 32, "width": 32})
    model = SiglipModel(SiglipConfig(text_config=text, vision_config=VISION))
    save(folder, model, SiglipProcessor(pixels, tokenizer))
    return documented(folder, padding="max_length", max_length=64)


def siglip2_naflex(folder: Path) -> Case:
    """SigLIP 2 for images of any shape."""
    from transformers import Siglip2Config, Siglip2ImageProcessor, Siglip2Model, Siglip2Processor

    seeded()
    tokenizer = gemma_like("Siglip2Tokenizer", folder, padding_side="right")
    text = TOWER | {"vocab_size": len(tokenizer) + 10, "max_position_embeddings": 64, "projection_size": 32}
    vision = TOWER | {"num_patches": 16, "patch_size": 8}
    pixels = Siglip2ImageProcessor(patch_size=8, max_num_patches=20)
    model = Siglip2Model(Siglip2Config(text_config=text, vision_config=vision))
    save(folder, model, Siglip2Processor(pixels, tokenizer))
    case = documented(folder, padding="max_length", max_length=64)
    return Case(case.spec, _naflex_images(folder), case.texts, parts=case.parts)


def _naflex_images(folder: Path):
    import torch
    from transformers import AutoImageProcessor, AutoModel

    # The processor as a whole would put its own default patch size in place of the saved one.
    model, processor = AutoModel.from_pretrained(folder).eval(), AutoImageProcessor.from_pretrained(folder)

    def images(refs):
        with torch.no_grad():
            inputs = processor(images=[ref.convert("RGB") for ref in refs], return_tensors="pt")
            return as_array(model.get_image_features(**inputs).pooler_output)

    return images


def altclip(folder: Path) -> Case:
    from transformers import AltCLIPConfig, AltCLIPModel, AltCLIPProcessor, CLIPImageProcessor

    seeded()
    tokenizer = xlmr_tokenizer(folder)
    text = TOWER | {"vocab_size": len(tokenizer), "project_dim": 16, "max_position_embeddings": 120}
    config = AltCLIPConfig(text_config=text, vision_config=VISION, projection_dim=24)
    pixels = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    save(folder, AltCLIPModel(config), AltCLIPProcessor(pixels, tokenizer))
    # 77 is what the authors' own code cuts at.
    return documented(folder, padding=True, max_length=77)


def align(folder: Path) -> Case:
    from transformers import AlignConfig, AlignModel, AlignProcessor, EfficientNetImageProcessor

    seeded()
    tokenizer = bert_tokenizer(folder)
    vision = {
        "image_size": 32, "in_channels": [32, 16], "out_channels": [16, 32], "kernel_sizes": [3, 3],
        "strides": [1, 2], "num_block_repeats": [1, 1], "expand_ratios": [1, 2], "depthwise_padding": [],
        "hidden_dim": 32, "width_coefficient": 1.0, "depth_coefficient": 1.0, "dropout_rate": 0.0,
    }  # fmt: skip
    config = AlignConfig(text_config=TOWER | {"vocab_size": len(tokenizer)}, vision_config=vision, projection_dim=32)
    pixels = EfficientNetImageProcessor(size={"height": 32, "width": 32}, do_center_crop=False)
    save(folder, AlignModel(config), AlignProcessor(pixels, tokenizer))
    return documented(folder, padding="max_length", max_length=64)


def clipseg(folder: Path) -> Case:
    """CLIPSeg is saved whole, with its decoder; the towers inside are what counts here."""
    from transformers import CLIPSegConfig, CLIPSegForImageSegmentation, CLIPSegProcessor, ViTImageProcessor

    seeded()
    tokenizer = clip_tokenizer(folder)
    text = TOWER | {"vocab_size": len(tokenizer), "max_position_embeddings": 77, "eos_token_id": 49407}
    config = CLIPSegConfig(
        text_config=text, vision_config=VISION, projection_dim=24, reduce_dim=8, extract_layers=[1],
        decoder_num_attention_heads=2, decoder_intermediate_size=16,
    )  # fmt: skip
    pixels = ViTImageProcessor(size={"height": 48, "width": 48})
    save(folder, CLIPSegForImageSegmentation(config), CLIPSegProcessor(pixels, tokenizer))
    return documented(folder, padding=True)


def blip(folder: Path) -> Case:
    """BLIP's retrieval head: the class says itself what the two vectors are, as a score of every pair."""
    import torch
    from transformers import BlipConfig, BlipForImageTextRetrieval, BlipImageProcessor, BlipProcessor

    seeded()
    tokenizer = bert_tokenizer(folder)
    text = TOWER | {"vocab_size": len(tokenizer) + 2, "encoder_hidden_size": 32, "projection_dim": 24}
    config = BlipConfig(text_config=text, vision_config=VISION | {"projection_dim": 24}, image_text_hidden_size=24)
    pixels = BlipImageProcessor(size={"height": 32, "width": 32})
    save(folder, BlipForImageTextRetrieval(config), BlipProcessor(pixels, tokenizer))
    model = BlipForImageTextRetrieval.from_pretrained(folder).eval()
    processor = BlipProcessor.from_pretrained(folder)

    def images(refs):
        with torch.no_grad():
            inputs = processor(images=[ref.convert("RGB") for ref in refs], return_tensors="pt")
            vectors = model.vision_proj(model.vision_model(**inputs).last_hidden_state[:, 0])
            return as_array(torch.nn.functional.normalize(vectors, dim=-1))

    def texts(strings):
        with torch.no_grad():
            inputs = processor(text=strings, padding=True, truncation=True, max_length=35, return_tensors="pt")
            vectors = model.text_proj(model.text_encoder(**inputs).last_hidden_state[:, 0])
            return as_array(torch.nn.functional.normalize(vectors, dim=-1))

    return Case(ModelSpec("transformers", str(folder)), images, texts, parts=(folder / "model.safetensors",))


def blip2(folder: Path) -> Case:
    """BLIP-2's retrieval head: the model's own outputs, the image's queries averaged."""
    import torch
    from transformers import Blip2Config, Blip2ForImageTextRetrieval, Blip2Processor, BlipImageProcessor

    seeded()
    tokenizer = bert_tokenizer(folder)
    config = Blip2Config(
        vision_config=VISION,
        qformer_config=TOWER
        | {"vocab_size": len(tokenizer) + 2, "encoder_hidden_size": 32, "use_qformer_text_input": True},
        text_config={"model_type": "opt", **TOWER, "ffn_dim": 16, "vocab_size": 16, "word_embed_proj_dim": 16},
        num_query_tokens=5,
        image_text_hidden_size=24,
    )  # fmt: skip
    pixels = BlipImageProcessor(size={"height": 32, "width": 32})
    save(folder, Blip2ForImageTextRetrieval(config), Blip2Processor(pixels, tokenizer))
    model = Blip2ForImageTextRetrieval.from_pretrained(folder).eval()

    def outputs(refs, strings):
        with torch.no_grad():
            seen = pixels(images=[ref.convert("RGB") for ref in refs], return_tensors="pt")
            read = tokenizer(
                strings, padding=True, truncation=True, max_length=32, return_tensors="pt", return_token_type_ids=False
            )
            return model(**seen, **read, use_image_text_matching_head=False)

    blank = [__import__("PIL.Image").Image.new("RGB", (32, 32))]
    return Case(
        ModelSpec("transformers", str(folder)),
        lambda refs: as_array(outputs(refs, ["a"]).image_embeds.mean(dim=1)),
        lambda strings: as_array(outputs(blank, strings).text_embeds),
        parts=(folder / "model.safetensors",),
    )


REMOTE = """
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


class OwnConfig(PretrainedConfig):
    model_type = "brings_its_own_code"

    def __init__(self, width=16, words=49408, **options):
        self.width, self.words = width, words
        super().__init__(**options)


class OwnModel(PreTrainedModel):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.see = nn.Conv2d(3, config.width, 8, 8)
        self.read = nn.Embedding(config.words, config.width)
        self.post_init()

    def get_image_features(self, pixel_values):
        return self.see(pixel_values).mean((2, 3))

    def get_text_features(self, input_ids):
        # It knows its padding (49407) by itself, as such models do.
        read = (input_ids != 49407)[..., None].float()
        return (self.read(input_ids) * read).sum(1) / read.sum(1)
"""


def remote_code(folder: Path) -> Case:
    """A folder that brings its own Python code, as Jina-CLIP does; its text tower takes ids only."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoProcessor, CLIPImageProcessor, CLIPProcessor

    seeded()
    folder.mkdir(parents=True)
    (folder / "modeling_own.py").write_text(REMOTE)
    where = {"AutoConfig": "modeling_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    (folder / "config.json").write_text(json.dumps({"model_type": "brings_its_own_code", "auto_map": where}))
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    pixels = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    save(folder, AutoModel.from_config(config, trust_remote_code=True), CLIPProcessor(pixels, clip_tokenizer(folder)))
    model = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
    processor = AutoProcessor.from_pretrained(folder, trust_remote_code=True)

    def images(refs):
        with torch.no_grad():
            inputs = processor(images=[ref.convert("RGB") for ref in refs], return_tensors="pt")
            return as_array(model.get_image_features(**inputs))

    def texts(strings):
        with torch.no_grad():
            ids = [processor(text=text, truncation=True, return_tensors="pt")["input_ids"] for text in strings]
            return as_array(torch.cat([model.get_text_features(row) for row in ids]))

    spec = ModelSpec("transformers", str(folder), options={"trust_remote_code": True})
    return Case(spec, images, texts, parts=(folder / "model.safetensors",))


CASES = {
    "remote-code": remote_code,
    "clip": clip,
    "chinese_clip": chinese_clip,
    "siglip": siglip,
    "siglip2": siglip2,
    "siglip2-naflex": siglip2_naflex,
    "altclip": altclip,
    "align": align,
    "clipseg": clipseg,
    "blip": blip,
    "blip2": blip2,
}
