"""Weights files: read without running anything that is in them, and errors that say what is wrong with them."""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from eyechart.errors import ModelError

if TYPE_CHECKING:
    import torch

LOAD_ERRORS = (
    RuntimeError,
    OSError,
    ValueError,
    KeyError,
    EOFError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    SafetensorError,
)
"""What torch, safetensors and the model libraries raise for files that do not fit."""
SHOWN = 3


def load_error(what: str, error: BaseException) -> ModelError:
    """Make one clear error out of whatever a library raised while it loaded weights."""
    text = str(error)
    for pattern, explain in _EXPLANATIONS:
        if re.search(pattern, text):
            return explain(what, text)
    if isinstance(error, pickle.UnpicklingError | zipfile.BadZipFile | EOFError | SafetensorError):
        return _corrupt(what, text)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return ModelError(f"Cannot load {what} ({first}).")


def read_state(path: Path) -> dict[str, torch.Tensor]:
    """Read a state dict from .safetensors or a torch file, tensors only; training checkpoints are unwrapped.

    Raises:
        ModelError: If the file is damaged or holds anything but tensors and plain values.
    """
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(path)
        else:
            import torch

            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*looks like a TorchScript archive")
                state = torch.load(path, map_location="cpu", weights_only=True)
    except LOAD_ERRORS as error:
        raise load_error(str(path), error) from error
    for name in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(name), dict):
            state = state[name]
    if not isinstance(state, dict) or not state:
        raise ModelError(f"{path} holds no state dict.")
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}


def load_strictly(model: torch.nn.Module, state: dict[str, torch.Tensor], what: str) -> None:
    """Put weights into a model; a key too many, too few or of another shape is an error that names it."""
    try:
        model.load_state_dict(state, assign=True)
    except RuntimeError as error:
        raise load_error(what, error) from error


def _keys(text: str, head: str) -> list[str]:
    """Find the keys that torch lists after a heading of its error."""
    found = re.search(rf"{head}[^:]*:\s*(.+?)(?:\.\s*\n|\.?\s*$)", text, re.DOTALL)
    return re.findall(r'"([^"]+)"', found.group(1)) if found else []


def _other_architecture(what: str, text: str) -> ModelError:
    """Say which keys do not fit."""
    missing, unexpected = _keys(text, "Missing key"), _keys(text, "Unexpected key")
    shapes = re.findall(
        r"size mismatch for (\S+): .*?torch.Size\((\[.*?\])\).*?torch.Size\((\[.*?\])\)", text, re.DOTALL
    )
    parts = []
    if missing:
        parts.append(f"it lacks {_some(missing)}")
    if unexpected:
        parts.append(f"it has {_some(unexpected)}, which the model has not")
    if shapes:
        name, found, wanted = shapes[0]
        parts.append(f"{len(shapes)} weights have another shape ({name}: {found}, the model has {wanted})")
    return ModelError(
        f"{what}: the checkpoint is of another architecture: {'; '.join(parts)}.",
        advice="Give the --model that the checkpoint was trained as.",
    )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return f"{', '.join(listed[:SHOWN])}{more}"


def _code(what: str, text: str) -> ModelError:
    found = re.search(r"(?:GLOBAL|global:?) `?([\w.]+)", text)
    culprit = f" ({found.group(1)})" if found else ""
    return ModelError(
        f"{what}: refused, the file would run code when it is unpickled{culprit}.",
        advice="Only tensors are loaded. Ask for a .safetensors file, or save the state dict alone.",
    )


def _script(what: str, text: str) -> ModelError:  # noqa: ARG001 - same form as the others
    return ModelError(
        f"{what}: this is a TorchScript archive, which is a program and not weights.",
        advice="Use the tag (for OpenAI's models: openai), or save its state dict as .safetensors.",
    )


def _corrupt(what: str, text: str) -> ModelError:
    first = text.strip().splitlines()[0] if text.strip() else "it is empty"
    return ModelError(f"{what}: the file is damaged or no weights file ({first}).", advice="Download it again.")


_DAMAGED = (
    "PytorchStreamReader",
    "invalid load key",
    "failed finding central directory",
    "unpickling stack",
    "Unsupported operand",
    "Ran out of input",
    "file in archive is not in",
    "header too large",
    "HeaderTooLarge",
    "InvalidHeader",
    "MetadataIncompleteBuffer",
)
_EXPLANATIONS = (
    (r"size mismatch for|Missing key\(s\)|Unexpected key\(s\)", _other_architecture),
    (r"TorchScript", _script),
    (r"Unsupported (global|class)|GLOBAL|was not an allowed global", _code),
    ("|".join(_DAMAGED), _corrupt),
)
