"""Shared torch tools: devices, precision, errors, and digests of weights, configs and tokenizers."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.errors import EyechartError, ModelError, OutOfMemoryError, UsageError, first_line
from eyechart.io.digests import code_digest, digest_bytes, is_user_code
from eyechart.messages import UserMessage
from eyechart.types import digest_json

if TYPE_CHECKING:
    import torch

PRECISIONS = ("fp32", "fp16", "bf16", "amp")
"""fp16 and bf16 convert the weights; amp keeps them and runs under autocast, as CLIP_benchmark does on a GPU."""

CPU_INSTRUCTIONS = {
    "fp16": ("avx512_fp16", "amx_fp16"),
    "bf16": ("avx512_bf16", "amx_bf16"),
    "amp": ("avx512_bf16", "amx_bf16"),
}
"""Instruction sets that make a precision fast on an x86 CPU; any one suffices."""
LOCAL_RANKS = {
    "LOCAL_RANK": "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALRANKID": "MPI_LOCALNRANKS",
    "SLURM_LOCALID": "SLURM_STEP_TASKS_PER_NODE",
}
"""Variables of launchers: the rank of this process on its machine, and the number of processes there."""
MAX_MACHINES = 100_000
RANDOM = ("uniform_", "normal_")
"""Suffixes of torch functions that fill a tensor with random numbers, also in ``torch.nn.init``."""
PLAIN = (bool, int, float, str, list, tuple)
OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|bad_alloc|(CUBLAS|CUDNN|CUSOLVER|CUFFT)\w*_ALLOC_FAILED"
    r"|CUBLAS_STATUS_NOT_INITIALIZED when calling .?cublasCreate",
    re.IGNORECASE,
)
"""CUDA libraries allocate their own workspaces and report a failure as a status."""
VOLATILE_SETTINGS = frozenset({"transformers_version", "dtype", "torch_dtype", "name_or_path"})
"""Config settings for provenance or computation, which do not affect the structure."""
TOKENIZER_SETTINGS = (
    "padding_side",
    "truncation_side",
    "do_lower_case",
    "special_tokens_map",
    "src_lang",
    "split_special_tokens",
    "clean_up_tokenization_spaces",
)


def local_rank() -> int | None:
    """Return the rank of this process on this machine; None without a launcher.

    A task of Slurm counts if its step has several tasks here: a batch script, too, has SLURM_LOCALID=0.
    """
    for name, size in LOCAL_RANKS.items():
        if os.environ.get(name, "").isdigit() and (name != "SLURM_LOCALID" or _tasks_here(size) > 1):
            return int(os.environ[name])
    return None


def local_size() -> int:
    """Return the number of processes that the launcher started on this machine."""
    return max(1, next(filter(None, map(_tasks_here, LOCAL_RANKS.values())), 1))


def _tasks_here(name: str) -> int:
    """Read a number of processes, 0 if unknown; Slurm writes ``4(x2),3`` for machines with four, four and three."""
    counts: list[int] = []
    for count, repeat in re.findall(r"(\d+)(?:\(x(\d+)\))?", os.environ.get(name, "")):
        counts += [int(count)] * min(int(repeat or 1), MAX_MACHINES)
    here = os.environ.get("SLURM_NODEID", "")
    return counts[int(here) if here.isdigit() and int(here) < len(counts) else 0] if counts else 0


def choose_devices(wanted: str) -> list[str]:
    """Resolve ``--device``: ``auto`` is every available GPU, else the CPU; several are separated by commas.

    A process started by torchrun, Slurm or MPI uses one GPU, by its local rank.
    """
    import torch

    if wanted == "auto":
        devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]
        mine = local_rank()
        return [devices[mine % len(devices)]] if mine is not None else devices
    devices = [name.strip() for name in wanted.split(",")]
    for name in devices:
        try:
            kind = torch.device(name)
        except RuntimeError as error:
            raise UsageError("Unknown device: {name!r}.", advice="Use auto, cpu, cuda or cuda:1.", name=name) from error
        if kind.type == "mps" and not torch.backends.mps.is_available():
            raise UsageError("The device mps is not available.", advice="Use {--device=auto} or {--device=cpu}.")
        if kind.type == "cuda" and (kind.index or 0) >= torch.cuda.device_count():
            raise UsageError(
                "The device {name} is not available ({n} CUDA devices).",
                advice="Use {--device=auto} or {--device=cpu}.",
                name=name,
                n=torch.cuda.device_count(),
            )
    return devices


def choose_device(wanted: str) -> str:
    """Resolve ``--device`` for one model: the first of several."""
    return choose_devices(wanted)[0]


def precision_notes(precision: str, device: str) -> list[str]:
    """Note if a CPU emulates a precision: the numbers are right, but it is slow."""
    import torch

    if device != "cpu" or precision not in CPU_INSTRUCTIONS:
        return []
    has = torch.cpu.get_capabilities()
    if has.get("architecture") != "x86_64" or any(map(has.get, CPU_INSTRUCTIONS[precision])):
        return []
    text = "This CPU lacks {kind} instructions: {--precision={precision}} is emulated, slower and coarser than fp32."
    return [UserMessage(text, kind="fp16" if precision == "fp16" else "bf16", precision=precision)]


def cast(model: torch.nn.Module, precision: str) -> torch.nn.Module:
    """Convert the weights to the precision's dtype."""
    return model.to(input_type(precision)) if precision in ("fp16", "bf16") else model


