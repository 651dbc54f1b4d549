"""The data of the speed comparison: photographs-sized JPEGs in webdataset layout."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.data import encoded, write_shards

SIZE = (500, 375)
ADJECTIVES = ["small", "large", "old", "new", "red", "blue", "green", "dark", "bright", "wooden"]
NOUNS = ["dog", "cat", "house", "car", "tree", "boat", "bird", "chair", "table", "horse"]
CLASSES = [f"{adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS]
SCENES = ["photo", "image", "sketch", "painting", "drawing"]
STYLES = ["of a {c}.", "of the {c}.", "showing one {c}.", "of a hard to see {c}."]
TEMPLATES = [f"a {scene} {style}" for scene in SCENES for style in STYLES]
OTHER_TEMPLATES = [f"here is a {scene} {style}" for scene in SCENES for style in STYLES]


def jpeg(seed: int) -> bytes:
    """Make a smooth image that costs as much to decode as a photograph."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize(SIZE, Image.Resampling.BICUBIC)
    noise = rng.normal(0, 12, (SIZE[1], SIZE[0], 3))
    pixels = np.clip(np.asarray(coarse, np.float32) + noise, 0, 255).astype(np.uint8)
    return encoded(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(0.6)), "jpg")


def write_classification(root: Path, n: int, classes: int = len(CLASSES)) -> Path:
    """Write ``n`` images of some classes with 20 templates, once."""
    if not (root / "test" / "nshards.txt").exists():
        root.mkdir(parents=True, exist_ok=True)
        (root / "classnames.txt").write_text("\n".join(CLASSES[:classes]))
        (root / "zeroshot_classification_templates.txt").write_text("\n".join(TEMPLATES))
        rows = [[(f"s{i:07d}.jpg", jpeg(i)), (f"s{i:07d}.cls", str(i % classes).encode())] for i in range(n)]
        write_shards(root / "test", rows, 2)
    return root


def write_retrieval(root: Path, n: int) -> Path:
    """Write ``n`` images with five captions each, once."""
    if not (root / "test" / "nshards.txt").exists():
        root.mkdir(parents=True, exist_ok=True)
        (root / "dataset_type.txt").write_text("retrieval")
        rows = []
        for i in range(n):
            words = [f"{NOUNS[(i + j) % 10]} number {i} beside a {CLASSES[(7 * i + j) % 100]}" for j in range(5)]
            rows.append([(f"s{i:07d}.jpg", jpeg(10_000 + i)), (f"s{i:07d}.txt", "\n".join(words).encode())])
        write_shards(root / "test", rows, 2)
    return root
