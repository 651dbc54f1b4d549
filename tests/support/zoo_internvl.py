"""Small InternVL checkpoints of both forms for the zoo, and their vectors by `Reference`, which knows only numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eyechart.types import ModelSpec
from support.internvl import SMALL, SMALL_FILE, file_parameters, folder_parameters, weights, write_file, write_folder
from support.internvl_reference import Reference
from support.zoo import Case


def pixels_of(images, size: int, *, crop: bool):
    """Write the authors' two transforms down again."""
    from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Normalize, Resize, ToTensor

    bicubic = InterpolationMode.BICUBIC
    shape = [Resize(size, bicubic), CenterCrop(size)] if crop else [Resize((size, size), bicubic)]
    transform = Compose([*shape, ToTensor(), Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    return np.stack([transform(image.convert("RGB")).numpy() for image in images])


def ids_of(vocabulary: Path, texts):
    """Read as LLaMA's original tokenizer does: both marks, cut at 80 tokens, filled up with 0 on the right."""
    from sentencepiece import SentencePieceProcessor

    pieces = SentencePieceProcessor(model_file=str(vocabulary))
    rows = [[1, *pieces.encode("summarize:" + text)[:78], 2] for text in texts]
    return np.array([row + [0] * (80 - len(row)) for row in rows])


def folder_form(name: str):
    """Return a builder of the folder form under one of the four ``_hf`` names."""

    def build(folder: Path) -> Case:
        reference = Reference.of_config(weights(folder_parameters(SMALL)), SMALL)
        checkpoint = write_folder(folder / "InternVL-14B-224px", shards=1, form="safetensors")
        see = reference.image_c if "_c_" in name else reference.image_g
        size, crop = SMALL["vision_config"]["image_size"], "classification" in name
        return Case(
            ModelSpec("internvl", name, str(checkpoint)),
            lambda images: see(pixels_of(images, size, crop=crop)),
            lambda texts: reference.texts(ids_of(checkpoint / "tokenizer.model", texts)),
            parts=(checkpoint / "model.safetensors",),
        )

    return build


def file_form(name: str):
    """Return a builder of the ``.pth`` form under one of its two names."""

    def build(folder: Path) -> Case:
        arrays = weights(file_parameters(SMALL_FILE))
        old = {f"transformer.layers.{i}.self_attn.rotary_emb.inv_freq": np.ones(4, np.float16) for i in range(2)}
        checkpoint = write_file(folder / "internvl_c_13b_224px.pth", arrays=arrays | old)
        reference = Reference.of_file(arrays, vision_heads=2, text_heads=2, pool_heads=16)
        return Case(
            ModelSpec("internvl", name, str(checkpoint)),
            lambda images: reference.image_c(pixels_of(images, 32, crop="classification" in name)),
            lambda texts: reference.texts(ids_of(folder / "chinese_alpaca_lora_7b" / "tokenizer.model", texts)),
            parts=(checkpoint,),
        )

    return build


CASES = {
    "internvl_c_classification": file_form("internvl_c_classification"),
    "internvl_c_retrieval": file_form("internvl_c_retrieval"),
    "internvl_c_classification_hf": folder_form("internvl_c_classification_hf"),
    "internvl_c_retrieval_hf": folder_form("internvl_c_retrieval_hf"),
    "internvl_g_classification_hf": folder_form("internvl_g_classification_hf"),
    "internvl_g_retrieval_hf": folder_form("internvl_g_retrieval_hf"),
}
