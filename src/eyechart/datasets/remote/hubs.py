"""Mirrors of remote files in the cache, and dataset repositories of hubs, downloaded by their client libraries."""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

from eyechart.datasets.locations import Files, beyond
from eyechart.datasets.remote.download import changed, no_dataset, no_network, not_allowed, not_cached, not_listed
from eyechart.datasets.tar_shards import check_whole
from eyechart.errors import DataError, import_extra
from eyechart.io.digests import file_digest
from eyechart.io.files import NOTES, write_atomic
from eyechart.io.progress import Bar, NoProgress, Progress
from eyechart.io.safe_parse import DAMAGED
from eyechart.messages import UserMessage


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
    """Remote files that are downloaded to a folder of the cache, with a note per file."""

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
        """Record that the mirrored file is this version of the remote one; a shard truncated there is deleted."""
        path = self.folder / name
        try:
            if name.endswith(".tar"):
                check_whole(path)
        except DataError as error:
            path.unlink()
            raise DataError(
                "{address}/{name} is truncated on the server: it has no end mark.",
                advice="Report it to the owner of the data; downloading it again will not help.",
                address=self.address,
                name=name,
            ) from error
        self.write_note(name, DownloadNote(path.stat().st_size, version, file_digest(path).hex()))

    def is_intact(self, name: str) -> bool:
        """True if the mirrored file is unchanged since its download."""
        note, path = self.note(name), self.folder / name
        same_size = path.is_file() and path.stat().st_size == note.size
        return bool(note.digest) and same_size and file_digest(path).hex() == note.digest

    def _note_path(self, name: str) -> Path:
        return self.folder / NOTES / f"{name.replace('/', '--')}.json"


@dataclass(frozen=True)
class RemoteFile:
    """A file as listed by a hub."""

    size: int
    sha256: str | None
    blob: str | None = None
    """Git's digest, which files without a SHA-256 also have."""

    @property
    def version(self) -> str:
        """The digest that the hub lists, if any."""
        return self.sha256 or self.blob or ""


@dataclass(frozen=True)
class HubFiles(MirroredFiles, ABC):
    """Files of one revision of a dataset repository; offline, those of its mirror."""

    repo: str = ""
    revision: str = ""

    site: ClassVar[str]

    @classmethod
    def open(cls, repo: str, revision: str, cache: Path, *, offline: bool) -> Self:
        """Open a repository with its mirror in the cache."""
        folder = cache / cls.site / f"{repo.replace('/', '--')}--{revision.replace('/', '--')}"
        return cls(folder, offline, repo, revision)

    @property
    def address(self) -> str:
        """The web page of the repository."""
        return f"https://{self.site}/datasets/{self.repo}/tree/{self.revision}"

    @cached_property
    def tree(self) -> dict[str, RemoteFile]:
        """All names, sizes and digests of the repository, from one request."""
        with self.errors():
            return self.list_files()

    def small(self, name: str) -> Path | None:
        """Return a file of the mirror; the library downloads it again if it has changed."""
        if self.offline:
            return super().small(name)
        if name not in self.tree:
            (self.folder / name).unlink(missing_ok=True)  # from an earlier revision
            return None
        return self._download(name, NoProgress())

    def size(self, name: str) -> int | None:
        """Return the size that the hub lists, or offline that of the mirrored file."""
        if self.offline:
            return super().size(name)
        remote = self.tree.get(name)
        return remote.size if remote else None

    def version(self, name: str) -> str:
        """Return the digest that the hub lists, or offline the one it listed at download."""
        listed = self.note(name).version if self.offline else self.tree[name].version
        return listed or file_digest(self.fetch(name, NoProgress())).hex()

    def fetch(self, name: str, progress: Progress) -> Path:
        """Download a file and verify it; the libraries resume."""
        path, note = self.folder / name, self.note(name)
        if self.offline:
            if not self.is_intact(name):
                raise not_cached(self.address, name)
            return path
        if name not in self.tree:
            raise not_listed(self.address, name)
        remote = self.tree[name]
        # Files of the same size may differ, so only a version that the hub lists is trusted.
        current = remote.version and (remote.version, remote.size) == (note.version, note.size)
        if current and self.is_intact(name):
            return path
        path.unlink(missing_ok=True)  # the libraries may keep a file that was modified
        path = self._download(name, progress)
        if remote.sha256:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
            if found != remote.sha256:
                path.unlink()
                raise changed(self.address, UserMessage("the SHA-256 of {name} differs from the listed one", name=name))
        self.note_fetched(name, remote.version)
        return path

    def unread(self, split: str, count: int) -> list[str]:
        """List the extra tar files on the hub; offline they are unknown."""
        return [] if self.offline else beyond(self.tree, split, count)

    def splits(self) -> list[str]:
        """List the folders with shards."""
        if self.offline:
            return super().splits()
        return sorted(
            name.split("/")[0] for name in self.tree if name.count("/") == 1 and name.endswith("/nshards.txt")
        )

    def exists(self) -> bool:
        """True if the repository can be read; otherwise the reason is raised."""
        if self.offline and not self.folder.is_dir():
            raise not_cached(self.address, UserMessage("The dataset"))
        return self.offline or bool(self.tree)

    def _download(self, name: str, progress: Progress) -> Path:
        step = progress.step(UserMessage("downloading {name}", name=name), self.tree[name].size)
        with self.errors(), step as bar:
            return self.download(name, bar)

    @abstractmethod
    def list_files(self) -> dict[str, RemoteFile]:
        """Request the list of all files."""

    @abstractmethod
    def download(self, name: str, bar: Bar) -> Path:
        """Download a file into `folder` with the library, reporting its bytes."""

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert the library's errors to ours."""
        refused, unknown, unreachable, other = self.error_types()
        try:
            yield
        except refused as error:
            raise not_allowed(self.address) from error
        except unknown as error:
            raise no_dataset(self.address) from error
        except unreachable as error:
            raise no_network(self.address, error) from error
        except other as error:
            raise changed(self.address, UserMessage("the hub returned an error ({reason})", reason=error)) from error

    @abstractmethod
    def error_types(self) -> Sequence[Any]:
        """Return the library's exceptions: access refused, repository unknown, hub unreachable, everything else."""


