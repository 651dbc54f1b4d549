"""The model folder: two ONNX towers, the tokenizer and the settings that a reader needs."""

from __future__ import annotations

import json
import random
from pathlib import Path

import onnx
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn

from batches import MEAN, STD, draw_scenes
from captions import LANGUAGES, caption
from towers import CONTEXT_LENGTH, EMBEDDING_DIM, IMAGE_SIZE, DualEncoder

OPSET = 18


def train_tokenizer(seed: int) -> Tokenizer:
    """A byte-level BPE learned on captions: their words are single tokens, and no text is unknown."""
    rng = random.Random(seed)
    corpus = [caption(language, scene, rng) for _ in range(40) for scene in draw_scenes(rng) for language in LANGUAGES]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=["[PAD]", "[CLS]", "[SEP]"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    specials = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=specials)
    return tokenizer


def write_model(model: DualEncoder, tokenizer: Tokenizer, folder: Path) -> None:
    """Write every file of the folder; `tokenizer` has neither truncation nor padding switched on."""
    folder.mkdir(parents=True, exist_ok=True)
    model.eval()
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=CONTEXT_LENGTH)
    pixels = torch.zeros(2, 3, IMAGE_SIZE, IMAGE_SIZE)
    _export(
        model.image,
        {"pixel_values": pixels},
        "image_embeds",
        {"pixel_values": {0: batch}},
        folder / "image.onnx",
    )
    tokens = {name: torch.ones(2, 7, dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    shapes = {name: {0: batch, 1: length} for name in tokens}
    _export(model.text, tokens, "text_embeds", shapes, folder / "text.onnx")
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "preprocessor_config.json", _preprocessing())
    _write_json(folder / "eyechart.json", _card(model))


def _export(tower: nn.Module, inputs: dict[str, torch.Tensor], output: str, shapes: dict, path: Path) -> None:
    program = torch.onnx.export(
        tower,
        kwargs=inputs,
        input_names=list(inputs),
        output_names=[output],
        dynamic_shapes=shapes,
        opset_version=OPSET,
        dynamo=True,
        verbose=False,
    )
    proto = program.model_proto
    # The exporter notes source lines and paths of this machine on every node: not part of a model.
    del proto.metadata_props[:]
    for part in (
        proto.graph,
        *proto.graph.node,
        *proto.graph.value_info,
        *proto.graph.input,
        *proto.graph.output,
    ):
        del part.metadata_props[:]
    proto.graph.ClearField("value_info")
    for node in proto.graph.node:
        node.ClearField("doc_string")
    onnx.checker.check_model(proto, full_check=True)
    path.write_bytes(proto.SerializeToString(deterministic=True))


def _preprocessing() -> dict[str, object]:
    return {
        "do_resize": True,
        "size": {"height": IMAGE_SIZE, "width": IMAGE_SIZE},
        "resample": 3,
        "do_center_crop": False,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [MEAN] * 3,
        "image_std": [STD] * 3,
    }


def _card(model: DualEncoder) -> dict[str, object]:
    return {
        "name": "eyechart-tiny",
        "version": "1",
        "context_length": CONTEXT_LENGTH,
        "logit_scale": round(model.scale().item(), 4),
        "embedding_dim": EMBEDDING_DIM,
        "parameters": sum(p.numel() for p in model.parameters()),
        "licence": "MIT",
        "training": "Contrastive, from scratch, on single garments and coloured scenes of two, made of the "
        "training split of Fashion-MNIST, with English and German captions: scripts/train_tiny/train.py",
    }


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
