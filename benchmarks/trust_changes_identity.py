"""Changes that `trust.py` makes to what files and code are identified by: times, mappings, images, versions."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from trust_edits import CLASSIFY, Change, Fault, weights

import eyechart
from eyechart.types import PIPELINE

_SETTLED = 2.5
_TMPFS = Path("/dev/shm")  # noqa: S108 - on Linux only
_mapped: dict[Path, mmap.mmap] = {}
_UNSAMPLED = Fault("io/digests.py", "return int.from_bytes(state.digest()[:8])", "return 0")
_RELIED_ON = Fault("io/digests.py", "return kind if is_image or not", "return kind if not kind and not")
_NO_STEPS = Fault("types.py", "self.precision, steps])", "self.precision])")
_MOUNTED = ["--model_type", "onnx", "--model", "m", "--pretrained", "mounted", "--dataset", "photos"]


@contextmanager
def mapped_weights(world: Path) -> Iterator[Mapping[str, str]]:
    """Map a model on tmpfs into memory, where only the first write to a page changes the times of a file."""
    with tempfile.TemporaryDirectory(dir=_TMPFS) as folder:
        shutil.copytree(world / "model", folder, dirs_exist_ok=True)
        (world / "mounted").symlink_to(folder)
        with (world / "mounted" / "image.onnx").open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
            _mapped[world] = mapped
            mapped[:] = bytes(mapped)
            time.sleep(_SETTLED)
            yield {}


def write_mapped(world: Path) -> None:
    """Write the other weights through the mapping."""
    _mapped[world][:] = (world / "other" / "image.onnx").read_bytes()


def other_weights(world: Path) -> None:
    """Keep other weights of equal size next to the model."""
    shutil.copytree(world / "model", world / "other")
    weights("other/image.onnx", world)


@contextmanager
def mounted(world: Path) -> Iterator[Mapping[str, str]]:
    """Mount a model in a reproducible squashfs image."""
    (world / "mounted").mkdir()
    _mount("model", world)
    try:
        yield {}
    finally:
        subprocess.run(["umount", world / "mounted"], check=True)


def mount_other(world: Path) -> None:
    """Mount the image of the other weights at the same place."""
    subprocess.run(["umount", world / "mounted"], check=True)
    _mount("other", world)


def _mount(folder: str, world: Path) -> None:
    image = world / f"{folder}.img"
    times = ["-all-time", "1600000000", "-mkfs-time", "1600000000", "-noD", "-noF", "-quiet", "-no-progress"]
    subprocess.run(["mksquashfs", world / folder, image, *times], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop,ro", image, world / "mounted"], check=True)


def later_version(path: str, old: str, new: str, step: str, world: Path) -> None:
    """Put a later version of Eyechart into the working folder, where Python finds it first."""
    faulty = world / "faulty" / "eyechart"
    source = faulty if faulty.is_dir() else Path(eyechart.__file__).parent
    shutil.copytree(source, world / "eyechart", ignore=shutil.ignore_patterns("__pycache__"))
    now = f'"{step}": {PIPELINE[step]}'
    for name, before, after in ((path, old, new), ("types.py", now, f"{now}001")):
        file = world / "eyechart" / name
        text = file.read_text()
        if text.count(before) != 1:
            raise ValueError(f"{name} contains {before!r} {text.count(before)} times")
        file.write_text(text.replace(before, after))


CHANGES = [
    *(
        [
            Change(
                "mapping: weights written through a mapping",
                _MOUNTED,
                write_mapped,
                prepare=other_weights,
                serve=mapped_weights,
                defence=(_UNSAMPLED,),
            )
        ]
        if _TMPFS.is_dir()
        else []
    ),
    Change(
        "pipeline: a later version decodes images otherwise",
        CLASSIFY,
        partial(
            later_version,
            "io/images.py",
            "rgb = to_rgb(image)",
            "rgb = to_rgb(image).rotate(90)",
            "decode",
        ),
        defence=(_NO_STEPS,),
    ),
    Change(
        "pipeline: a later version transforms images otherwise",
        CLASSIFY,
        partial(
            later_version,
            "models/towers/preprocess.py",
            'image = image.convert("RGB")\n',
            'image = image.convert("RGB").rotate(90)\n',
            "transform",
        ),
        defence=(_NO_STEPS,),
    ),
    Change(
        "pipeline: a later version tokenizes texts otherwise",
        CLASSIFY,
        partial(
            later_version,
            "models/onnx_encoder.py",
            "self.reading.clean(texts)",
            "self.reading.clean([text[::-1] for text in texts])",
            "tokenize",
        ),
        defence=(_NO_STEPS,),
    ),
    *(
        [
            Change(
                "filesystem: weights in a reproducible squashfs image",
                _MOUNTED,
                mount_other,
                prepare=other_weights,
                serve=mounted,
                defence=(_RELIED_ON, _UNSAMPLED),
            )
        ]
        if shutil.which("mksquashfs") and not os.geteuid()  # mounting needs root
        else []
    ),
]
