"""Tiny late-interaction models, each saved by its own library, with that library's own vectors as the reference."""

import json
from pathlib import Path

import numpy as np

from support.tiny_vlm import tiny_tokenizer

TEXTS = ["a cat", "a photo of two red shirts on a table", "bag"]
SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def _bert(folder: Path) -> str:
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "[unused0]",
        "[unused1]",
        "a",
        "cat",
        "photo",
        "of",
        "two",
        "red",
        "shirts",
        "on",
        "table",
        "bag",
        ".",
        ",",
    ]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=24).save_pretrained(folder)
    BertModel(BertConfig(vocab_size=len(words), **SIZES)).save_pretrained(folder)
    return str(folder)


def multi_vector(folder: Path, *extra) -> None:
    """Save a MultiVectorEncoder with a projection, a skiplist and prompts."""
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from sentence_transformers.sentence_transformer.modules import Normalize

    dense = Dense(32, 16, bias=False, activation_function=None, module_input_name="token_embeddings")
    parts = [Transformer(_bert(folder / "bert")), dense, MultiVectorMask(skiplist_words=["."])]
    parts += [Normalize(module_input_name="token_embeddings"), *extra]
    prompts = {"query": "a photo ", "document": "on table "}
    MultiVectorEncoder(modules=parts, prompts=prompts, device="cpu").save_pretrained(str(folder))


def edited(folder: Path, file: str, **values) -> None:
    """Change values of a JSON file; None removes one."""
    known = json.loads((folder / file).read_text())
    known = {name: value for name, value in (known | values).items() if value is not None}
    (folder / file).write_text(json.dumps(known))


def pylate(folder: Path) -> None:
    """Save what PyLate 3 leaves: a transformer and a projection, prefixes in the config."""
    multi_vector(folder)
    modules = json.loads((folder / "modules.json").read_text())[:2]
    (folder / "modules.json").write_text(json.dumps(modules))
    prefixes = {"query_prefix": "[unused0]", "document_prefix": "[unused1]", "query_length": 12}
    edited(folder, "config_sentence_transformers.json", model_type="ColBERT", prompts=None, **prefixes)


def stanford(folder: Path) -> None:
    """Save what Stanford's ColBERT leaves: BERT's weights under ``bert.`` and the projection ``linear.weight``."""
    import torch
    from safetensors.torch import load_file, save_file

    _bert(folder)
    weights = {f"bert.{name}": value for name, value in load_file(folder / "model.safetensors").items()}
    weights["linear.weight"] = torch.randn(16, 32, generator=torch.Generator().manual_seed(1))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    edited(folder, "config.json", architectures=["HF_ColBERT"])
    (folder / "artifact.metadata").write_text(
        json.dumps({"query_maxlen": 12, "doc_maxlen": 20, "mask_punctuation": True, "attend_to_mask_tokens": False})
    )


def colpali(folder: Path) -> None:
    import torch
    from transformers import ColPaliConfig, ColPaliForRetrieval, ColPaliProcessor, SiglipImageProcessor

    images = SiglipImageProcessor(size={"height": 28, "width": 28})
    images.image_seq_length = 4
    processor = ColPaliProcessor(images, tiny_tokenizer(["<pad>", "<s>", "</s>", "<image>"]))
    text = {"model_type": "gemma", "vocab_size": len(processor.tokenizer) + 2, "head_dim": 16, **SIZES}
    vision = {"model_type": "siglip_vision_model", "image_size": 28, "patch_size": 14, **SIZES}
    vlm = {
        "model_type": "paligemma",
        "text_config": text | {"num_key_value_heads": 1},
        "vision_config": vision,
        "projection_dim": 32,
        "image_token_id": processor.image_token_id,
    }
    torch.manual_seed(0)
    ColPaliForRetrieval(ColPaliConfig(vlm_config=vlm, embedding_dim=16)).save_pretrained(folder)
    processor.save_pretrained(folder)


