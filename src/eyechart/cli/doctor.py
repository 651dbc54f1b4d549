"""``eyechart doctor``: check the installation and give advice."""

import argparse
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from eyechart.cli.flags.parser import table
from eyechart.io.files import cache_root
from eyechart.io.terminal import make_console, translate, width_of
from eyechart.io.text_tables import columns_of, lay_out
from eyechart.messages import UserMessage

SECTIONS = {
    "here": "this installation:",
    "ok": "you can:",
    "missing": "missing; to install one: {pip} install 'eyechart[NAME]'",
    "problem": "problems:",
}
STYLES = {"here": "bold", "ok": "bold green", "missing": "bold yellow", "problem": "bold red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no arguments."""


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - same signature as all commands
    """Print what is here, what works, what is missing for what, and problems; return 1 if there is one."""
    findings = examine()
    console = make_console(soft_wrap=True)
    details = (": ".join(map(translate, filter(None, (one.detail, one.advice)))) for one in findings)
    rows = [(translate(one.what), detail) for one, detail in zip(findings, details, strict=True)]
    width = width_of(sys.stdout)
    laid_out = lay_out(columns_of("", "", wraps=True), rows, width and width - 2)[1:]
    for state, heading in SECTIONS.items():
        shown = [lines for one, lines in zip(findings, laid_out, strict=True) if one.state == state]
        if shown:
            console.print(translate(UserMessage(heading, pip=_pip())), style=STYLES[state])
        for line in chain.from_iterable(shown):
            console.print(f"  {line}")
    return int(any(finding.state == "problem" for finding in findings))


LOW_SPACE = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    what: str
    state: str
    """A key of `SECTIONS`."""
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
        *_torch(),
        _verdict("run the demo with the embedded model", whole, "eyechart-tiny", "Reinstall eyechart.", state="ok"),
        Finding("evaluate ONNX models and servers (API)", "ok", _version("onnxruntime")),
        *(
            Finding(purpose, "missing", extra)
            if find_spec(module) is None
            else Finding(purpose, "ok", _version(module))
            for module, (extra, purpose) in table("extras").items()
        ),
        _cache(),
        _verdict("this folder", os.access(here, os.W_OK), str(here), output),
    ]


def _verdict(what: str, good: bool, detail: str, advice: str, *, state: str = "here") -> Finding:
    return Finding(what, state, detail) if good else Finding(what, "problem", detail, advice)


def _torch() -> Iterator[Finding]:
    if find_spec("torch") is None:
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
    yield Finding("torch", "here", UserMessage("{known}, {gpus}", known=known, gpus=", ".join(gpus)) if gpus else none)
    if find_spec("torchvision") is not None:
        try:
            import torchvision  # noqa: F401
        except (ImportError, OSError, RuntimeError) as error:
            # Built for another torch version: its compiled operators are missing, and open_clip fails to import.
            advice = "Install matching versions, for example torch==2.14.1 torchvision==0.29.1."
            yield Finding("torchvision with torch", "problem", str(error).splitlines()[0], advice)


def _version(module: str) -> str:
    """Return a library and its version; the name of the distribution may differ from the module's."""
    for name in (module, f"{module}_torch", module.replace("_", "-"), f"{module}-gpu"):
        with suppress(PackageNotFoundError):
            return f"{module} {version(name)}"
    return module


def _pip() -> str:
    """Return the command of this environment's pip, which ``pip`` is only if the environment is active."""
    here = Path(sys.executable)
    if str(here) == shutil.which("python"):
        return "pip"
    shown = here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here
    return f"{shlex.quote(str(shown))} -m pip"


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
