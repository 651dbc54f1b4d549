"""Where a number came from: versions, machine, time, command. No secrets."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

LIBRARIES = (
    "eyechart",
    "numpy",
    "pillow",
    "onnxruntime",
    "tokenizers",
    "torch",
    "torchvision",
    "open_clip_torch",
    "transformers",
)
SECRET_FLAGS = ("key", "token", "password", "secret")


def provenance(command: Sequence[str] | None = None) -> dict[str, Any]:
    """Describe this moment and machine."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": installed_versions(),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "machine": platform.machine(),
        "command": shlex.join(without_secrets(command if command is not None else sys.argv)),
    }


def installed_versions() -> dict[str, str]:
    """Return the versions of the libraries that can change a number."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            # Not installed: an optional extra, or the package itself run from a source tree.
            continue
    return found


def without_secrets(command: Sequence[str]) -> list[str]:
    """Blank out the values of flags that carry a secret."""
    out: list[str] = []
    hide = False
    for word in command:
        flag, equals, _ = word.partition("=")
        secret = flag.startswith("-") and any(part in flag.lower() for part in SECRET_FLAGS)
        out.append("***" if hide else f"{flag}=***" if secret and equals else word)
        hide = secret and not equals
    return out
