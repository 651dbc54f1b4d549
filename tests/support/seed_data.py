"""The folder ``data/`` of InternVL's evaluation page, made small: each dataset in the form that it is published in."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

from eyechart.datasets.class_texts import subset_indices, wnids
from support import torchvision_formats as formats
from support.data import encoded, noise_image

TORCHVISION = (
    "cifar10", "cifar100", "mnist", "sun397", "fgvc_aircraft", "country211", "cars", "dtd", "eurosat", "food101",
    "gtsrb", "pets", "renderedsst2", "stl10",
)  # fmt: skip
EMOTIONS = ("angry", "disgust", "fear", "happy", "neutral", "sad", "surprise")
XTD = {
    "en": ("XTD10", "a cat", "a dog"), "es": ("XTD10", "un gato", "un perro"), "fr": ("MIC", "un chat", "un chien"),
    "zh": ("XTD10", "一只猫", "一只狗"), "it": ("XTD10", "un gatto", "un cane"), "ko": ("XTD10", "고양이", "개"),
    "ru": ("XTD10", "кот", "собака"), "jp": ("STAIR", "猫", "犬"),
}  # fmt: skip
"""Where the captions of each language come from."""
RESISC = 25_200
"""VTAB tests on what is behind this many images of one TensorFlow dataset."""


def write_seed_data(root: Path, monkeypatch) -> None:
    """Write every dataset that the commands of the page read."""
    _imagenets(root)
    _objectnet(root / "objectnet-1.0")
    for name in TORCHVISION:
        getattr(formats, name)(root, monkeypatch)
    for i in range(102):
        name = ["BACKGROUND_Google", "Faces"][i] if i < 2 else f"z{i:03d}"
        formats.put(root / "caltech101" / "101_ObjectCategories" / name / "image_0001.jpg", i)
    _birdsnap(root / "birdsnap")
    for i, name in enumerate(EMOTIONS):
        formats.put(root / "fer2013" / "test" / name / "1.jpg", i)
    _voc(root / "VOCdevkit" / "VOC2007")
    _flickr(root / "flickr30k")
    _coco(root / "mscoco_captions")
    _tensorflow(root)


def _imagenets(root: Path) -> None:
    ids = list(wnids())
    for i in range(2):
        formats.put(root / "imagenet-1k" / "val" / ids[i] / "a.JPEG", i)
        formats.put(root / "imagenet-sketch" / ids[i] / "a.JPEG", i)
        formats.put(root / "imagenetv2" / "ImageNetV2-matched-frequency" / str(i) / "a.jpeg", i)
        for name in ("imagenet-a", "imagenet-r"):
            formats.put(root / name / ids[subset_indices(name)[i]] / "a.jpg", i)


def _objectnet(base: Path) -> None:
    labels = {name.lower().replace(" ", "_"): name for name in ("Backpack", "Band Aid", "Banana", "Belt", "Bench")}
    formats.text(base / "mappings" / "folder_to_objectnet_label.json", json.dumps(labels))
    imagenet = dict.fromkeys(labels.values(), "x")
    formats.text(base / "mappings" / "objectnet_to_imagenet_1k.json", json.dumps(imagenet))
    for i, folder in enumerate(labels):
        formats.put(base / "images" / folder / "1.png", i)


def _birdsnap(base: Path) -> None:
    species = [f"{i}\tBird {i}\tAvis {i}\tbird_{i}" for i in range(1, 7)]
    formats.text(base / "species.txt", "\n".join(["id\tcommon\tscientific\tdir", *species]) + "\n")
    formats.text(base / "test_images_valid.txt", "path\nBird_2/1.jpg\nBird_1/2.jpg\n")
    for i, file in enumerate(("Bird_2/1.jpg", "Bird_1/2.jpg")):
        formats.put(base / file, i)


def _voc(base: Path) -> None:
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>21</xmax><ymax>22</ymax></bndbox>"
    for i, name in enumerate(("dog", "cat")):
        formats.put(base / "JPEGImages" / f"00000{i}.jpg", i)
        object_ = f"<object><name>{name}</name><difficult>0</difficult>{box}</object>"
        formats.text(base / "Annotations" / f"00000{i}.xml", f"<annotation>{object_}</annotation>")
    formats.text(base / "ImageSets" / "Main" / "test.txt", "000000\n000001\n")


def _flickr(base: Path) -> None:
    rows = [f"{i}.jpg,{caption}" for i in range(12) for caption in (f"Two men ( {i} ) !", f"A dog number {i} .")]
    formats.text(base / "flickr30k_test_karpathy.txt", "\n".join(["image,caption", *rows]) + "\n")
    rows = [f"{i}.jpg,两个男人 {i}" for i in range(12)]
    formats.text(base / "flickr30k_cn_test.txt", "\n".join(["image,caption", *rows]) + "\n")
    for i in range(12):
        formats.put(base / "Images" / f"{i}.jpg", i)


def _coco(base: Path) -> None:
    """Write COCO, COCO-CN and XTD, which share the images."""
    images = [{"id": i, "file_name": f"COCO_val2014_{i:012d}.jpg"} for i in range(12)]
    for image in images:
        formats.put(base / "val2014" / image["file_name"], image["id"])
    _annotations(base / "coco_test_karpathy.json", images, "A cat # {}.")
    chinese = [image | {"file_name": f"val2014/{image['file_name']}"} for image in images]
    _annotations(base / "coco-cn_test.json", chinese, "一只猫 {}。")
    formats.text(base / "test_image_names.txt", "\n".join(image["file_name"] for image in images) + "\n")
    for language, (folder, *words) in XTD.items():
        lines = [f"{words[i % 2]} {i}" for i in range(len(images))]
        formats.text(base / folder / f"test_1kcaptions_{language}.txt", "\n".join(lines) + "\n")


def _annotations(path: Path, images: list[dict], caption: str) -> None:
    notes = [{"image_id": image["id"], "caption": caption.format(image["id"])} for image in images]
    formats.text(path, json.dumps({"images": images, "annotations": notes}))


def _tensorflow(root: Path) -> None:
    """Prepare the two datasets that VTAB has from TensorFlow Datasets."""
    _prepare(root, "oxford_flowers102", "test", 102)
    _prepare(root, "resisc45", "train", 45)
    (folder,) = (root / "resisc45").iterdir()
    (shard,) = folder.glob("*train*")
    # All but the last images are in a first shard, of which nothing is read: a stand-in has its name.
    shutil.copy(shard, folder / shard.name.replace("00000-of-00001", "00000-of-00002"))
    shard.rename(folder / shard.name.replace("00000-of-00001", "00001-of-00002"))
    description = folder / "dataset_info.json"
    known = json.loads(description.read_text())
    known["splits"][0]["shardLengths"] = [str(RESISC), *known["splits"][0]["shardLengths"]]
    description.write_text(json.dumps(known))


def _prepare(root: Path, dataset: str, split: str, classes: int) -> None:
    import tensorflow_datasets as tfds

    names = [f"class {i}" for i in range(classes)]
    described = tfds.features.FeaturesDict(
        {"image": tfds.features.Image(shape=(None, None, 3)), "label": tfds.features.ClassLabel(names=names)}
    )

    def examples():
        for i in range(4):
            yield i, {"image": io.BytesIO(encoded(noise_image(i), "jpg")), "label": i}

    class SmallSet(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        name = dataset
        VERSION = tfds.core.Version("3.0.0")
        pkg_dir_path = None

        def _info(self):
            return tfds.core.DatasetInfo(builder=self, features=described)

        def _split_generators(self, _):
            return {split: examples()}

        def _generate_examples(self):
            raise NotImplementedError

    SmallSet(data_dir=str(root), file_format="array_record").download_and_prepare()