def colqwen2(folder: Path) -> None:
    import torch
    from transformers import ColQwen2Config, ColQwen2ForRetrieval, ColQwen2Processor, Qwen2VLImageProcessor

    special = "<pad> <s> </s> <|image_pad|> <|vision_start|> <|vision_end|> <|im_start|> <|im_end|> <|endoftext|>"
    tokenizer = tiny_tokenizer(special.split())
    images = Qwen2VLImageProcessor(min_pixels=28 * 28, max_pixels=28 * 28 * 6, patch_size=14, merge_size=2)
    processor = ColQwen2Processor(images, tokenizer)
    ids = {
        "image_token_id": tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        "vision_start_token_id": tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        "vision_end_token_id": tokenizer.convert_tokens_to_ids("<|vision_end|>"),
    }
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    text = {"vocab_size": len(tokenizer) + 2, "num_key_value_heads": 2, "rope_parameters": rope, **SIZES}
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "patch_size": 14}
    vlm = {"model_type": "qwen2_vl", "text_config": text, "vision_config": vision, **ids}
    torch.manual_seed(0)
    ColQwen2ForRetrieval(ColQwen2Config(vlm_config=vlm, embedding_dim=16)).save_pretrained(folder)
    processor.save_pretrained(folder)


def colmodernvbert(folder: Path) -> None:
    import torch
    from transformers import (
        ColModernVBertConfig,
        ColModernVBertForRetrieval,
        ColModernVBertProcessor,
        Idefics3ImageProcessor,
    )

    special = "<pad> <s> </s> <image> <fake_token_around_image> <end_of_utterance> <global-img> <row_1_col_1> "
    special += "<row_1_col_2> <row_2_col_1> <row_2_col_2> <|begin_of_text|>"
    tokenizer = tiny_tokenizer(special.split())
    size = {"longest_edge": 32}
    images = Idefics3ImageProcessor(size=size, max_image_size=size, do_image_splitting=False)
    processor = ColModernVBertProcessor(images, tokenizer, image_seq_len=4)
    text = {"model_type": "modernbert", "vocab_size": len(tokenizer) + 2, "pad_token_id": 0, **SIZES}
    vision = {"model_type": "siglip_vision_model", "image_size": 32, "patch_size": 8, **SIZES}
    vlm = {
        "model_type": "modernvbert",
        "text_config": text,
        "vision_config": vision,
        "pixel_shuffle_factor": 2,
        "image_token_id": tokenizer.convert_tokens_to_ids("<image>"),
    }
    torch.manual_seed(0)
    ColModernVBertForRetrieval(ColModernVBertConfig(vlm_config=vlm, embedding_dim=16)).save_pretrained(folder)
    processor.save_pretrained(folder)


TEXT_MODELS = {"MultiVectorEncoder": multi_vector, "PyLate": pylate, "Stanford ColBERT": stanford}
PAGE_MODELS = {"ColPali": colpali, "ColQwen2": colqwen2, "ColModernVBert": colmodernvbert}


def library_texts(folder: Path, role: str, texts=TEXTS) -> list[np.ndarray]:
    """Encode texts with sentence-transformers, one at a time."""
    from sentence_transformers import MultiVectorEncoder

    model = MultiVectorEncoder(str(folder), device="cpu")
    encode = model.encode_query if role == "query" else model.encode_document
    return [encode([text], convert_to_numpy=True)[0] for text in texts]


def library_pages(folder: Path, inputs) -> list[np.ndarray]:
    """Encode images, or texts as queries, with the class of transformers, one at a time, without padding."""
    import torch
    import transformers

    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, kind).from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    found = []
    for item in inputs:
        prepare = processor.process_queries if isinstance(item, str) else processor.process_images
        with torch.inference_mode():
            found.append(model(**prepare([item], return_tensors="pt")).embeddings[0].numpy())
    return found
