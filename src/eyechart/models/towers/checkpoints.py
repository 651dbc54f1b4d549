"""Weights files: read without running anything that is in them, and errors that say what is wrong with them."""

from __future__ import annotations

import pickle
import re
import struct
import threading
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from eyechart.errors import EyechartError, ModelError, is_unreachable, unreachable
from eyechart.models.towers.torch_tools import quiet_transformers

if TYPE_CHECKING:
    import torch

LOAD_ERRORS = (Exception,)
"""What the libraries raise for files that do not fit: anything. An unpickler stumbles over its own stack (IndexError,
KeyError), tokenizers raises bare exceptions."""
SHOWN = 3
_PIP_LINE = re.compile(r"pip3? install (?:-U |--upgrade )?[`'\"]?([A-Za-z0-9][\w.\[\],=<>~-]*\w\]?)")
ADAPTER = "adapter_config.json"
DERIVED = "position_ids"
"""How the names of weights end that older versions saved and that say nothing."""
_ONE_AT_A_TIME = threading.Lock()


def load_error(what: str, error: BaseException) -> ModelError:
    """Make one clear error out of whatever a library raised while it loaded weights.

    Libraries advise to load a file without protection. That advice is never passed on.

    Raises:
        EyechartError: The error itself, if it is one of ours.
    """
    if isinstance(error, EyechartError):
        raise error
    text = str(error)
    if isinstance(error, ImportError):
        return _missing_library(what, error)
    for pattern, explain in _EXPLANATIONS:
        if re.search(pattern, text):
            return explain(what, text)
    if is_unreachable(error):
        return unreachable(ModelError, f"the hub for {what}", error, "huggingface")
    if isinstance(error, _DAMAGE) or (isinstance(error, KeyError) and not isinstance(error.args[0], str)):
        return _corrupt(what, text)
    plain = type(error) is Exception or isinstance(error, OSError | RuntimeError | ValueError)
    reason = _reason(text)
    named = reason if plain else f"{type(error).__name__}: {reason}".removesuffix(": ")
    return ModelError(f"Cannot load {what} ({named or type(error).__name__}).")


def _missing_library(what: str, error: ImportError) -> ModelError:
    """Say which library a model needs: as its own library says, else the module that could not be imported."""
    said = _PIP_LINE.search(str(error))
    library = said[1] if said else (error.name or "").partition(".")[0]
    advice = f"Install it with: pip install {library}" if library else ""
    named = f"the library {library}" if library else "a library"
    return ModelError(f"Cannot load {what}: it needs {named}, which is not installed.", advice=advice)


def _reason(text: str) -> str:
    """Return the first line that gives a reason and no advice to unpickle."""
    parts = text.rsplit("WeightsUnpickler error:", 1)[-1].strip().splitlines()
    return next((line.strip() for line in parts if line.strip() and not _UNSAFE.search(line)), "")


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
                warnings.filterwarnings("ignore", message="Detected pickle protocol")  # the error says enough
                state = torch.load(path, map_location="cpu", weights_only=True)
    except LOAD_ERRORS as error:
        raise load_error(str(path), error) from error
    for name in ("state_dict", "model", "module"):
        if isinstance(state, dict) and isinstance(state.get(name), dict):
            state = state[name]
    if not isinstance(state, dict) or not state or not all(isinstance(name, str) for name in state):
        raise ModelError(f"{path} holds no state dict.")
    # Parameters that were saved as such would bring their gradients along.
    return {
        name.removeprefix("module."): value.detach() if hasattr(value, "detach") else value
        for name, value in state.items()
    }


@contextmanager
def whole_weights(source: str, unused: str = "") -> Iterator[list[str]]:
    """Refuse weights that do not fit or are not there, whichever library loads them through transformers meanwhile.

    transformers would go on with random ones, and say so in a report that few people read. So it would without an
    adapter if peft is not installed, and without weights that have no place in the model: yields notes of those.

    Args:
        source: The model, for messages.
        unused: How the names of weights begin that nothing asks for. Missing ones are set to zero, not to chance: the
            model is the same every time, and if they are asked for, it shows.
    """
    from transformers import PreTrainedModel

    library = PreTrainedModel.__dict__["from_pretrained"]
    notes: list[str] = []

    def load(kind: Any, *args: Any, **options: Any) -> Any:
        told = {**options, "output_loading_info": True, "ignore_mismatched_sizes": True}
        model, info = library.__func__(kind, *args, **told)
        free = {name for name in info["missing_keys"] if unused and name.startswith(unused)}
        for name in free:
            model.get_parameter(name).data.zero_()
        _check_loaded(source, type(model).__name__, {**info, "missing_keys": info["missing_keys"] - free})
        _check_adapter(model, source, Path(str(args[0])))
        spare = sorted(name for name in info["unexpected_keys"] if not name.endswith(DERIVED))
        if spare:
            notes.append(f"{len(spare)} weights of the checkpoint have no place in the model ({some(spare)}).")
        return model

    with _ONE_AT_A_TIME, quiet_transformers():
        PreTrainedModel.from_pretrained = classmethod(load)
        try:
            yield notes
        finally:
            PreTrainedModel.from_pretrained = library


