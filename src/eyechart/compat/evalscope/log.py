"""The log of a run: a file in its folder, and the same lines to whoever watches; and the logger of scripts."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eyechart.api import Secret
from eyechart.compat.evalscope.secrets import without
from eyechart.errors import UsageError
from eyechart.io.files import make_folder, open_plain
from eyechart.io.progress import Progress

FORMAT = "%(asctime)s - eyechart - %(levelname)s: %(message)s"


def get_logger(
    log_file: str | None = None,
    name: str = "evalscope",
    log_level: int = logging.INFO,
    file_mode: str = "w",
    force: bool = False,
    **others: object,  # noqa: ARG001 - its later versions have more
) -> logging.Logger:
    """Return the logger of a script, set up at its first use (or again, with ``force``): it writes to standard error.

    A run does not log here: `run_log`.
    """
    logger = logging.getLogger(name)
    if logger.handlers and not force:
        return logger
    logger.handlers.clear()
    logger.setLevel(log_level)
    logger.propagate = False
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if log_file:
        handlers.append(logging.FileHandler(log_file, file_mode, encoding="utf-8"))
    for handler in handlers:
        handler.setFormatter(logging.Formatter(FORMAT.replace("eyechart", name), "%Y-%m-%d %H:%M:%S"))
        logger.addHandler(handler)
    return logger


class _Redacting(logging.Formatter):
    """Removes keys from whole lines, tracebacks included: a server's words may quote one."""

    def __init__(self, secrets: Sequence[Secret]) -> None:
        super().__init__(FORMAT, "%Y-%m-%d %H:%M:%S")
        self.secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return without(super().format(record), self.secrets)


class _ToProgress(logging.Handler):
    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.INFO)
        self.progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        self.progress.say(self.format(record))


@contextmanager
def run_log(path: Path, progress: Progress, secrets: Sequence[Secret]) -> Iterator[logging.Logger]:
    """Open the log; what is logged also goes to ``progress``. Other libraries' loggers are left alone."""
    logger = logging.Logger("eyechart.run_task", logging.DEBUG)  # noqa: LOG001 - two runs at a time must not mix
    try:
        file = open_plain(make_folder(path.parent) / path.name, "a", "utf-8")
    except OSError as error:
        raise UsageError(
            f"Cannot write the log {path} ({error.strerror}).",
            advice="Choose another work_dir; links are not followed.",
        ) from error
    handlers: list[logging.Handler] = [logging.StreamHandler(file), _ToProgress(progress)]
    for handler in handlers:
        handler.setFormatter(_Redacting(secrets))
        logger.addHandler(handler)
    try:
        yield logger
    finally:
        file.close()


__all__ = ["get_logger", "run_log"]
