"""Dataset repositories on hubs, through the hubs' own client libraries, mirrored in the cache."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from eyechart.datasets.remote.errors import changed, no_dataset, no_network, not_allowed, not_cached
from eyechart.datasets.tarshard import check_whole
from eyechart.errors import DataError, missing_extra
from eyechart.progress import Progress


@dataclass(frozen=True)
class Remote:
    """What a hub says of a file."""

    size: int
    sha256: str | None


@dataclass(frozen=True)
class HubFiles(ABC):
    """Files of one revision of a dataset repository."""

    repo: str
    revision: str
    cache: Path
    offline: bool = False

    site: ClassVar[str]

    @property
    def address(self) -> str:
        """Return where the repository can be seen."""
        return f"https://{self.site}/datasets/{self.repo}/tree/{self.revision}"

    @property
    def folder(self) -> Path:
        """Return the mirror in the cache."""
        return self.cache / self.site / f"{self.repo.replace('/', '--')}--{self.revision.replace('/', '--')}"

    @cached_property
    def tree(self) -> dict[str, Remote]:
        """List the repository, one request for all names, sizes and digests."""
        with self.errors():
            return self.list_files()

    def small(self, name: str) -> Path | None:
        """Return a file of the mirror; the library fetches it again if it has changed."""
        if self.offline:
            path = self.folder / name
            return path if path.is_file() else None
        return self._download(name) if name in self.tree else None

    def size(self, name: str) -> int | None:
        """Return the size that the hub lists, or offline that of the file in the mirror."""
        if self.offline:
            path = self.folder / name
            return path.stat().st_size if path.is_file() else None
        remote = self.tree.get(name)
        return remote.size if remote else None

    def fetch(self, name: str, progress: Progress) -> Path:
        """Download a file and check it; the libraries resume, and show their own progress."""
        path = self.folder / name
        if path.is_file() and (self.offline or (name in self.tree and path.stat().st_size == self.tree[name].size)):
            return path
        if self.offline:
            raise not_cached(self.address, name)
        if name not in self.tree:
            raise DataError(f"{self.address} has no {name}.", advice="nshards.txt counts it: it is incomplete there.")
        progress.say(f"fetching {name} of {self.repo}")
        path = self._download(name)
        try:
            self._check(name, path)
        except DataError:
            path.unlink()
            raise
        return path

    def splits(self) -> list[str]:
        """List the folders with shards."""
        if self.offline:
            return sorted(found.parent.name for found in self.folder.glob("*/nshards.txt"))
        return sorted(
            name.split("/")[0] for name in self.tree if name.count("/") == 1 and name.endswith("/nshards.txt")
        )

    def exists(self) -> bool:
        """Tell whether the repository can be read; if not, the reason is raised."""
        return self.folder.is_dir() if self.offline else bool(self.tree)

    def _download(self, name: str) -> Path:
        with self.errors():
            return self.download(name)

    def _check(self, name: str, path: Path) -> None:
        expected = self.tree[name].sha256
        if expected:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
            if found != expected:
                raise changed(self.address, f"{name} does not have the SHA-256 that the hub lists")
        if name.endswith(".tar"):
            check_whole(path)

    @abstractmethod
    def list_files(self) -> dict[str, Remote]:
        """Ask the hub for all files."""

    @abstractmethod
    def download(self, name: str) -> Path:
        """Let the library bring a file into `folder`."""

    @abstractmethod
    def errors(self) -> Any:
        """Return a context that turns the library's errors into ours."""


class HuggingFaceFiles(HubFiles):
    """A dataset repository on the Hugging Face hub."""

    site = "huggingface.co"

    def list_files(self) -> dict[str, Remote]:
        """Ask for the repository's description with all its files."""
        api = _huggingface().HfApi(endpoint=_endpoint())
        info = api.dataset_info(self.repo, revision=self.revision, files_metadata=True)
        return {
            file.rfilename: Remote(file.size or 0, file.lfs.sha256 if file.lfs else None)
            for file in info.siblings or []
        }

    def download(self, name: str) -> Path:
        """Fetch into the mirror, under its own name."""
        return Path(
            _huggingface().hf_hub_download(
                self.repo,
                name,
                repo_type="dataset",
                revision=self.revision,
                local_dir=self.folder,
                endpoint=_endpoint(),
            )
        )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Tell apart: gated, unknown, unreachable, everything else."""
        import httpx2

        errors = _huggingface().errors
        try:
            yield
        except errors.GatedRepoError as error:
            raise not_allowed(self.address) from error
        except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
            raise no_dataset(self.address) from error
        except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError, httpx2.TransportError) as error:
            raise no_network(self.address, error) from error
        except (errors.HfHubHTTPError, errors.EntryNotFoundError) as error:
            raise changed(self.address, f"the hub answers with an error ({error})") from error


class ModelScopeFiles(HubFiles):
    """A dataset repository on ModelScope."""

    site = "modelscope.cn"

    @property
    def _api(self) -> Any:
        return _modelscope().HubApi(endpoint=os.environ.get("MODELSCOPE_ENDPOINT"))

    def list_files(self) -> dict[str, Remote]:
        """Ask for the repository's tree."""
        files = self._api.list_repo_files(self.repo, "dataset", revision=self.revision)
        return {file.path: Remote(file.size, file.sha256) for file in files if file.type != "tree"}

    def download(self, name: str) -> Path:
        """Fetch into the mirror, under its own name."""
        remote = self.tree[name]
        return Path(
            self._api.download_file(
                self.repo,
                "dataset",
                name,
                revision=self.revision,
                local_dir=self.folder,
                expected_sha256=remote.sha256 or None,
                file_size=remote.size,
            )
        )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Tell apart: refused, unknown, unreachable, everything else."""
        hub = _modelscope()
        try:
            yield
        except (hub.AuthenticationError, hub.PermissionDeniedError) as error:
            raise not_allowed(self.address) from error
        except hub.NotExistError as error:
            raise no_dataset(self.address) from error
        except (hub.NetworkError, ConnectionError) as error:
            raise no_network(self.address, error) from error
        except hub.HubError as error:
            raise changed(self.address, f"the hub answers with an error ({error})") from error


def _endpoint() -> str | None:
    """Return the mirror that the user has set; the library itself looks only when it is imported."""
    return os.environ.get("HF_ENDPOINT")


def _huggingface() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError as error:
        raise missing_extra("huggingface_hub", "hub") from error
    return huggingface_hub


def _modelscope() -> Any:
    try:
        import modelscope_hub
    except ImportError as error:
        raise missing_extra("modelscope-hub", "hub") from error
    return modelscope_hub
