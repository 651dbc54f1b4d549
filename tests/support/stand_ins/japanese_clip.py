"""A stand-in for rinna's library ``japanese_clip``, which is on no package index: same functions, small random model.

Its calls are ``load``, ``load_tokenizer`` and ``tokenize``; the model has ``get_image_features(pixels)`` and
``get_text_features(input_ids, attention_mask, position_ids)``.
"""

from types import SimpleNamespace

import torch
from torch import nn
from torchvision import transforms

SIZE, WIDTH, WORDS = 32, 16, 300


class StandIn(nn.Module):
    """Reads positions and mask, so that a caller who forgets one of them is found out."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Conv2d(3, WIDTH, 8, 8)
        self.read = nn.Embedding(WORDS, WIDTH)
        self.place = nn.Embedding(100, WIDTH)
        self.config = SimpleNamespace(vision_config=SimpleNamespace(image_size=SIZE))

    def get_image_features(self, pixel_values):
        return self.see(pixel_values).mean((2, 3))

    def get_text_features(self, input_ids, attention_mask, position_ids):
        read = (self.read(input_ids) * self.place(position_ids)).tanh()
        return (read * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)


class Letters:
    """A tokenizer of letters with the calling convention of transformers."""

    cls_token_id = 1

    def __call__(self, texts, add_special_tokens=True, truncation=False, max_length=None, padding=False):
        rows = [[2 + ord(letter) % (WORDS - 2) for letter in text.lower()] for text in texts]
        rows = [row[:max_length] if truncation else row for row in rows]
        masks = [[1] * len(row) for row in rows]
        if padding == "max_length":
            masks = [mask + [0] * (max_length - len(mask)) for mask in masks]
            rows = [row + [0] * (max_length - len(row)) for row in rows]
        return {"input_ids": rows, "attention_mask": masks}


def load(model_name, device="cpu", **options):
    torch.manual_seed(sum(map(ord, str(model_name).rpartition("/")[2])))
    transform = transforms.Compose([
        transforms.Resize(SIZE, interpolation=transforms.InterpolationMode.BILINEAR),
        transforms.CenterCrop(SIZE),
        _rgb,
        transforms.ToTensor(),
        transforms.Normalize((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    ])  # fmt: skip
    return StandIn().eval().requires_grad_(False).to(device), transform


def _rgb(image):
    return image.convert("RGB")


def load_tokenizer():
    return Letters()


def tokenize(texts, tokenizer=None, max_seq_len=77, device="cpu"):
    inputs = tokenizer(texts, max_length=max_seq_len, padding="max_length", truncation=True, add_special_tokens=False)
    ids = torch.tensor([[tokenizer.cls_token_id, *row] for row in inputs["input_ids"]])
    mask = torch.tensor([[1, *row] for row in inputs["attention_mask"]])
    places = torch.arange(ids.shape[1]).expand_as(ids)
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device), "position_ids": places.to(device)}
