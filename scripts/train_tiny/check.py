"""Score a model folder on the demo data with onnxruntime, tokenizers, numpy and Pillow alone.

A second, independent implementation of what `eyechart demo` computes: training uses it for its report on
validation data, and anybody can use it to see that the shipped numbers are what they are said to be.

    python scripts/train_tiny/check.py --demo src/eyechart/demo
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image
from tokenizers import Tokenizer

BATCH = 200


class Model:
    """A folder with `image.onnx`, `text.onnx`, `tokenizer.json` and their settings."""

    def __init__(self, folder: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        self._image = onnxruntime.InferenceSession(folder / "image.onnx", options)
        self._text = onnxruntime.InferenceSession(folder / "text.onnx", options)
        self._preprocessing = json.loads((folder / "preprocessor_config.json").read_text())
        context = json.loads((folder / "eyechart.json").read_text())["context_length"]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(context)
        self._tokenizer.enable_padding()

    def _pixels(self, image: Image.Image) -> np.ndarray:
        p = self._preprocessing
        resized = image.convert("RGB").resize((p["size"]["width"], p["size"]["height"]), p["resample"])
        scaled = np.asarray(resized, dtype=np.float32) * np.float32(p["rescale_factor"])
        mean, std = (np.array(p[key], dtype=np.float32) for key in ("image_mean", "image_std"))
        return ((scaled - mean) / std).transpose(2, 0, 1)

    def images(self, images: list[Image.Image]) -> np.ndarray:
        """Unit vectors of images."""
        batches = [images[i : i + BATCH] for i in range(0, len(images), BATCH)]
        outputs = [
            self._image.run(["image_embeds"], {"pixel_values": np.stack([self._pixels(i) for i in batch])})[0]
            for batch in batches
        ]
        return _unit(np.concatenate(outputs))

    def texts(self, texts: list[str]) -> np.ndarray:
        """Unit vectors of texts."""
        encodings = self._tokenizer.encode_batch(texts)
        inputs = {
            "input_ids": np.array([e.ids for e in encodings], dtype=np.int64),
            "attention_mask": np.array([e.attention_mask for e in encodings], dtype=np.int64),
        }
        return _unit(self._text.run(["text_embeds"], inputs)[0])


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def read_samples(folder: Path) -> list[dict[str, bytes]]:
    """The samples of a webdataset's test split, their files by ending."""
    samples: dict[str, dict[str, bytes]] = {}
    for shard in range(int((folder / "test" / "nshards.txt").read_text())):
        with tarfile.open(folder / "test" / f"{shard}.tar") as tar:
            for member in tar:
                key, _, ending = member.name.partition(".")
                stream = tar.extractfile(member)
                if stream is not None:
                    samples.setdefault(key, {})[ending] = stream.read()
    return list(samples.values())


def _decode(samples: list[dict[str, bytes]]) -> list[Image.Image]:
    return [Image.open(io.BytesIO(sample["png"])) for sample in samples]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def classification(model: Model, folder: Path) -> dict[str, dict[str, float]]:
    """acc1 by language, each class being the renormalised mean of its templates' unit vectors."""
    samples = read_samples(folder)
    labels = np.array([int(sample["cls"]) for sample in samples])
    images = model.images(_decode(samples))
    results = {}
    for language, suffix in (("en", ""), ("de", ".de")):
        templates = _lines(folder / f"zeroshot_classification_templates{suffix}.txt")
        names = _lines(folder / f"classnames{suffix}.txt")
        classes = [model.texts([t.replace("{c}", name) for t in templates]).mean(axis=0) for name in names]
        correct = (images @ _unit(np.stack(classes)).T).argmax(axis=1) == labels
        results[language] = {
            "acc1": float(correct.mean()),
            "worst class": min(float(correct[labels == label].mean()) for label in set(labels)),
        }
    return results


def retrieval(model: Model, folder: Path) -> dict[str, dict[str, float]]:
    """Hit rates at 1 and 5 by language and direction; a wrong candidate with an equal score ranks first."""
    samples = read_samples(folder)
    images = model.images(_decode(samples))
    results = {}
    for language, ending in (("en", "txt"), ("de", "de.txt")):
        captions = [sample[ending].decode().splitlines() for sample in samples]
        owner = np.repeat(np.arange(len(samples)), [len(c) for c in captions])
        scores = images @ model.texts([text for lines in captions for text in lines]).T
        right = owner[None, :] == np.arange(len(samples))[:, None]
        for_text, for_image = _ranks(scores.T, right.T), _ranks(scores, right)
        results[language] = {
            f"{name}_retrieval_recall@{k}": float((ranks < k).mean())
            for name, ranks in (("image", for_text), ("text", for_image))
            for k in (1, 5)
        }
    return results


def _ranks(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    best = np.where(right, scores, -np.inf).max(axis=1, keepdims=True)
    return ((scores >= best) & ~right).sum(axis=1)


def report(model_folder: Path, data_folder: Path) -> None:
    """Print the scores of a model on the two demo sets of a folder."""
    model = Model(model_folder)
    for name, score in (("garments", classification), ("scenes", retrieval)):
        for language, metrics in score(model, data_folder / name).items():
            print(f"{name} [{language}]  " + "  ".join(f"{k} {v:.4f}" for k, v in metrics.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", type=Path, required=True, help="folder that holds model/ and data/")
    demo = parser.parse_args().demo
    report(demo / "model", demo / "data")
