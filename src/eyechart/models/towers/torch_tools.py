"""What all torch families share: devices, precision, the digest of weights."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError, OutOfMemoryError, UsageError, first_line

if TYPE_CHECKING:
    import torch

PRECISIONS = ("fp32", "fp16", "bf16", "amp")
"""fp16 and bf16 convert the weights; amp keeps them and runs under autocast, as CLIP_benchmark does on a GPU."""

CPU_INSTRUCTIONS = {
    "fp16": ("avx512_fp16", "amx_fp16"),
    "bf16": ("avx512_bf16", "amx_bf16"),
    "amp": ("avx512_bf16", "amx_bf16"),
}
"""What makes a precision fast on an x86 CPU: any one of these."""
LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
"""Which process of this machine am I: set by launchers."""
RANDOM = ("uniform_", "normal_")
"""How the names of torch's functions end that fill a tensor with random numbers, and of those in ``torch.nn.init``."""
PLAIN = (bool, int, float, str, list, tuple)
OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|bad_alloc", re.IGNORECASE)


def local_rank() -> int | None:
    """Return this process's number on this machine; None if no launcher said so."""
    return next((int(os.environ[name]) for name in LOCAL_RANKS if os.environ.get(name, "").isdigit()), None)


def choose_devices(wanted: str) -> list[str]:
    """Resolve ``--device``: ``auto`` is every GPU there is, else the CPU; several are separated by commas.

    A process that torchrun or Slurm started beside others takes one GPU, by its number on this machine.
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
            raise UsageError(f"Unknown device: {name!r}.", advice="Use auto, cpu, cuda or cuda:1.") from error
        if kind.type == "cuda" and (kind.index or 0) >= torch.cuda.device_count():
            raise UsageError(
                f"There is no device {name} here ({torch.cuda.device_count()} CUDA devices).",
                advice="Use --device auto or --device cpu.",
            )
    return devices


def choose_device(wanted: str) -> str:
    """Resolve ``--device`` for a model that lives on one device only."""
    return choose_devices(wanted)[0]


def device_names(devices: Sequence[str]) -> list[str]:
    """Return what kind of device each is: the name of a GPU."""
    import torch

    return [torch.cuda.get_device_name(device) for device in devices]


def precision_notes(precision: str, device: str) -> list[str]:
    """Say that a CPU computes a precision without instructions for it: the numbers are right, the time is not."""
    import torch

    if device != "cpu" or precision not in CPU_INSTRUCTIONS:
        return []
    has = torch.cpu.get_capabilities()
    if has.get("architecture") != "x86_64" or any(has.get(name) for name in CPU_INSTRUCTIONS[precision]):
        return []
    kind = "fp16" if precision == "fp16" else "bf16"
    return [f"This CPU has no {kind} instructions: --precision {precision} is emulated, slower than fp32 and coarser."]


def cast(model: torch.nn.Module, precision: str) -> torch.nn.Module:
    """Convert the weights to the precision's type."""
    import torch

    types = {"fp16": torch.float16, "bf16": torch.bfloat16}
    return model.to(types[precision]) if precision in types else model


def input_type(precision: str) -> torch.dtype:
    """Return the type of the inputs for a precision."""
    import torch

    return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)


def autocast(precision: str, device: str) -> AbstractContextManager[Any]:
    """Return the context of a forward pass: autocast for ``amp``, nothing otherwise."""
    import torch

    if precision != "amp":
        return nullcontext()
    kind = device.partition(":")[0]
    context: AbstractContextManager[Any] = torch.autocast(
        kind, dtype=torch.float16 if kind == "cuda" else torch.bfloat16
    )
    return context


@contextmanager
def forward_errors(precision: str) -> Iterator[None]:
    """Turn torch's errors of a forward pass into ours: memory (a smaller batch may fit), missing half kernels."""
    try:
        yield
    except (IndexError, RuntimeError) as error:
        if OUT_OF_MEMORY.search(str(error)):
            import torch

            if torch.cuda.is_available():
                # What the failed batch left behind would be in the way of the smaller one.
                torch.cuda.empty_cache()
            raise OutOfMemoryError(f"The batch does not fit into memory ({error}).") from error
        if "not implemented for" in str(error):
            raise ModelError(
                f"This model cannot run in {precision} here ({error}).", advice="Use --precision fp32."
            ) from error
        raise ModelError(
            f"The model cannot compute this ({first_line(error)}).",
            advice="Do its config, its tokenizer and its length of texts belong to its weights?",
        ) from error


def weights_digest(model: torch.nn.Module) -> str:
    """Digest all parameters and buffers by name, shape and value, wherever they came from."""
    import torch

    state = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        state.update(f"{name}{tuple(tensor.shape)}".encode())
        plain = tensor.detach().cpu().contiguous()
        state.update(memoryview(plain.reshape(-1).view(torch.uint8).numpy()))
    return state.hexdigest()


def to_numpy(vectors: torch.Tensor) -> NDArray[np.float32]:
    """Bring vectors to numpy in float32."""
    return np.asarray(vectors.detach().float().cpu().numpy(), np.float32)


def number(scalar: torch.Tensor | float) -> float:
    """Return the value of a learned scalar."""
    return float(scalar) if isinstance(scalar, float) else float(scalar.detach().float().item())


def count_parameters(model: torch.nn.Module) -> int:
    """Count the numbers that were learned."""
    return sum(parameter.numel() for parameter in model.parameters())


def describe(transform: object) -> str:
    """Write a transform and the settings of its steps out, without the addresses that functions have in this process.

    Some steps leave settings out of their own description: open_clip's padding its colour.
    """
    steps = [getattr(step, "__dict__", {}) for step in getattr(transform, "transforms", ())]
    plain = [{name: value for name, value in step.items() if isinstance(value, PLAIN)} for step in steps]
    return re.sub(r" at 0x[0-9a-fA-F]+", "", f"{transform!r} {plain}" if steps else repr(transform))


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from drawing its own bars and reports while it loads; what matters is on the card."""
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


@contextmanager
def no_random_start() -> Iterator[None]:
    """Let torch leave weights as they are (not zero: whatever the memory held) instead of drawing numbers.

    Only for a model whose checkpoint is loaded strictly: every weight must be replaced.
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

    with Skip():
        yield
