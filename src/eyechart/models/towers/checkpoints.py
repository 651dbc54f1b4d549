"""Files of a model: weights, configs and tokenizers, read without executing anything, with precise errors."""

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
from eyechart.io.safe_parse import parse_json, read_text
from eyechart.messages import UserMessage, join
from eyechart.models.towers.torch_tools import quiet_transformers

if TYPE_CHECKING:
    import torch


TOKENIZER = "tokenizer.json"
LISTS = frozenset({"modules.json"})
"""Files that contain a list; all others contain an object."""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    content = _parse(path)
    if not isinstance(content, dict):
        raise ModelError("{path} must contain a JSON object.", path=path)
    return content


def load_tokenizer(path: Path) -> Any:
    """Load a ``tokenizer.json``."""
    from tokenizers import Tokenizer

    with tokenizing(str(path)):
        return Tokenizer.from_file(str(path))


@contextmanager
def tokenizing(source: str) -> Iterator[None]:
    """Convert any error of a tokenizer, including Rust panics, to a `ModelError` that names the file."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # an interrupt
        raise ModelError(
            "{source} is not a valid tokenizer ({reason}).",
            advice="Copy or download it again.",
            source=source,
            reason=error,
        ) from error


def broken_file(folder: Path) -> ModelError | None:
    """Find the small file that kept a library from loading a folder, if any."""
    for path in sorted(folder.glob("*.json")):
        try:
            _parse(path) if path.name in LISTS else read_json(path)
            if path.name == TOKENIZER:
                load_tokenizer(path)
        except ModelError as error:
            return error
    return None


def _parse(path: Path) -> Any:
    try:
        return parse_json(read_text(path, ModelError))
    except ValueError as error:
        raise ModelError(
            "{path} is not valid JSON ({reason}).", advice="Copy or download it again.", path=path, reason=error
        ) from error


# Checkpoints: safe reading of weights, and clear errors for unsuitable files.


LOAD_ERRORS = (Exception,)
"""Libraries raise anything for unsuitable files: an unpickler fails with IndexError or KeyError, tokenizers with bare
exceptions."""
SHOWN = 3
_PIP_LINE = re.compile(r"pip3? install (?:-U |--upgrade )?[`'\"]?([A-Za-z0-9][\w.\[\],=<>~-]*\w\]?)")
ADAPTER = "adapter_config.json"
DERIVED = "position_ids"
"""Suffix of buffers saved by older versions, which can be ignored."""
_ONE_AT_A_TIME = threading.Lock()


def load_error(what: str, error: BaseException) -> ModelError:
    """Convert any error raised by a library while loading weights to a `ModelError`.

    Some libraries advise loading the file without protection; that advice is never passed on.

    Raises:
        EyechartError: The error itself, if it is one.
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
    return ModelError("Cannot load {what} ({reason}).", what=what, reason=named or type(error).__name__)


def _missing_library(what: str, error: ImportError) -> ModelError:
    """Name the library that a model needs: as its own library advises, else the module that could not be imported."""
    advised = _PIP_LINE.search(str(error))
    library = advised[1] if advised else (error.name or "").partition(".")[0]
    if not library:
        return ModelError("Cannot load {what}: a required library is not installed.", what=what)
    return ModelError(
        "Cannot load {what}: the library {library} is not installed.",
        advice="Install it with: pip install {library}",
        what=what,
        library=library,
    )


def _reason(text: str) -> str:
    """Return the first line with a reason, without advice to unpickle."""
    parts = text.rsplit("WeightsUnpickler error:", 1)[-1].strip().splitlines()
    return next((line.strip() for line in parts if line.strip() and not _UNSAFE.search(line)), "")


def read_state(path: Path) -> dict[str, torch.Tensor]:
    """Read a state dict from .safetensors or a torch file, tensors only; training checkpoints are unwrapped.

    Raises:
        ModelError: If the file is damaged or contains anything but tensors and plain values.
    """
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(path)
        else:
            import torch

            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*looks like a TorchScript archive")
                warnings.filterwarnings("ignore", message="Detected pickle protocol")  # the error is sufficient
                state = torch.load(path, map_location="cpu", weights_only=True)
    except LOAD_ERRORS as error:
        raise load_error(str(path), error) from error
    for name in ("state_dict", "model", "module"):
        if isinstance(state, dict) and isinstance(state.get(name), dict):
            state = state[name]
    if not isinstance(state, dict) or not state or not all(isinstance(name, str) for name in state):
        raise ModelError("{path} does not contain a state dict.", path=path)
    # Detached, since saved parameters would carry gradients.
    return {
        name.removeprefix("module."): value.detach() if hasattr(value, "detach") else value
        for name, value in state.items()
    }


