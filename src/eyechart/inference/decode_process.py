"""A process that prepares images: what runs in it, and the end of its pipe that this process holds."""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import EyechartError
from eyechart.inference.image_work import ImageWork, Outcome, Wanted
from eyechart.inference.shared_rows import SharedRows
from eyechart.io.stopwatch import Stopwatch

Answer = tuple[dict[str, float], list[Outcome | None]]
"""Seconds by phase, and for each image its pixels or what was wrong with it; None if it is in its row."""
PATIENCE = 10.0
"""Seconds for a process to end by itself."""


def packed(work: ImageWork, *owners: object) -> bytes | None:
    """Make of the work what a process is sent; None if it cannot be sent, or only with one of its owners (a model)."""
    from PIL import Image, ImageFile

    if any(getattr(part, "__self__", part) is owner for part in (work.decode, work.prepare) for owner in owners):
        return None
    # Pillow's settings, and which of its warnings are errors, are part of what an image becomes.
    settings = (ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS)
    try:
        return bytes(ForkingPickler.dumps((work, settings, list(warnings.filters))))
    except Exception:  # noqa: BLE001 - whatever a transform of anybody raises when it is packed
        return None


class DecodeProcess:
    """One process. It is asked by one thread at a time."""

    def __init__(self, work: bytes, rows: SharedRows) -> None:
        context = get_context("spawn")  # a fork would share what CUDA and threads have set up
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, rows), daemon=True, name="decode")
        self._process.start()
        theirs.close()  # so that its end is seen here
        self._pipe.send_bytes(work)
        self.ready = False

    @property
    def pid(self) -> int | None:
        """Return the number of the process."""
        return self._process.pid

    def settle(self, *, wait: bool) -> None:
        """See whether it is ready.

        Raises:
            EOFError, OSError: If it has ended, or cannot do this work.
        """
        if not self.ready and (wait or self._pipe.poll()):
            self.ready = self._pipe.recv()
            if not self.ready:
                raise EOFError

    def ask(self, piece: Sequence[Wanted]) -> Answer:
        """Let it prepare images.

        Raises:
            EOFError, OSError: If it has ended.
        """
        self._pipe.send(piece)
        answer: Answer = self._pipe.recv()
        return answer

    def close(self) -> None:
        """End it."""
        self._pipe.close()
        self._process.join(PATIENCE if self.ready else 0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(pipe: Connection, rows: SharedRows) -> None:
    """Prepare images until the other end is closed: by `DecodeProcess.close`, or because its process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process gets it, too, and ends this one in order
    try:
        work = _unpacked(pipe)
        pipe.send(work is not None)
        while work is not None:
            watch = Stopwatch()
            found = [_outcome(work, rows.array, wanted, watch) for wanted in pipe.recv()]
            pipe.send((watch.taken(), found))
    except (EOFError, OSError):
        return


def _unpacked(pipe: Connection) -> ImageWork | None:
    from PIL import Image, ImageFile

    try:
        work, settings, filters = pipe.recv()
    except (EOFError, OSError):
        raise
    except Exception:  # noqa: BLE001 - a transform whose code is only in the other process; it stays there
        return None
    ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = settings
    warnings.resetwarnings()
    for action, message, category, module, line in reversed(filters):
        warnings.filterwarnings(action, _pattern(message), category, _pattern(module), line)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # there is a process for each core
    found: ImageWork = work
    return found


def _pattern(known: Any) -> str:
    """Return what a filter of warnings was made from: a regular expression, its text, or nothing."""
    return str(getattr(known, "pattern", known) or "")


def _outcome(work: ImageWork, rows: NDArray[Any], wanted: Wanted, watch: Stopwatch) -> Outcome | None:
    key, sample, row = wanted
    try:
        found = work.do(key, sample, watch)
        fits = isinstance(found, np.ndarray) and (found.shape, found.dtype) == (rows.shape[1:], rows.dtype)
        if row is None or not fits:
            return found
        rows[row] = found
    except Exception as error:  # noqa: BLE001 - it is raised again where the image is needed
        return _sendable(error)
    return None


def _sendable(error: Exception) -> Exception:
    """Return an error that means the same in the other process, with the place where it happened."""
    if isinstance(error, EyechartError):
        return error
    place = "".join(traceback.format_exception(error))
    if type(error).__module__ != "builtins":  # its class may need what is not sent
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"In a decode process:\n{place}")
    return error
