"""Files of a model: weights, configs and tokenizers, read without executing anything, with precise errors."""

from __future__ import annotations

import pickle
import re
import struct
import threading
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from eyechart.errors import EyechartError, ModelError, is_unreachable, unreachable
from eyechart.io import safe_parse
from eyechart.io.files import one_connection_attempt
from eyechart.messages import UserMessage, join
from eyechart.models.towers.torch_tools import quiet_transformers

if TYPE_CHECKING:
    import torch


TOKENIZER = "tokenizer.json"


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
            _parse(path) if path.name == "modules.json" else read_json(path)  # the only file with a list
            if path.name == TOKENIZER:
                load_tokenizer(path)
        except ModelError as error:
            return error
    return None


def _parse(path: Path) -> Any:
    return safe_parse.read_json(path, ModelError, advice="Copy or download it again.")


SHOWN = 3
_PIP_LINE = re.compile(r"pip3? install (?:-U |--upgrade )?[`'\"]?([A-Za-z0-9][\w.\[\],=<>~-]*\w\]?)")
ADAPTER = "adapter_config.json"
DERIVED = "position_ids"
"""Suffix of buffers saved by older versions, which can be ignored."""
_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def load_errors(what: str) -> Iterator[None]:
    """Convert any error of a library that loads ``what`` to a `ModelError`.

    Libraries raise anything for unsuitable files: an unpickler fails with IndexError or KeyError, tokenizers with bare
    exceptions.
    """
    try:
        with one_connection_attempt():
            yield
    except Exception as error:
        raise load_error(what, error) from error


def load_error(what: str, error: BaseException) -> ModelError:
    """Build the `ModelError` for an error raised by a library while loading weights.

    Some libraries advise loading the file without protection; that advice is never passed on. An `EyechartError` is
    raised as it is.
    """
    if isinstance(error, EyechartError):
        raise error
    text = str(error)
    if isinstance(error, ImportError):
        # As the model's own library advises, else the module that could not be imported.
        advised = _PIP_LINE.search(text)
        library = advised[1] if advised else (error.name or "").partition(".")[0]
        known = "Cannot load {what}: the library {library} is not installed."
        message = known if library else "Cannot load {what}: a required library is not installed."
        advice = "Install it with: pip install {library}" if library else ""
        return ModelError(message, advice=advice, what=what, library=library)
    if re.search(r"size mismatch for|Missing key\(s\)|Unexpected key\(s\)", text):
        return _other_architecture(what, text)
    for pattern, template, advice in _REFUSED:
        if re.search(pattern, text):
            culprit = re.search(r"(?:GLOBAL|global:?) `?(?!GLOBAL)([\w.]+)", text)
            return ModelError(template, advice=advice, what=what, culprit=f" ({culprit[1]})" if culprit else "")
    damaged = _DAMAGED.search(text)
    if not damaged and is_unreachable(error):
        return unreachable(ModelError, f"the hub for {what}", error, "huggingface")
    # The first line with a reason, without advice to unpickle.
    lines = (line.strip() for line in text.rsplit("WeightsUnpickler error:", 1)[-1].strip().splitlines())
    reason = next((line for line in lines if line and not _UNSAFE.search(line)), "")
    if damaged or isinstance(error, _DAMAGE) or (isinstance(error, KeyError) and not isinstance(error.args[0], str)):
        return ModelError(
            "{what}: the file is damaged or does not contain weights ({reason}).",
            advice=UserMessage("Download it again. {safe}", safe=SAFE)
            if _UNSAFE.search(text)
            else "Download it again.",
            what=what,
            reason=reason or UserMessage("it cannot be read" if text.strip() else "it is empty"),
        )
    if type(error) is not Exception and not isinstance(error, OSError | RuntimeError | ValueError):
        reason = f"{type(error).__name__}: {reason}".removesuffix(": ")
    return ModelError("Cannot load {what} ({reason}).", what=what, reason=reason or type(error).__name__)


