"""What can be used here, and what to do about the rest."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from eyechart.io.files import cache_root

EXTRAS = {
    "open_clip": "open-clip",
    "transformers": "transformers",
    "sentence_transformers": "sentence-transformers",
    "ray": "ray",
    "s3fs": "cloud",
    "huggingface_hub": "hub",
    "modelscope": "hub",
    "tensorflow_datasets": "tfds",
    "torchvision": "torchvision",
    "pyarrow": "parquet",
    "openpyxl": "xlsx",
    "mteb": "mteb",
    "pandas": "pandas",
    "matplotlib": "plot",
}
"""Libraries, and the extra of ours that brings each."""
LOW_SPACE = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    what: str
    state: str
    """``ok``, ``missing`` (something optional) or ``problem``."""
    detail: str
    advice: str = ""


def _verdict(what: str, good: bool, detail: str, advice: str) -> Finding:
    return Finding(what, "ok", detail) if good else Finding(what, "problem", detail, advice)


def examine() -> list[Finding]:
    """Check the installation, extras, devices, caches and versions that are known not to work together."""
    return [finding for check in _CHECKS for finding in check()]


def _python() -> Iterator[Finding]:
    detail = f"{platform.python_version()} on {platform.platform(terse=True)}, {os.cpu_count()} cores"
    yield _verdict("Python", sys.version_info >= (3, 11), detail, "Python 3.11 or newer is needed.")


def _embedded() -> Iterator[Finding]:
    from eyechart.demo import model_folder

    whole = (model_folder() / "image.onnx").is_file()
    yield _verdict("embedded model", whole, "eyechart-tiny", "Reinstall eyechart.")


def _extras() -> Iterator[Finding]:
    for module, extra in EXTRAS.items():
        if find_spec(module) is None:
            yield Finding(module, "missing", "not installed", f"pip install 'eyechart[{extra}]'")
        else:
            yield Finding(module, "ok", _version(module))


def _torch() -> Iterator[Finding]:
    if find_spec("torch") is None:
        yield Finding("torch", "missing", "not installed", "pip install 'eyechart[open-clip]'")
        return
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding("torch", "problem", f"cannot be imported ({error})", "Reinstall torch.")
        return
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    detail = f"{torch.__version__}, {', '.join(gpus) if gpus else 'no GPU: float32 on the CPU'}"
    yield Finding("torch", "ok", detail)
    if find_spec("torchvision") is not None:
        yield _torchvision()


def _torchvision() -> Finding:
    try:
        import torchvision
    except (ImportError, OSError, RuntimeError) as error:
        # A build for another torch: its compiled operators are missing, and open_clip fails with it.
        advice = "Install the pair that belongs together, for example torch==2.14.1 torchvision==0.29.1."
        return Finding("torchvision with torch", "problem", str(error).splitlines()[0], advice)
    return Finding("torchvision with torch", "ok", str(torchvision.__version__))


def _cache() -> Iterator[Finding]:
    root = cache_root()
    existing = root
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not os.access(existing, os.W_OK):
        yield Finding("cache", "problem", f"{root} cannot be written", "Set EYECHART_CACHE to another folder.")
        return
    free = shutil.disk_usage(existing).free
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) if root.exists() else 0
    detail = f"{root}: {size / 1e6:.0f} MB used, {free / 1e9:.0f} GB free"
    yield _verdict("cache", free > LOW_SPACE, detail, "Free some space.")


def _outputs() -> Iterator[Finding]:
    here = Path.cwd()
    yield _verdict("this folder", os.access(here, os.W_OK), str(here), "Use --output elsewhere.")


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (_python, _embedded, _torch, _extras, _cache, _outputs)


def _version(module: str) -> str:
    for name in (module, f"{module}_torch", module.replace("_", "-")):
        try:
            return version(name)
        except PackageNotFoundError:
            # The package is called otherwise than its module; the next spelling may be right.
            continue
    return "installed"
