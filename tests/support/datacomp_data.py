"""Data for the script in DataComp's manner: webdatasets in its folders, captions, and a small model of open_clip."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from support.data import encoded, labels_to_npy, noise_image, png, write_shards

SCRIPT = Path(__file__).parent / "scripts" / "datacomp_like.py"
N = 60
ARCHITECTURE = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
TEMPLATES = ["a photo of a {c}.", "a bad photo of the {c}."]
FORMS = [("png", "RGB"), ("png", "L"), ("jpg", "RGB"), ("webp", "RGBA"), ("png", "P")]
FACES = {"colour": ["red", "green", "blue"], "age": ["old", "young"]}


def write_all(root: Path) -> Path:
    """Write the folders that the script reads."""
    rng = np.random.default_rng(0)
    for task, count in (("seven", 7), ("vtab-three", 3)):
        labels = [int(label) for label in rng.integers(0, count, N)]
        _folder(root, task, _names(count), TEMPLATES, [[("cls", str(label).encode())] for label in labels])
    vectors = (rng.random((N, 6)) < 0.4).astype(int)
    vectors[np.arange(6), np.arange(6)] = 1
    _folder(root, "many", _names(6), TEMPLATES, [[("npy", labels_to_npy(row.tolist()))] for row in vectors])
    (root / "wds_many_test" / "dataset_type.txt").write_text("multilabel")
    columns = rng.integers(0, 2, (N, 2)).tolist()
    members = [[("cls", str(i % 3).encode()), ("npy", labels_to_npy(row))] for i, row in enumerate(columns)]
    _folder(root, "wilds-columns", _names(3), TEMPLATES, members)
    names = [f"{objective}:{name}" for objective, classes in FACES.items() for name in classes]
    templates = [f"{objective}:{text}" for objective in FACES for text in TEMPLATES]
    _folder(root, "faces", names, templates, [[("npy", labels_to_npy(row))] for row in columns])
    rows = [[f"{i}.png", [f"caption {j} of thing {i}" for j in range(1 + i % 3)]] for i in range(N)]
    (root / "captions").mkdir()
    for i in range(N):
        (root / "captions" / f"{i}.png").write_bytes(png(i))
    (root / "captions" / "captions.json").write_text(json.dumps(rows))
    return root


def write_model(folder: Path) -> tuple[Path, Path]:
    """Write an architecture and a checkpoint with random weights."""
    import open_clip
    import torch

    architecture, checkpoint = folder / "small.json", folder / "small.pt"
    architecture.write_text(json.dumps(ARCHITECTURE))
    open_clip.add_model_config(architecture)
    torch.manual_seed(0)
    model = open_clip.create_model("small")
    for weights in model.parameters():
        if weights.ndim > 1:  # open_clip's own start is so small that all images look alike
            torch.nn.init.normal_(weights, std=0.2)
    torch.save(model.state_dict(), checkpoint)
    return architecture, checkpoint


def _names(count: int) -> list[str]:
    return [f"thing number {i}" for i in range(count)]


def _folder(root: Path, task: str, names: list[str], templates: list[str], members: list) -> None:
    folder = root / f"wds_{task}_test"
    folder.mkdir(parents=True)
    (folder / "classnames.txt").write_text("\n".join(names))
    (folder / "zeroshot_classification_templates.txt").write_text("\n".join(templates))
    rows = []
    for i, targets in enumerate(members):
        form, mode = FORMS[i % len(FORMS)]
        image = encoded(noise_image(i, (40 + i, 60 - i // 2), mode), form)
        rows.append([(f"s{i:07d}.{ending}", data) for ending, data in ((form, image), *targets)])
    write_shards(folder / "test", rows, 2)