@contextmanager
def whole_weights(source: str, unused: str = "") -> Iterator[list[str]]:
    """Refuse missing or mismatched weights while a library loads a model through transformers.

    transformers would continue with random weights and only log it. It also ignores an adapter if peft is not
    installed, and unexpected weights; the latter are yielded as notes.

    Args:
        source: The model, for messages.
        unused: Name prefix of weights that are never used. Missing ones are set to zero, so that the model is
            deterministic.
    """
    from transformers import PreTrainedModel

    library = PreTrainedModel.__dict__["from_pretrained"]
    notes: list[str] = []

    def load(kind: Any, *args: Any, **options: Any) -> Any:
        reported = {**options, "output_loading_info": True, "ignore_mismatched_sizes": True}
        model, info = library.__func__(kind, *args, **reported)
        free = {name for name in info["missing_keys"] if unused and name.startswith(unused)}
        for name in free:
            model.get_parameter(name).data.zero_()
        _check_loaded(source, type(model).__name__, {**info, "missing_keys": info["missing_keys"] - free})
        _check_adapter(model, source, Path(str(args[0])))
        spare = sorted(name for name in info["unexpected_keys"] if not name.endswith(DERIVED))
        if spare:
            notes.append(
                UserMessage(
                    "{n} weights of the checkpoint are not used by the model ({spare}).",
                    n=len(spare),
                    spare=some(spare),
                )
            )
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
            "{source} contains an adapter ({adapter}), which was not loaded.",
            advice="Install peft, merge the adapter into the weights, or remove it from the folder.",
            source=source,
            adapter=ADAPTER,
        )


def _check_loaded(source: str, kind: str, info: Mapping[str, Any]) -> None:
    if info["mismatched_keys"]:
        name, found, wanted = min(info["mismatched_keys"], key=str)
        raise ModelError(
            "{source}: {n} weights do not match config.json ({name}: {found}, expected {wanted}).",
            advice="Config and weights belong to different models.",
            source=source,
            n=len(info["mismatched_keys"]),
            name=name,
            found=list(found),
            wanted=list(wanted),
        )
    if info["missing_keys"]:
        raise ModelError(
            "{source} lacks the weights of {n} parts of {kind} ({missing_keys}).",
            advice="They would be random. Use a checkpoint with all parts of this architecture.",
            source=source,
            n=len(info["missing_keys"]),
            kind=kind,
            missing_keys=some(sorted(info["missing_keys"])),
        )


def _keys(text: str, head: str) -> list[str]:
    """Find the keys that torch lists after a heading of its error."""
    found = re.search(rf"{head}[^:]*:\s*(.+?)(?:\.\s*\n|\.?\s*$)", text, re.DOTALL)
    return re.findall(r'"([^"]+)"', found.group(1)) if found else []


def _other_architecture(what: str, text: str) -> ModelError:
    missing, unexpected = _keys(text, "Missing key"), _keys(text, "Unexpected key")
    shapes = re.findall(
        r"size mismatch for (\S+): .*?torch.Size\((\[.*?\])\).*?torch.Size\((\[.*?\])\)", text, re.DOTALL
    )
    parts = []
    if missing:
        parts.append(UserMessage("missing {keys}", keys=some(missing)))
    if unexpected:
        parts.append(UserMessage("unexpected {keys}", keys=some(unexpected)))
    if shapes:
        name, found, wanted = shapes[0]
        parts.append(
            UserMessage(
                "{n} weights of another shape ({name}: {found}, expected {wanted})",
                n=len(shapes),
                name=name,
                found=found,
                wanted=wanted,
            )
        )
    return ModelError(
        "{what}: the checkpoint belongs to another architecture: {parts}.",
        advice="Pass the {--model} that the checkpoint was trained as.",
        what=what,
        parts=join(parts, "; "),
    )


def some(names: Iterable[str]) -> str:
    """List the first few names."""
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return f"{', '.join(listed[:SHOWN])}{more}"


def _code(what: str, text: str) -> ModelError:
    found = re.search(r"(?:GLOBAL|global:?) `?(?!GLOBAL)([\w.]+)", text)
    culprit = f" ({found.group(1)})" if found else ""
    return ModelError(
        "{what}: refused, unpickling the file would run code{culprit}.",
        advice=SAFE,
        what=what,
        culprit=culprit,
    )


def _pickle(what: str, text: str) -> ModelError:  # noqa: ARG001 - common signature
    return ModelError("{what}: refused, this format requires unpickling, which may run code.", advice=SAFE, what=what)


def _numpy(what: str, text: str) -> ModelError:  # noqa: ARG001
    return ModelError("{what}: this is an archive of numpy arrays, not a checkpoint of this model.", what=what)


def _script(what: str, text: str) -> ModelError:  # noqa: ARG001 - common signature
    return ModelError(
        "{what}: this is a TorchScript archive, which contains code, not only weights.",
        advice="Use the tag (for OpenAI's models: openai), or save its state dict as .safetensors.",
        what=what,
    )


def _corrupt(what: str, text: str) -> ModelError:
    reason = _reason(text) or UserMessage("it cannot be read" if text.strip() else "it is empty")
    return ModelError(
        "{what}: the file is damaged or does not contain weights ({reason}).",
        advice=UserMessage("Download it again. {safe}", safe=SAFE) if _UNSAFE.search(text) else "Download it again.",
        what=what,
        reason=reason,
    )


SAFE = (
    "Only tensors are loaded. Get the weights as .safetensors, or convert the file in a sandbox: "
    "a container without network access, credentials and your files."
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
"""Errors that readers raise for invalid bytes."""
_DAMAGED = (
    "PytorchStreamReader",
    r"\[Errno 22\]",  # torch seeks the end of an archive that does not exist
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
