"""Read by the interpreter of every run that chaos.py disturbs: lets it die at a chosen moment of a chosen write.

A file is written in four moments: half of its bytes are on the disk, all are, they are flushed, it has its name.
CHAOS_MOMENT=n kills the process with -9 at the n-th moment; CHAOS_COUNT=file tells how many a whole run has.
"""

import atexit
import os
import signal
import stat
from pathlib import Path

FATAL = int(os.environ.get("CHAOS_MOMENT", "0"))
_seen = 0
_fsync, _replace = os.fsync, os.replace


def _moment(prepare=lambda: None):
    global _seen  # noqa: PLW0603 - one count per process is what is wanted
    _seen += 1
    if _seen == FATAL:
        prepare()
        os.kill(os.getpid(), signal.SIGKILL)


def _cut(file):
    state = os.fstat(file)
    if stat.S_ISREG(state.st_mode):
        os.ftruncate(file, state.st_size // 2)


def fsync(file):
    _moment(lambda: _cut(file))
    _moment()
    _fsync(file)
    _moment()


def replace(source, target, **options):
    _replace(source, target, **options)
    _moment()


os.fsync, os.replace = fsync, replace
if "CHAOS_COUNT" in os.environ:
    atexit.register(lambda: Path(os.environ["CHAOS_COUNT"]).write_text(str(_seen)))

if "EYECHART_CACHE" in os.environ:
    from eyechart.inference import pipeline

    pipeline.FLUSH_ROWS = 24  # a run of seconds writes as often as one of hours
