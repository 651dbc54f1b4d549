"""Writing the shards of a webdataset: tar files that are the same, byte for byte, whenever the samples are."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from eyechart.errors import DataError
from eyechart.types import Kind, Sample


class ShardWriter:
    """Writes samples to ``0.tar``, ``1.tar`` and so on; a shard ends when it holds enough samples or bytes."""

    def __init__(self, folder: Path, max_count: int, max_size: int) -> None:
        self.folder, self.max_count, self.max_size = folder, max_count, max_size
        self.samples = self.shards = 0
        self._count = self._size = 0
        self._archive: tarfile.TarFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._archive is not None:
            self._archive.close()

    def write(
        self,
        sample: Sample,
        extension: str,
        data: bytes,
        texts: Mapping[str, Sequence[str]],
        *,
        kind: Kind,
        n_classes: int,
    ) -> None:
        """Write one sample, members in alphabetical order as the webdataset library does."""
        fields = {extension: data, **_target(sample, texts, kind, n_classes)}
        archive = self._next()
        for name in sorted(fields):
            info = tarfile.TarInfo(f"s{self.samples:07d}.{name}")
            info.size, info.mode = len(fields[name]), 0o444
            archive.addfile(info, io.BytesIO(fields[name]))
            self._size += len(fields[name])
        self._count += 1
        self.samples += 1

    def _next(self) -> tarfile.TarFile:
        if self._archive is None or self._count >= self.max_count or self._size >= self.max_size:
            if self._archive is not None:
                self._archive.close()
            self._archive = tarfile.open(self.folder / f"{self.shards}.tar", "w")  # noqa: SIM115 - closed by __exit__
            self.shards += 1
            self._count = self._size = 0
        return self._archive


def _target(sample: Sample, texts: Mapping[str, Sequence[str]], kind: Kind, n_classes: int) -> dict[str, bytes]:
    if kind == "classification":
        if sample.label is None:
            raise DataError(f"Sample {sample.id} has no label.")
        return {"cls": str(sample.label).encode()}
    if kind == "multilabel":
        vector = np.zeros(n_classes, np.float32)
        vector[list(sample.labels)] = 1
        stream = io.BytesIO()
        np.save(stream, vector)
        return {"npy": stream.getvalue()}
    cut = [member for member, captions in texts.items() if captions and not captions[-1].strip("\r")]
    if cut:
        raise DataError(
            f"Sample {sample.id}: its last caption is blank, and would be lost in {cut[0]}.",
            advice="Leave blank captions out, or put another one last.",
        )
    # A caption is a line, so a line break inside one is written as backslash and n, as CLIP_benchmark does.
    return {
        member: "\n".join(caption.replace("\n", r"\n") for caption in captions).encode()
        for member, captions in texts.items()
    }
