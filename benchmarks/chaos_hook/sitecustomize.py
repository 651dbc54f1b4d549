"""Read by the interpreter of every run that chaos.py disturbs: lets it die at a chosen moment of a chosen write.

A file is written in four moments: half of its bytes are on the disk, all are, they are flushed, it has its name.
CHAOS_MOMENT=n sends the process the signal CHAOS_SIGNAL at the n-th moment; CHAOS_COUNT=file tells how many a whole
run has. CHAOS_LOG=file receives the key of every vector that was computed.
"""

import atexit
import os
import signal
import stat
from pathlib import Path

FATAL = int(os.environ.get("CHAOS_MOMENT", "0"))
SIGNAL = int(os.environ.get("CHAOS_SIGNAL", signal.SIGKILL))
_seen = 0
_fsync, _replace = os.fsync, os.replace


def _moment(prepare=lambda: None):
    global _seen  # noqa: PLW0603 - one count per process is what is wanted
    _seen += 1
    if _seen == FATAL:
        if SIGNAL == signal.SIGKILL:  # after the others the write goes on
            prepare()
        os.kill(os.getpid(), SIGNAL)


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

if "CHAOS_LOG" in os.environ:
    _add = pipeline._Buffer.add

    def add(buffer, keys, vectors):
        _add(buffer, keys, vectors)
        with Path(os.environ["CHAOS_LOG"]).open("a") as log:
            log.writelines(f"{buffer.table._table} {key.hex()}\n" for key in keys)

    pipeline._Buffer.add = add
