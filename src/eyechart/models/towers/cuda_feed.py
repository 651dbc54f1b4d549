"""Every action on CUDA devices for a batch of images: copies beside the computation, by a stream of their own.

Built without a GPU: the order of its actions is tested with a double; it was not run on one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eyechart.models.towers.autotune import count_rows, take

if TYPE_CHECKING:
    import torch

Forward = Callable[[int, Any], "torch.Tensor"]
"""The number of a device and the images that are there, to vectors that are there."""


PORTABLE = 1
"""``cudaHostRegisterPortable``: locked for every device, not only for the current one."""


@dataclass(frozen=True)
class BatchTuning:
    """What a trial of batch sizes must know of a model on a device."""

    key: tuple[str, ...]
    """The model in its precision, and the devices: for others, it is tried again."""
    rounding: float
    """How far a number of a unit vector may move with the size of its batch."""
    clock: Callable[[], float] = time.perf_counter


class CudaFeed:
    """One device or several; each computes its share of the rows, and all are given work before any is waited for."""

    ahead = 1

    def __init__(
        self,
        devices: Sequence[str],
        prepare: Callable[[Any], NDArray[Any]],
        inputs: Callable[[Any], Any],
        forward: Forward,
        errors: Callable[[], AbstractContextManager[None]],
        tuning: BatchTuning | None = None,
    ) -> None:
        """Take what the model does.

        Args:
            devices: Their names.
            prepare: Transforms one image; bytes are a quarter of the way.
            inputs: Makes tensors of a batch, on the host.
            forward: Computes on a device.
            errors: Turns torch's errors into ours.
            tuning: For a trial of batch sizes, where nobody chose one.
        """
        import torch

        self.devices, self.prepare, self.tuning = list(devices), prepare, tuning
        self._inputs, self._forward, self._errors = inputs, forward, errors
        self._copies = [torch.cuda.Stream(device) for device in devices]

    def memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return page-locked memory: only from there a copy runs beside the host."""
        import torch

        kind = torch.from_numpy(np.empty(0, dtype)).dtype
        with self._errors():
            pinned: NDArray[Any] = torch.empty(shape, dtype=kind, pin_memory=True).numpy()
        return pinned

    @contextmanager
    def locked(self, memory: NDArray[Any]) -> Iterator[None]:
        """Page-lock memory that other processes write to; where CUDA refuses, copies wait but are right."""
        import torch

        runtime, place = torch.cuda.cudart(), memory.ctypes.data
        done = int(runtime.cudaHostRegister(place, memory.nbytes, PORTABLE)) == 0
        try:
            yield
        finally:
            if done:
                runtime.cudaHostUnregister(place)

    def copy(self, batch: Any) -> list[Any]:
        """Begin to copy each device's share of the rows, in its stream of copies."""
        import torch

        inputs = self._inputs(batch)
        n, rows = len(self.devices), count_rows(inputs)
        copied = []
        for i, (device, stream) in enumerate(zip(self.devices, self._copies, strict=True)):
            share = take(inputs, rows * i // n, rows * (i + 1) // n)
            if count_rows(share):
                with self._errors(), torch.cuda.stream(stream):
                    copied.append((i, _send(share, device), stream.record_event()))
        return copied

    def launch(self, copied: list[Any]) -> list[Any]:
        """Queue the forward passes behind the copies and the way back behind them; the host goes on."""
        import torch

        launched = []
        for i, inputs, arrived in copied:
            with self._errors(), torch.cuda.device(self.devices[i]):
                stream = torch.cuda.current_stream()
                stream.wait_event(arrived)
                # Its memory belongs to the other stream, which must not use it again before this one has read it.
                _hold(inputs, stream)
                vectors = self._forward(i, inputs).float()
                back = torch.empty(vectors.shape, dtype=torch.float32, pin_memory=True)
                back.copy_(vectors, non_blocking=True)
                launched.append((back, stream.record_event()))
        return launched

    def fetch(self, launched: list[Any]) -> NDArray[np.float32]:
        """Wait for the way back of these rows, and of nothing that was queued later."""
        with self._errors():
            for _, arrived in launched:
                arrived.synchronize()
        return np.concatenate([back.numpy() for back, _ in launched])


def _send(value: Any, device: str) -> Any:
    if isinstance(value, Mapping):
        return {name: _send(inner, device) for name, inner in value.items()}
    return value.to(device, non_blocking=True)


def _hold(value: Any, stream: Any) -> None:
    for tensor in value.values() if isinstance(value, Mapping) else [value]:
        tensor.record_stream(stream)