def _check_adapter(model: Any, source: str, folder: Path) -> None:
    if (folder / ADAPTER).is_file() and not getattr(model, "_hf_peft_config_loaded", False):
        raise ModelError(
            f"{source} holds an adapter ({ADAPTER}), which was not loaded.",
            advice="Install peft, merge the adapter into the weights, or take it out of the folder.",
        )


def _check_loaded(source: str, kind: str, info: Mapping[str, Any]) -> None:
    if info["mismatched_keys"]:
        name, found, wanted = min(info["mismatched_keys"], key=str)
        raise ModelError(
            f"{source}: {len(info['mismatched_keys'])} weights do not fit its config.json "
            f"({name}: {list(found)}, the config says {list(wanted)}).",
            advice="Config and weights are of different models.",
        )
    if info["missing_keys"]:
        raise ModelError(
            f"{source} has no weights for {len(info['missing_keys'])} parts of {kind} "
            f"({some(sorted(info['missing_keys']))}).",
            advice="They would be random. A checkpoint with all parts of this architecture is needed.",
        )


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
        parts.append(f"it lacks {some(missing)}")
    if unexpected:
        parts.append(f"it has {some(unexpected)}, which the model has not")
    if shapes:
        name, found, wanted = shapes[0]
        parts.append(f"{len(shapes)} weights have another shape ({name}: {found}, the model has {wanted})")
    return ModelError(
        f"{what}: the checkpoint is of another architecture: {'; '.join(parts)}.",
        advice="Give the --model that the checkpoint was trained as.",
    )


def some(names: Iterable[str]) -> str:
    """Write the first few names of a list out."""
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return f"{', '.join(listed[:SHOWN])}{more}"


def _code(what: str, text: str) -> ModelError:
    found = re.search(r"(?:GLOBAL|global:?) `?(?!GLOBAL)([\w.]+)", text)
    culprit = f" ({found.group(1)})" if found else ""
    return ModelError(f"{what}: refused, the file would run code when it is unpickled{culprit}.", advice=SAFE)


def _pickle(what: str, text: str) -> ModelError:  # noqa: ARG001 - same form as the others
    return ModelError(f"{what}: refused, this form can only be unpickled, which may run code.", advice=SAFE)


def _numpy(what: str, text: str) -> ModelError:  # noqa: ARG001
    return ModelError(f"{what}: this is an archive of numpy arrays, not a checkpoint of this model.")


def _script(what: str, text: str) -> ModelError:  # noqa: ARG001 - same form as the others
    return ModelError(
        f"{what}: this is a TorchScript archive, which is a program and not weights.",
        advice="Use the tag (for OpenAI's models: openai), or save its state dict as .safetensors.",
    )


def _corrupt(what: str, text: str) -> ModelError:
    reason = _reason(text) or ("it cannot be read" if text.strip() else "it is empty")
    return ModelError(
        f"{what}: the file is damaged or no weights file ({reason}).",
        advice=f"Download it again. {SAFE}" if _UNSAFE.search(text) else "Download it again.",
    )


SAFE = (
    "Only tensors are loaded. Get the weights as .safetensors, or convert the file to that form in a sandbox: "
    "a container without network, keys and your files."
)
_UNSAFE = re.compile("weights_only|Weights only|allow_pickle|pickle.load|torch.load")
_DAMAGE = (
    AssertionError,
    EOFError,
    IndexError,
    OverflowError,
    SafetensorError,
    pickle.UnpicklingError,
    struct.error,
    zipfile.BadZipFile,
)
"""What readers raise for bytes that make no sense."""
_DAMAGED = (
    "PytorchStreamReader",
    r"\[Errno 22\]",  # torch looks for the end of an archive where there is none
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
    (r"legacy \.tar format|contains pickled \(object\) data", _pickle),
    (r"not in a subdirectory: \S+\.npy|has no attribute 'trunk'", _numpy),
    (r"Unsupported (global|class)|GLOBAL|was not an allowed global", _code),
    ("|".join(_DAMAGED), _corrupt),
)
