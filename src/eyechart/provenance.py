"""Provenance of results: versions, machine, time and command, without secrets."""

from __future__ import annotations

import platform
import shlex
import sys
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
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


@cache
def _installed_versions() -> dict[str, str]:
    """Return the versions of libraries that can change numbers, cached because the lookup is slow."""
    found = {"eyechart": __version__}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):  # an optional extra
            found[name] = version(name)
    return found
