"""Building a network without filling it with random numbers that its checkpoint replaces a moment later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

RANDOM = ("uniform_", "normal_")
"""How the names of torch's functions end that fill a tensor with random numbers, and of those in ``torch.nn.init``."""


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
