"""SIGINT and SIGTERM: held back while files are written, and an orderly exit that stores what was computed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

TERMINATED = 128 + signal.SIGTERM
"""Exit code after SIGTERM, as a shell reports it."""


class Termination(SystemExit):
    """SIGTERM asked the process to end: sent by Slurm, by ``docker stop`` or by a parent process."""


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM unwind the block like Ctrl-C, so that computed vectors are stored; further ones are ignored.

    A handler of the caller is left alone.
    """
    if not _in_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - the signature of a handler
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Termination(TERMINATED)


@contextmanager
def held_signals() -> Iterator[None]:
    """Deliver SIGINT and SIGTERM after the block, in which files are written; a second SIGINT aborts it at once.

    In other threads than the main one, which receives all signals, the block just runs.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    if not _in_main_thread() or any(isinstance(handler, _Holder) for handler in handlers.values()):
        yield
        return
    holder = _Holder()
    try:
        for number in handlers:
            signal.signal(number, holder)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if holder.received is not None:
            signal.raise_signal(holder.received)


class _Holder:
    """A signal handler that remembers the first signal."""

    received: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        if number == signal.SIGINT == self.received:
            raise KeyboardInterrupt
        self.received = self.received or number


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
