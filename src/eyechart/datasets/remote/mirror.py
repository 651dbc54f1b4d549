"""A mirror of remote files in the cache, with a note per file: the stated version, and the digest at download."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from eyechart.datasets.locations import Files
from eyechart.datasets.tar_shards import check_whole
from eyechart.errors import DataError
from eyechart.io.digests import file_digest
from eyechart.io.files import NOTES, write_atomic
from eyechart.io.safe_parse import DAMAGED


@dataclass(frozen=True)
class DownloadNote:
    """What is known about a remote file; nothing by default."""

    size: int | None = None
    version: str = ""
    """As stated by the server: an ETag, a date, or a digest."""
    digest: str = ""
    """Digest of the mirrored file at download; empty if it was not downloaded."""
    missing: bool = False
    """True if the server does not have the file."""


UNKNOWN = DownloadNote()


@dataclass(frozen=True)
class MirroredFiles(Files):
    """Remote files that are downloaded to a folder of the cache."""

    offline: bool = False

    def note(self, name: str) -> DownloadNote:
        """Read the note of a file; `UNKNOWN` if there is none or it is damaged."""
        try:
            return DownloadNote(**json.loads(self._note_path(name).read_text(encoding="utf-8")))
        except (FileNotFoundError, *DAMAGED):
            return UNKNOWN

    def write_note(self, name: str, note: DownloadNote) -> None:
        """Write the note of a file, if it changes."""
        if self.note(name) != note:
            write_atomic(self._note_path(name), json.dumps(asdict(note)).encode())

    def note_fetched(self, name: str, version: str) -> None:
        """Record that the mirrored file is this version of the remote one."""
        path = self.folder / name
        self.write_note(name, DownloadNote(path.stat().st_size, version, file_digest(path).hex()))

    def is_intact(self, name: str) -> bool:
        """True if the mirrored file is unchanged since its download."""
        note, path = self.note(name), self.folder / name
        same_size = path.is_file() and path.stat().st_size == note.size
        return bool(note.digest) and same_size and file_digest(path).hex() == note.digest

    def check_tar(self, name: str) -> None:
        """Delete a shard that is already truncated on the server.

        Raises:
            DataError: If it is.
        """
        if not name.endswith(".tar"):
            return
        path = self.folder / name
        try:
            check_whole(path)
        except DataError as error:
            path.unlink()
            raise DataError(
                "{address}/{name} is truncated on the server: it has no end mark.",
                advice="Report it to the owner of the data; downloading it again will not help.",
                address=self.address,
                name=name,
            ) from error

    def _note_path(self, name: str) -> Path:
        return self.folder / NOTES / f"{name.replace('/', '--')}.json"
