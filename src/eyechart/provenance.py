"""Provenance of results: versions, machine, time and command, without secrets."""

import platform
import shlex
import sys
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from eyechart import __version__
from eyechart.io.secrets import redact_command

LIBRARIES = ("numpy", "pillow", "onnxruntime", "tokenizers", "torch", "torchvision", "open_clip_torch", "transformers")


def provenance() -> dict[str, Any]:
    """Describe the current environment."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": dict(_installed_versions()),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "machine": platform.machine(),
        "command": shlex.join(redact_command(sys.argv)),
    }


def compute_facts(device: str | None) -> dict[str, Any]:
    """Describe where a job was computed: devices, their names, and peak memory in bytes since `reset_peak_memory`."""
    if device is None:
        return {"device": None}
    gpus = [name for name in device.split(",") if name.startswith("cuda")]
    torch = sys.modules.get("torch") if gpus else None  # onnxruntime does not name GPUs
    names = [torch.cuda.get_device_name(name) for name in gpus] if torch else [] if gpus else [_cpu_name()]
    facts = {"device": device, "device_name": ", ".join(dict.fromkeys(names)) or None, "peak_memory": _peak_memory()}
    return facts | ({"peak_gpu_memory": max(map(torch.cuda.max_memory_allocated, gpus))} if torch else {})


def reset_peak_memory() -> None:
    """Reset the peak memory counter where the system allows it (Linux, CUDA)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        for number in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(number)


def _peak_memory() -> int:
    """Return the highest resident memory of this process in bytes."""
    if known := _proc("status", "VmHWM"):
        return int(known.split()[0]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@cache
def _cpu_name() -> str:
    return _proc("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def _proc(file: str, key: str) -> str:
    """Return a value of a file below /proc/self; empty where there is none."""
    with suppress(OSError):
        for line in Path("/proc/self", file).read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    return ""


@cache
def _installed_versions() -> dict[str, str]:
    """Return the versions of libraries that can change numbers, cached because the lookup is slow."""
    found = {"eyechart": __version__}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):  # an optional extra
            found[name] = version(name)
    return found
