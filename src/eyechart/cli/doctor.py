"""``eyechart doctor``: check the installation and give advice."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from eyechart.io.files import cache_root
from eyechart.io.terminal import make_console, translate, width_of
from eyechart.io.text_tables import columns_of, lay_out
from eyechart.messages import UserMessage

STYLES = {"ok": "green", "missing": "yellow", "problem": "bold red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no arguments."""


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - same signature as all commands
    """Print one line per check; return 1 if there is a problem."""
    from rich.text import Text

    findings = examine()
    rows = [
        (translate(one.state), translate(one.what), ": ".join(filter(None, map(translate, (one.detail, one.advice)))))
        for one in findings
    ]
    console = make_console(soft_wrap=True)
    laid_out = lay_out(columns_of("", "", "", wraps=True), rows, width_of(sys.stdout))[1:]
    for finding, lines in zip(findings, laid_out, strict=True):
        text = Text("\n".join(lines))
        text.stylize(STYLES[finding.state], 0, len(translate(finding.state)))
        console.print(text)
    return int(any(finding.state == "problem" for finding in findings))


# Checks of the installation, with advice for what is missing or broken.


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
"""The extra that installs each optional library."""
LOW_SPACE = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    what: str
    state: str
    """``ok``, ``missing`` (something optional) or ``problem``."""
    detail: str
    advice: str = ""


def examine() -> list[Finding]:
    """Check the installation, extras, devices, caches and incompatible versions."""
    from eyechart.demo import model_folder

    here = Path.cwd()
    system = UserMessage(
        "{version} on {platform}, {n} cores",
        version=platform.python_version(),
        platform=platform.platform(terse=True),
        n=os.cpu_count(),
    )
    whole = (model_folder() / "image.onnx").is_file()
    output = UserMessage("Choose another folder with {--output}.")
    return [
        _verdict("Python", sys.version_info >= (3, 11), system, "Install Python 3.11 or newer."),
        _verdict("embedded model", whole, "eyechart-tiny", "Reinstall eyechart."),
        *_torch(),
        *map(_extra, EXTRAS),
        _cache(),
        _verdict("this folder", os.access(here, os.W_OK), str(here), output),
    ]


def _verdict(what: str, good: bool, detail: str, advice: str) -> Finding:
    return Finding(what, "ok", detail) if good else Finding(what, "problem", detail, advice)


def _torch() -> Iterator[Finding]:
    if find_spec("torch") is None:
        yield Finding("torch", "missing", "not installed", "pip install 'eyechart[open-clip]'")
        return
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding(
            "torch", "problem", UserMessage("cannot be imported ({reason})", reason=error), "Reinstall torch."
        )
        return
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    known = torch.__version__
    none = UserMessage("{version}, no GPU: float32 on the CPU", version=known)
    yield Finding("torch", "ok", UserMessage("{known}, {gpus}", known=known, gpus=", ".join(gpus)) if gpus else none)
    if find_spec("torchvision") is not None:
        try:
            import torchvision
        except (ImportError, OSError, RuntimeError) as error:
            # Built for another torch version: its compiled operators are missing, and open_clip fails to import.
            advice = "Install matching versions, for example torch==2.14.1 torchvision==0.29.1."
            yield Finding("torchvision with torch", "problem", str(error).splitlines()[0], advice)
        else:
            yield Finding("torchvision with torch", "ok", str(torchvision.__version__))


def _extra(module: str) -> Finding:
    if find_spec(module) is None:
        advice = UserMessage("pip install 'eyechart[{extra}]'", extra=EXTRAS[module])
        return Finding(module, "missing", "not installed", advice)
    # The distribution's name may differ from the module's.
    for name in (module, f"{module}_torch", module.replace("_", "-")):
        with suppress(PackageNotFoundError):
            return Finding(module, "ok", version(name))
    return Finding(module, "ok", "installed")


def _cache() -> Finding:
    root = cache_root()
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    if not os.access(existing, os.W_OK):
        detail = UserMessage("{path} cannot be written", path=root)
        return Finding("cache", "problem", detail, "Set EYECHART_CACHE to another folder.")
    free = shutil.disk_usage(existing).free
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) if root.exists() else 0
    detail = UserMessage("{path}: {size:.0f} MB used, {free:.0f} GB free", path=root, size=size / 1e6, free=free / 1e9)
    return _verdict("cache", free > LOW_SPACE, detail, "Free some space.")
