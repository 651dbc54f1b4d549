"""A command in a real terminal of a given width."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def in_terminal(words, columns, folder, **environment):
    """Run ``eyechart WORDS`` in a terminal of so many columns; return its exit code and what is printed, uncoloured."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "eyechart", *words],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**kept, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that nobody writes there any more
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    return process.wait(), _COLOURS.sub("", b"".join(parts).decode()).replace("\r\n", "\n")