class HuggingFaceFiles(HubFiles):
    """A dataset repository on the Hugging Face hub."""

    site = "huggingface.co"

    def list_files(self) -> dict[str, RemoteFile]:
        """Request the repository's metadata with all its files."""
        # The library itself reads the variable of the user's mirror only on import.
        api = import_extra("huggingface_hub", "hub").HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
        info = api.dataset_info(self.repo, revision=self.revision, files_metadata=True)
        return {
            file.rfilename: RemoteFile(file.size or 0, file.lfs.sha256 if file.lfs else None, file.blob_id)
            for file in info.siblings or []
        }

    def download(self, name: str, bar: Bar) -> Path:
        """Download into the mirror, under the file's own name."""
        return Path(
            import_extra("huggingface_hub", "hub").hf_hub_download(
                self.repo,
                name,
                repo_type="dataset",
                revision=self.revision,
                local_dir=self.folder,
                endpoint=os.environ.get("HF_ENDPOINT"),
                tqdm_class=partial(_HubBar, bar),
            )
        )

    def error_types(self) -> Sequence[Any]:
        """Return the exceptions of ``huggingface_hub``."""
        import httpx2

        errors = import_extra("huggingface_hub.errors", "hub")
        return (
            errors.GatedRepoError,
            (errors.RepositoryNotFoundError, errors.RevisionNotFoundError),
            (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError, httpx2.TransportError),
            (errors.HfHubHTTPError, errors.EntryNotFoundError),
        )


class _HubBar:
    """The parts of tqdm and of ModelScope's callbacks that the clients use; bytes go to our progress."""

    def __init__(self, bar: Bar, *_: object, initial: int = 0, **__: object) -> None:
        self._bar = bar
        bar.advance(initial)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: float | None = 1) -> None:
        """Report bytes."""
        self._bar.advance(int(count or 0))

    def close(self) -> None:
        """Nothing to close."""

    end = close


class ModelScopeFiles(HubFiles):
    """A dataset repository on ModelScope."""

    site = "modelscope.cn"

    @property
    def _api(self) -> Any:
        return import_extra("modelscope_hub", "hub").HubApi(endpoint=os.environ.get("MODELSCOPE_ENDPOINT"))

    def list_files(self) -> dict[str, RemoteFile]:
        """Request the repository's tree."""
        files = self._api.list_repo_files(self.repo, "dataset", revision=self.revision)
        return {file.path: RemoteFile(file.size, file.sha256, file.blob_id) for file in files if file.type != "tree"}

    def download(self, name: str, bar: Bar) -> Path:
        """Download into the mirror, under the file's own name."""
        remote = self.tree[name]
        return Path(
            self._api.downloader.download_file(
                self.repo,
                "dataset",
                name,
                revision=self.revision,
                local_dir=self.folder,
                expected_sha256=remote.sha256 or None,
                file_size=remote.size,
                progress_callbacks=[partial(_HubBar, bar)],
            )
        )

    def error_types(self) -> Sequence[Any]:
        """Return the exceptions of ``modelscope_hub``."""
        hub = import_extra("modelscope_hub", "hub")
        refused = (hub.AuthenticationError, hub.PermissionDeniedError)
        return refused, hub.NotExistError, (hub.NetworkError, ConnectionError), hub.HubError
