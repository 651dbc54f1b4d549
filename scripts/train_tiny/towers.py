"""The two towers: a small convolutional transformer for images and a small transformer for text."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH = 128
HEADS = 4
EMBEDDING_DIM = 128
IMAGE_SIZE = 64
GRID = 8
CONTEXT_LENGTH = 32


class Block(nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Attend and transform; `bias` is added to the attention scores."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, length, 3, HEADS, width // HEADS)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_mlp(x))


def _conv(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())


class ImageTower(nn.Module):
    """[batch, 3, 64, 64] normalised pixels to [batch, EMBEDDING_DIM]."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            _conv(3, 32, kernel=4, stride=2),
            _conv(32, 64, kernel=3, stride=2),
            _conv(64, 64, kernel=3, stride=1),
            _conv(64, WIDTH, kernel=3, stride=2),
            _conv(WIDTH, WIDTH, kernel=3, stride=1),
        )
        self.summary = nn.Parameter(0.02 * torch.randn(1, 1, WIDTH))
        self.positions = nn.Parameter(0.02 * torch.randn(1, GRID * GRID + 1, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.project = nn.Linear(WIDTH, EMBEDDING_DIM, bias=False)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Embed a batch of images; the vectors are not normalised."""
        cells = self.convolutions(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat([self.summary.expand(cells.shape[0], -1, -1), cells], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.project(self.norm(x[:, 0]))


class TextTower(nn.Module):
    """Token ids and attention mask [batch, length] to [batch, EMBEDDING_DIM]; padding has no influence."""

    def __init__(self, vocabulary: int, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(CONTEXT_LENGTH, WIDTH)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.project = nn.Linear(WIDTH, EMBEDDING_DIM, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embed a batch of texts, read off at their first token; the vectors are not normalised."""
        length = input_ids.shape[1]
        x = self.tokens(input_ids) + self.positions(torch.arange(length, device=input_ids.device))
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -1e9
        for block in self.blocks:
            x = block(x, bias)
        return self.project(self.norm(x[:, 0]))


class DualEncoder(nn.Module):
    """Both towers and the learned logarithm of the scale of their cosine similarities."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.image = ImageTower()
        self.text = TextTower(vocabulary)
        self.log_scale = nn.Parameter(torch.tensor(20.0).log())

    def scale(self) -> Tensor:
        """The logit scale, at most 100 as in CLIP."""
        return self.log_scale.exp().clamp(max=100.0)

    def forward(self, pixels: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Scaled cosine of every image (row) with every text (column)."""
        images = functional.normalize(self.image(pixels), dim=-1)
        texts = functional.normalize(self.text(input_ids, attention_mask), dim=-1)
        return self.scale() * images @ texts.T