def input_type(precision: str) -> torch.dtype:
    """Return the dtype of inputs for a precision."""
    import torch

    return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)


@contextmanager
def tf32_switched(*, allowed: bool) -> Iterator[None]:
    """Set torch's process-wide TF32 switches for convolutions and matrix products, and restore them.

    Torch's default is TF32 for convolutions on GPUs that have it.
    """
    import torch
    from torch.backends import cudnn

    def switch(products: str, kinds: Sequence[str], *, convolutions: bool) -> None:
        torch.set_float32_matmul_precision(products)
        cudnn.allow_tf32 = convolutions
        for part, value in zip(parts, kinds, strict=True):
            part.fp32_precision = value

    # Since torch 2.9; the former switch alone does not override `torch.backends.fp32_precision`.
    parts: list[Any] = [cudnn.conv, cudnn.rnn] if hasattr(cudnn, "conv") else []
    before, products = [part.fp32_precision for part in parts], torch.get_float32_matmul_precision()
    convolutions = before[0] == "tf32" if before else cudnn.allow_tf32
    try:
        switch("high" if allowed else "highest", ["tf32" if allowed else "ieee"] * len(parts), convolutions=allowed)
        yield
    finally:
        switch(products, before, convolutions=convolutions)


@contextmanager
def forward_pass(precision: str, device: str = "cpu", *, tf32: bool = False) -> Iterator[None]:
    """Autocast a forward pass for ``amp``, and convert torch's errors: out of memory, missing half kernels.

    TF32 is off unless requested.
    """
    import torch

    kind = device.partition(":")[0]
    dtype = torch.float16 if kind == "cuda" else torch.bfloat16
    try:
        with tf32_switched(allowed=tf32), torch.autocast(kind, dtype=dtype) if precision == "amp" else nullcontext():
            yield
    except EyechartError:
        raise
    except Exception as error:
        if OUT_OF_MEMORY.search(str(error)):
            raise OutOfMemoryError("The batch does not fit into memory ({reason}).", reason=error) from error
        if "not implemented for" in str(error):
            raise ModelError(
                "This model does not support {precision} on this device ({reason}).",
                advice="Use {--precision=fp32}.",
                precision=precision,
                reason=error,
            ) from error
        raise ModelError(
            "The forward pass failed ({reason}).",
            advice="Check that config, tokenizer and context length belong to the weights.",
            reason=first_line(error),
        ) from error


def stack_images(batch: Any, label: str) -> torch.Tensor:
    """Build one tensor from prepared images; those of a loader are a tensor, possibly in page-locked memory."""
    import torch

    if isinstance(batch, torch.Tensor):
        return batch
    if len({np.shape(image) for image in batch}) > 1:
        raise ModelError(
            "The transform of {label} produces images of different sizes, which cannot be batched.",
            advice="Resize and crop them to one size (do_resize), or use {--batch_size=1}.",
            label=label,
        )
    return torch.from_numpy(np.ascontiguousarray(batch))


