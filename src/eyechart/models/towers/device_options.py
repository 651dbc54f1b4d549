"""Faster ways to compute that may round otherwise: options of every torch family, none of them chosen for the user.

===================  =================================================================================================
``channels_last``    ``true``: images lie pixel by pixel in memory, as the convolutions of many GPUs want them
``tf32``             ``true``: float32 products in TF32, on GPUs that have it; ``false``: no TF32 at all; without it,
                     torch's own choice, which is TF32 for convolutions only
``compile``          ``true`` or the name of a backend: `torch.compile` for both towers
===================  =================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from eyechart.errors import unknown_name

DEVICE_OPTIONS: Mapping[str, type] = MappingProxyType({"channels_last": bool, "tf32": bool})
"""What a torch family takes beside its own options; ``compile`` has a flag, which every family takes."""


@dataclass(frozen=True)
class DeviceWays:
    """What was asked for."""

    channels_last: bool = False
    tf32: bool | None = None
    compile: bool | str = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> DeviceWays:
        """Read a model's options."""
        return cls(**{name: options[name] for name in cls.__dataclass_fields__ if name in options})

    @property
    def text(self) -> str:
        """Write down what differs from the usual way; it is part of the model's fingerprint."""
        asked = {name: value for name, value in asdict(self).items() if value != getattr(USUAL, name)}
        return ", ".join(f"{name}={str(value).lower()}" for name, value in asked.items())

    @property
    def inexact(self) -> bool:
        """Tell whether vectors may differ from those of plain float32."""
        return self not in (USUAL, EXACT)

    def compiled(self, features: Callable[..., Any]) -> Callable[..., Any]:
        """Compile a tower, if that was asked for.

        Raises:
            UsageError: If there is no such backend.
        """
        if not self.compile:
            return features
        import torch
        from torch._dynamo import list_backends
        from torch._dynamo.exc import InvalidBackend

        try:
            found: Callable[..., Any] = torch.compile(
                features, **({} if self.compile is True else {"backend": str(self.compile)})
            )
        except InvalidBackend as error:
            raise unknown_name("backend of torch.compile", str(self.compile), list_backends()) from error
        return found

    @contextmanager
    def switched(self) -> Iterator[None]:
        """Set torch's switches for TF32 while kernels are launched. They are the whole process's: they are put back."""
        if self.tf32 is None:
            yield
            return
        from torch.backends import cuda, cudnn

        switches = (cuda.matmul, cudnn)
        before = [switch.allow_tf32 for switch in switches]
        try:
            for switch in switches:
                switch.allow_tf32 = self.tf32
            yield
        finally:
            for switch, value in zip(switches, before, strict=True):
                switch.allow_tf32 = value


USUAL, EXACT = DeviceWays(), DeviceWays(tf32=False)


def channels_last(value: Any) -> Any:
    """Lay images out pixel by pixel: tensors by name, however deep; what is no batch of images stays as it is."""
    import torch

    if isinstance(value, Mapping):
        return {name: channels_last(inner) for name, inner in value.items()}
    return value.contiguous(memory_format=torch.channels_last) if value.dim() == 4 else value
