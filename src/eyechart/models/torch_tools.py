"""What all torch families share: device, precision, the digest of weights."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import UsageError

if TYPE_CHECKING:
    import torch

PRECISIONS = ("fp32", "fp16", "bf16", "amp")
"""fp16 and bf16 convert the weights; amp keeps them and runs under autocast, as CLIP_benchmark does on a GPU."""


def choose_device(wanted: str) -> str:
    """Resolve ``auto`` to the best device there is."""
    import torch

    if wanted != "auto":
        if wanted.startswith("cuda") and not torch.cuda.is_available():
            raise UsageError("There is no CUDA device here.", advice="Use --device cpu.")
        return wanted
    return "cuda" if torch.cuda.is_available() else "cpu"


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


def number(scalar: torch.Tensor) -> float:
    """Return the value of a learned scalar."""
    return float(scalar.detach().float().item())


def count_parameters(model: torch.nn.Module) -> int:
    """Count the numbers that were learned."""
    return sum(parameter.numel() for parameter in model.parameters())