def empty_cache() -> None:
    """Release cached GPU memory, so that a smaller batch finds a contiguous block."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def limited_memory(device: str, room: int) -> Iterator[None]:
    """Let the block allocate at most ``room`` bytes more than are in use: larger allocations really fail.

    On the CPU the address space of the process is limited, which macOS ignores; elsewhere torch's allocator.
    """
    import torch

    if device == "cpu":
        before = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, before[1]))
        restore = partial(resource.setrlimit, resource.RLIMIT_AS, before)
    elif device.startswith("cuda"):
        share = (torch.cuda.memory_reserved(device) + room) / torch.cuda.mem_get_info(device)[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, share), device)
        restore = partial(torch.cuda.set_per_process_memory_fraction, 1.0, device)
    else:
        share = (torch.mps.driver_allocated_memory() + room) / torch.mps.recommended_max_memory()
        torch.mps.set_per_process_memory_fraction(min(1.0, share))
        restore = partial(torch.mps.set_per_process_memory_fraction, 1.0)
    try:
        yield
    finally:
        restore()


def weights_digest(model: torch.nn.Module) -> str:
    """Digest all parameters and buffers by name, shape and value."""
    state = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        state.update(f"{name}{tuple(tensor.shape)}".encode())
        state.update(tensor_bytes(tensor))
    return state.hexdigest()


def tensor_bytes(tensor: torch.Tensor) -> memoryview:
    """Return the bytes of a tensor, without a copy where possible."""
    import torch

    return memoryview(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def number(scalar: torch.Tensor | float) -> float:
    """Return the value of a learned scalar."""
    return float(scalar) if isinstance(scalar, float) else float(scalar.detach().float().item())


def model_facts(model: torch.nn.Module) -> dict[str, Any]:
    """Return the fields of a card that describe the weights: their digest and the number of parameters."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"weights_digest": weights_digest(model), "parameters": parameters}


def describe(transform: object) -> str:
    """Describe a transform and the settings of its steps, without memory addresses.

    Some steps omit settings from their repr, such as the padding colour of open_clip.
    """
    steps = [getattr(step, "__dict__", {}) for step in getattr(transform, "transforms", ())]
    plain = [{name: value for name, value in step.items() if isinstance(value, PLAIN)} for step in steps]
    return re.sub(r" at 0x[0-9a-fA-F]+", "", f"{transform!r} {plain}" if steps else repr(transform))


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress progress bars and reports of transformers while it loads; relevant facts are on the card."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def no_random_start() -> AbstractContextManager[Any]:
    """Skip random initialisation: weights keep whatever the memory holds.

    Only for a model whose checkpoint is loaded strictly, so that every weight is replaced.
    """
    from torch.overrides import TorchFunctionMode

    class Skip(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
        ) -> Any:
            named = kwargs or {}
            if getattr(func, "__name__", "").endswith(RANDOM):
                return named["tensor"] if "tensor" in named else args[0]
            return func(*args, **named)

    return Skip()


def structure_digest(model: torch.nn.Module) -> str:
    """Digest the configs of a model's modules and the code of user-defined ones."""
    parts = list(model.modules())
    configs: dict[int, Any] = {id(part.config): part.config for part in parts if hasattr(part, "config")}
    plain = [_stable(config.to_dict()) for config in configs.values() if hasattr(config, "to_dict")]
    own = {kind for kind in set(map(type, parts)) if is_user_code(kind)}
    return digest_json([plain, code_digest(*own) if own else ""])


def tokenizer_digest(tokenizer: Any) -> str:
    """Digest the content of a tokenizer: vocabulary, merges, cleaning, special tokens."""
    inner = getattr(tokenizer, "tokenizer", None)
    content = [type(tokenizer).__name__, *(str(getattr(tokenizer, name, "")) for name in TOKENIZER_SETTINGS)]
    return digest_json([content, *_content(tokenizer), *([tokenizer_digest(inner)] if inner is not None else [])])


def _content(tokenizer: Any) -> Iterator[str]:
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):
        text: str = backend.to_str()
        # Truncation and padding come before this key and change with every call.
        yield digest_bytes(text[text.index('"added_tokens"') :].encode()).hex()
        return
    if hasattr(tokenizer, "sp_model"):
        yield digest_bytes(tokenizer.sp_model.serialized_model_proto()).hex()
    if hasattr(tokenizer, "get_vocab"):
        yield digest_json(tokenizer.get_vocab())
    if hasattr(tokenizer, "stop_words"):
        yield digest_json(sorted(tokenizer.stop_words))
    if isinstance(getattr(tokenizer, "encoder", None), Mapping):
        yield digest_json([list(tokenizer.encoder), list(getattr(tokenizer, "bpe_ranks", ()))])


def _stable(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _stable(inner) for key, inner in value.items() if not str(key).startswith("_")}
        return {key: inner for key, inner in kept.items() if key not in VOLATILE_SETTINGS}
    return [_stable(inner) for inner in value] if isinstance(value, list | tuple) else value