def _other_architecture(what: str, text: str) -> ModelError:
    """Summarise torch's list of missing, unexpected and mismatched weights."""
    parts = []
    for head, template in (("Missing key", "missing {keys}"), ("Unexpected key", "unexpected {keys}")):
        listed = re.search(rf"{head}[^:]*:\s*(.+?)(?:\.\s*\n|\.?\s*$)", text, re.DOTALL)
        keys = re.findall(r'"([^"]+)"', listed[1]) if listed else []
        parts += [UserMessage(template, keys=some(keys))] if keys else []
    shapes = re.findall(
        r"size mismatch for (\S+): .*?torch.Size\((\[.*?\])\).*?torch.Size\((\[.*?\])\)", text, re.DOTALL
    )
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


def missing_weights(source: object, kind: str, names: Iterable[str]) -> ModelError:
    """Build the error for parts of a network that a checkpoint lacks."""
    missing = sorted(names)
    return ModelError(
        "{source} lacks the weights of {n} parts of {kind} ({missing_keys}).",
        advice="They would be random. Use a checkpoint with all files and all parts of this architecture.",
        source=source,
        n=len(missing),
        kind=kind,
        missing_keys=some(missing),
    )


def unused_notes(names: Iterable[str]) -> list[str]:
    """Note weights that the network does not have."""
    spare = sorted(names)
    note = UserMessage(
        "{n} weights of the checkpoint are not used by the model ({spare}).", n=len(spare), spare=some(spare)
    )
    return [note] if spare else []


def read_state(path: Path) -> dict[str, torch.Tensor]:
    """Read a state dict from .safetensors or a torch file, tensors only; training checkpoints are unwrapped."""
    with load_errors(str(path)), warnings.catch_warnings():
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(path)
        else:
            import torch

            warnings.filterwarnings("ignore", message=".*looks like a TorchScript archive")
            warnings.filterwarnings("ignore", message="Detected pickle protocol")  # the error is sufficient
            state = torch.load(path, map_location="cpu", weights_only=True)
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


POOLER = "pooler."
"""BERT's pooler. Encoders pool tokens themselves, and many models are saved without these weights."""


@contextmanager
def whole_weights(source: str, unused: str = "") -> Iterator[list[str]]:
    """Refuse missing or mismatched weights while a library loads a model through transformers.

    transformers would continue with random weights and only log it. It also ignores an adapter if peft is not
    installed, and unexpected weights; the latter are yielded as notes. Weights whose names start with ``unused`` are
    never used: missing ones are set to zero, so that the model is deterministic.
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
        if info["missing_keys"] - free:
            raise missing_weights(source, type(model).__name__, info["missing_keys"] - free)
        if Path(str(args[0]), ADAPTER).is_file() and not getattr(model, "_hf_peft_config_loaded", False):
            raise ModelError(
                "{source} contains an adapter ({adapter}), which was not loaded.",
                advice="Install peft, merge the adapter into the weights, or remove it from the folder.",
                source=source,
                adapter=ADAPTER,
            )
        notes.extend(unused_notes(name for name in info["unexpected_keys"] if not name.endswith(DERIVED)))
        return model

    with _ONE_AT_A_TIME, quiet_transformers():
        PreTrainedModel.from_pretrained = classmethod(load)
        try:
            yield notes
        finally:
            PreTrainedModel.from_pretrained = library


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
_DAMAGED = re.compile(
    "PytorchStreamReader"
    r"|\[Errno 22\]"  # torch seeks the end of an archive that does not exist
    "|invalid load key|failed finding central directory|unpickling stack|Unsupported operand|Ran out of input"
    "|file in archive is not in|header too large|HeaderTooLarge|InvalidHeader|MetadataIncompleteBuffer"
)
_REFUSED = (
    (
        "TorchScript",
        "{what}: this is a TorchScript archive, which contains code, not only weights.",
        "Use the tag (for OpenAI's models: openai), or save its state dict as .safetensors.",
    ),
    (
        r"legacy \.tar format|contains pickled \(object\) data",
        "{what}: refused, this format requires unpickling, which may run code.",
        SAFE,
    ),
    (
        r"not in a subdirectory: \S+\.npy|has no attribute 'trunk'",
        "{what}: this is an archive of numpy arrays, not a checkpoint of this model.",
        "",
    ),
    (
        r"Unsupported (global|class)|GLOBAL|was not an allowed global",
        "{what}: refused, unpickling the file would run code{culprit}.",
        SAFE,
    ),
)
"""Patterns of errors for other kinds of files, with message and advice."""
