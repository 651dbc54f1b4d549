"""The ``timm`` family: image backbones by name, with timm's weights or a local checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import unknown_name
from eyechart.models.family import LocalFamily, check_path
from eyechart.models.speedups.transforms import PixelTable
from eyechart.models.towers.checkpoints import load_errors, missing_weights, read_state, unused_notes
from eyechart.models.towers.precision import DEVICE_OPTIONS
from eyechart.models.towers.torch_encoder import TorchEncoder
from eyechart.types import Input, ModelSpec

if TYPE_CHECKING:
    import torch

PREFIX = "timm:"


class TimmEncoder(TorchEncoder):
    """A backbone without its classifier; a vector is its pooled feature before the classifier."""

    family = "timm"
    reads = False

    def __init__(self, spec: ModelSpec) -> None:
        import timm
        from timm.data import create_transform, resolve_model_data_config

        name, file = spec.name.removeprefix(PREFIX), Path(spec.pretrained)
        notes: list[str] = []
        with load_errors(f"timm {name}"):
            local = bool(spec.pretrained) and file.is_file()
            tagged = f"{name}.{spec.pretrained}" if spec.pretrained and not local else name
            model = timm.create_model(tagged, pretrained=not local, num_classes=0)
            if local:
                missing, spare = model.load_state_dict(read_state(file), strict=False)
                if missing:
                    raise missing_weights(file, name, missing)
                notes = unused_notes(spare)
        config = resolve_model_data_config(model)
        self.pixels = PixelTable(create_transform(**config, is_training=False))
        super().__init__(spec, model)
        self.card = self.make_card(
            transform=f"{config} | pooled features",
            context_length=None,
            image_size=config["input_size"][-1],
            notes=notes,
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Convert to RGB, then resize, crop and normalise."""
        return super().prepare_image(image.convert("RGB"))

    def _image_features(self, model: Any, pixels: Any) -> torch.Tensor:
        return model(pixels)


class TimmFamily(LocalFamily):
    """Loads ``timm:NAME``, with the weights of a tag or of a local file in ``--pretrained``."""

    own_options = MappingProxyType(dict(DEVICE_OPTIONS))
    needs, extra, read_by, model = ("timm", "torch"), "open-clip", ("timm", "torchvision"), TimmEncoder

    def inputs(self, spec: ModelSpec) -> Sequence[Input]:  # noqa: ARG002 - the same for all
        """Return images only."""
        return ("image",)

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library or file, and an unknown architecture."""
        super().check(spec)
        check_path(spec.pretrained)
        import timm

        name = spec.name.removeprefix(PREFIX)
        if not timm.is_model(name.partition(".")[0]):
            raise unknown_name("model", name, timm.list_models())

    def places(self, spec: ModelSpec) -> list[Path | None]:
        """Return the checkpoint; timm's own weights are identified once they are loaded."""
        file = Path(spec.pretrained) if spec.pretrained else None
        return [file if file is not None and file.is_file() else None]
