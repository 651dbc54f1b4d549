"""Classify the CIFAR-10 test images with a ResNet checkpoint, without Eyechart, ONNX, text or files in between.

The counterpart of `published.py`: the network is computed from the checkpoint's tensors by functions of torch, in a
process of its own. `published_script.py CHECKPOINT test_batch.png OUTPUT.npy` writes one class index per image.
"""

import sys

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from PIL import Image

MEAN, STD = (torch.tensor(row).view(1, 3, 1, 1) for row in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))


def main() -> int:
    """Read, classify, write."""
    checkpoint, sheet, output = sys.argv[1:]
    weights = torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"]
    weights = {name.removeprefix("module."): value.float() for name, value in weights.items()}
    images = torch.from_numpy(np.asarray(Image.open(sheet)).reshape(-1, 32, 32, 3).copy()).permute(0, 3, 1, 2)
    with torch.inference_mode():
        found = [logits((part / 255 - MEAN) / STD, weights).argmax(1) for part in images.split(500)]
    np.save(output, torch.cat(found).numpy())
    return 0


def logits(x: torch.Tensor, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """Compute the ten logits."""

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        mean, variance, scale, shift = (
            weights[f"{name}.{part}"].view(1, -1, 1, 1) for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / torch.sqrt(variance + 1e-5) * scale + shift

    x = norm(F.conv2d(x, weights["conv1.weight"], padding=1), "bn1").relu()
    for stage in (1, 2, 3):
        for block in range(sum(name.startswith(f"layer{stage}.") for name in weights if name.endswith("conv1.weight"))):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = F.conv2d(x, weights[f"{name}.conv1.weight"], stride=stride, padding=1)
            y = F.conv2d(norm(y, f"{name}.bn1").relu(), weights[f"{name}.conv2.weight"], padding=1)
            if stride == 2:
                x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, x.shape[1] // 2, x.shape[1] // 2))
            x = (norm(y, f"{name}.bn2") + x).relu()
    return F.linear(x.mean((2, 3)), weights["linear.weight"], weights["linear.bias"])


if __name__ == "__main__":
    sys.exit(main())
