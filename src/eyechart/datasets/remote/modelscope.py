"""Dataset repositories on ModelScope, through its own client library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from eyechart.datasets.remote.errors import changed, no_dataset, no_network, not_allowed
from eyechart.datasets.remote.hubs import HubFiles, RemoteFile
from eyechart.errors import import_extra
from eyechart.io.progress import Bar


class ModelScopeFiles(HubFiles):
    """A dataset repository on ModelScope."""

    site = "modelscope.cn"

    @property
    def _api(self) -> Any:
        return import_extra("modelscope_hub", "hub").HubApi(endpoint=os.environ.get("MODELSCOPE_ENDPOINT"))

    def list_files(self) -> dict[str, RemoteFile]:
        """Ask for the repository's tree."""
        files = self._api.list_repo_files(self.repo, "dataset", revision=self.revision)
        return {file.path: RemoteFile(file.size, file.sha256, file.blob_id) for file in files if file.type != "tree"}

    def download(self, name: str, bar: Bar) -> Path:
        """Fetch into the mirror, under its own name."""
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
                progress_callbacks=[partial(_ScopeBar, bar)],
            )
        )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Tell apart: refused, unknown, unreachable, everything else."""
        hub = import_extra("modelscope_hub", "hub")
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


class _ScopeBar:
    """What the ModelScope client needs of a progress callback."""

    def __init__(self, bar: Bar, *_: object) -> None:
        self._bar = bar

    def update(self, count: int) -> None:
        """Count bytes."""
        self._bar.advance(count)

    def end(self) -> None:
        """Nothing is held open."""
