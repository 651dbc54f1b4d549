"""torchvision's own on-disk formats, made small: what its classes read after a download."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct
from pathlib import Path

import numpy as np

from support.data import encoded, noise_image

LABELS = [2, 0, 1, 2]
"""The labels of the four test images of every set, unless it has two classes only."""
BINARY = [1, 0, 0, 1]


def pixels(n: int, side: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, 3), np.uint8)


def put(path: Path, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    form = {".jpg": "jpg", ".jpeg": "jpg"}.get(path.suffix.lower(), path.suffix[1:])
    path.write_bytes(encoded(noise_image(seed), form))
    return path


def text(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def cifar(root: Path, monkeypatch, *, name: str, folder: str, file: str, labels: str, names: str, meta: str) -> None:
    """Write the Python batches; torchvision checks their MD5, so the class is told the small files'."""
    import torchvision.datasets

    base = root / folder
    base.mkdir(parents=True)
    data = pixels(4, 32).transpose(0, 3, 1, 2).reshape(4, -1)
    (base / file).write_bytes(pickle.dumps({"data": data, labels: LABELS}, protocol=2))
    (base / meta).write_bytes(pickle.dumps({names: ["cat", "dog", "cow"]}, protocol=2))
    kind = getattr(torchvision.datasets, name)
    monkeypatch.setattr(kind, "test_list", [[file, md5(base / file)]])
    monkeypatch.setattr(kind, "train_list", [])
    monkeypatch.setattr(kind, "meta", {"filename": meta, "key": names, "md5": md5(base / meta)})


def cifar10(root, monkeypatch):
    cifar(
        root, monkeypatch, name="CIFAR10", folder="cifar-10-batches-py", file="test_batch", labels="labels",
        names="label_names", meta="batches.meta",
    )  # fmt: skip


def cifar100(root, monkeypatch):
    cifar(
        root, monkeypatch, name="CIFAR100", folder="cifar-100-python", file="test", labels="fine_labels",
        names="fine_label_names", meta="meta",
    )  # fmt: skip


def mnist(root, _):
    base = root / "MNIST" / "raw"
    base.mkdir(parents=True)
    for part in ("t10k", "train"):
        images = pixels(4, 28)[..., 0]
        (base / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, 4, 28, 28) + images.tobytes())
        (base / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 4) + bytes(LABELS))


def stl10(root, monkeypatch):
    import torchvision.datasets

    base = root / "stl10_binary"
    base.mkdir(parents=True)
    (base / "test_X.bin").write_bytes(pixels(4, 96).transpose(0, 3, 2, 1).tobytes())
    (base / "test_y.bin").write_bytes(bytes(label + 1 for label in LABELS))
    (base / "class_names.txt").write_text("airplane\nbird\ncar\n")
    kind = torchvision.datasets.STL10
    monkeypatch.setattr(kind, "train_list", [])
    monkeypatch.setattr(kind, "test_list", [[name, md5(base / name)] for name in ("test_X.bin", "test_y.bin")])


def food101(root, _):
    base = root / "food-101"
    names = ["apple_pie", "baby_back_ribs", "baklava"]
    files = {name: [f"{name}/{i}" for i, label in enumerate(LABELS) if names[label] == name] for name in names}
    for split in ("train", "test"):
        text(base / "meta" / f"{split}.json", json.dumps(files))
    for stems in files.values():
        for stem in stems:
            put(base / "images" / f"{stem}.jpg", int(stem.split("/")[1]))


def sun397(root, _):
    base = root / "SUN397"
    names = ["/a/abbey", "/a/airport/terminal", "/b/beer_garden"]
    text(base / "ClassName.txt", "\n".join(names) + "\n")
    for i, label in enumerate(LABELS):
        put(base / names[label][1:] / f"sun_{i}.jpg", i)


