"""Where a number came from: versions, machine, time, command. No secrets."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from eyechart import __version__

LIBRARIES = (
    "numpy",
    "pillow",
    "onnxruntime",
    "tokenizers",
    "torch",
    "torchvision",
    "open_clip_torch",
    "transformers",
)
SECRET = re.compile(r"(.*[-_])?(key|token|password|secret)", re.IGNORECASE)
"""The name of a flag, or of an option (``--model_option api_key=...``), whose value is a secret."""


def provenance() -> dict[str, Any]:
    """Describe this moment and machine."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": dict(_installed_versions()),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "machine": platform.machine(),
        "command": shlex.join(without_secrets(sys.argv)),
    }


@cache
def _installed_versions() -> dict[str, str]:
    """Return the versions of the libraries that can change a number; looking them up takes as long as a small job."""
    found = {"eyechart": __version__}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            # Not installed: an optional extra.
            continue
    return found


def without_secrets(command: Sequence[str]) -> list[str]:
    """Blank out the values of flags and options that carry a secret."""
    out: list[str] = []
    hide = False
    for word in command:
        name, equals, _ = word.partition("=")
        secret = SECRET.fullmatch(name) is not None
        out.append("***" if hide else f"{name}=***" if secret and equals else word)
        hide = secret and not equals and word.startswith("-")
    return out


def without_secret_values(settings: Any) -> Any:
    """Return a copy of settings in which the values of what is called a key, a token or the like are blank."""
    if isinstance(settings, Mapping):
        hidden = {name for name, item in settings.items() if isinstance(item, str) and SECRET.fullmatch(str(name))}
        return {name: "***" if name in hidden else without_secret_values(item) for name, item in settings.items()}
    return [without_secret_values(item) for item in settings] if isinstance(settings, list | tuple) else settings
