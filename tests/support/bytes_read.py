"""Counts the bytes that are read from the files of a folder, by whoever opens them in this process."""

from __future__ import annotations

import builtins
import io
import os
from pathlib import Path


class BytesRead:
    """What was read of the files below a folder since it was last asked."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.folder = folder
        self._count = 0
        self._open = io.open
        for module in (io, builtins):  # pathlib's, and everybody's
            monkeypatch.setattr(module, "open", self.open)

    def open(self, file, mode="r", buffering=-1, *others, **named):
        """Open as always; a file of the folder is counted."""
        inside = not isinstance(file, int) and self.folder in Path(os.fsdecode(file)).absolute().parents
        if not inside or mode != "rb":
            return self._open(file, mode, buffering, *others, **named)
        return io.BufferedReader(_Counted(file, self), buffering if buffering > 1 else Path(file).stat().st_blksize)

    def add(self, count: int) -> None:
        """Count."""
        self._count += count

    def take(self) -> int:
        """Return the count, and begin anew."""
        count, self._count = self._count, 0
        return count


class _Counted(io.FileIO):
    def __init__(self, file, count: BytesRead) -> None:
        super().__init__(file, "rb")
        self._bytes = count

    def readinto(self, buffer):
        size = super().readinto(buffer)
        self._bytes.add(size or 0)
        return size

    def readall(self):
        data = super().readall()
        self._bytes.add(len(data))
        return data