def cars(root, _):
    import scipy.io

    base = root / "stanford_cars"
    (base / "devkit").mkdir(parents=True)
    names = np.array(["AM General Hummer", "Acura RL", "Audi A5"], dtype=object)
    scipy.io.savemat(base / "devkit" / "cars_meta.mat", {"class_names": names})
    rows = np.zeros(len(LABELS), dtype=[("class", object), ("fname", object)])
    for i, label in enumerate(LABELS):
        rows[i] = (label + 1, f"{i:05d}.jpg")
        put(base / "cars_test" / f"{i:05d}.jpg", i)
    scipy.io.savemat(base / "cars_test_annos_withlabels.mat", {"annotations": rows})


def fgvc_aircraft(root, _):
    data = root / "fgvc-aircraft-2013b" / "data"
    names = ["707-320", "727-200", "A300B4"]
    text(data / "variants.txt", "\n".join(names) + "\n")
    text(data / "images_variant_test.txt", "".join(f"{i:07d} {names[label]}\n" for i, label in enumerate(LABELS)))
    for i in range(len(LABELS)):
        put(data / "images" / f"{i:07d}.jpg", i)


def dtd(root, _):
    base = root / "dtd" / "dtd"
    names = ["banded", "blotchy", "braided"]
    files = [f"{names[label]}/{names[label]}_{i:04d}.jpg" for i, label in enumerate(LABELS)]
    text(base / "labels" / "test1.txt", "\n".join(files) + "\n")
    for i, file in enumerate(files):
        put(base / "images" / file, i)


def pets(root, _):
    base = root / "oxford-iiit-pet"
    names = ["Abyssinian", "american_bulldog", "Bengal"]
    lines = [f"{names[label]}_{i} {label + 1} 1 1" for i, label in enumerate(LABELS)]
    text(base / "annotations" / "test.txt", "\n".join(lines) + "\n")
    for i, line in enumerate(lines):
        put(base / "images" / f"{line.split()[0]}.jpg", i)


def flowers(root, monkeypatch):
    import scipy.io
    import torchvision.datasets

    base = root / "flowers-102"
    for i in range(4):
        put(base / "jpg" / f"image_{i + 1:05d}.jpg", i)
    scipy.io.savemat(base / "imagelabels.mat", {"labels": np.array([[label + 1 for label in LABELS]])})
    scipy.io.savemat(base / "setid.mat", {"tstid": np.array([[1, 2, 3, 4]])})
    kind = torchvision.datasets.Flowers102
    files = {key: (name, md5(base / name)) for key, name in (("label", "imagelabels.mat"), ("setid", "setid.mat"))}
    monkeypatch.setattr(kind, "_file_dict", {**kind._file_dict, **files})


def folders(base: Path, names: list[str], labels: list[int], suffix: str) -> None:
    for i, label in enumerate(labels):
        put(base / names[label] / f"{i}{suffix}", i)


def eurosat(root, _):
    folders(root / "eurosat" / "2750", ["AnnualCrop", "Forest", "HerbaceousVegetation"], LABELS, ".jpg")


def country211(root, _):
    folders(root / "country211" / "test", ["AD", "AE", "AF"], LABELS, ".jpg")


def renderedsst2(root, _):
    folders(root / "rendered-sst2" / "test", ["negative", "positive"], BINARY, ".png")


def gtsrb(root, _):
    base = root / "gtsrb" / "GTSRB" / "Final_Test" / "Images"
    rows = ["Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"]
    for i, label in enumerate(LABELS):
        put(base / f"{i:05d}.ppm", i)
        rows.append(f"{i:05d}.ppm;40;30;1;1;39;29;{label}")
    text(root / "gtsrb" / "GT-final_test.csv", "\n".join(rows) + "\n")


def pcam(root, _):
    import h5py

    base = root / "pcam"
    base.mkdir(parents=True)
    with h5py.File(base / "camelyonpatch_level_2_split_test_x.h5", "w") as file:
        file["x"] = pixels(4, 96)
    with h5py.File(base / "camelyonpatch_level_2_split_test_y.h5", "w") as file:
        file["y"] = np.array(BINARY).reshape(4, 1, 1, 1)
