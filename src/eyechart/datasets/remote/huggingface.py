"""Dataset repositories on the Hugging Face hub, through its own client library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self

from eyechart.datasets.remote.errors import changed, no_dataset, no_network, not_allowed
from eyechart.datasets.remote.hubs import HubFiles, RemoteFile
from eyechart.errors import import_extra
from eyechart.io.progress import Bar


class HuggingFaceFiles(HubFiles):
    """A dataset repository on the Hugging Face hub."""

    site = "huggingface.co"

    def list_files(self) -> dict[str, RemoteFile]:
        """Ask for the repository's description with all its files."""
        api = import_extra("huggingface_hub", "hub").HfApi(endpoint=_endpoint())
        info = api.dataset_info(self.repo, revision=self.revision, files_metadata=True)
        return {
            file.rfilename: RemoteFile(file.size or 0, file.lfs.sha256 if file.lfs else None, file.blob_id)
            for file in info.siblings or []
        }

    def download(self, name: str, bar: Bar) -> Path:
        """Fetch into the mirror, under its own name."""
        return Path(
            import_extra("huggingface_hub", "hub").hf_hub_download(
                self.repo,
                name,
                repo_type="dataset",
                revision=self.revision,
                local_dir=self.folder,
                endpoint=_endpoint(),
                tqdm_class=partial(_HubBar, bar),
            )
        )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Tell apart: gated, unknown, unreachable, everything else."""
        import httpx2

        errors = import_extra("huggingface_hub.errors", "hub")
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


class _HubBar:
    """What the Hugging Face client needs of a tqdm bar; every byte goes to our own progress."""

    def __init__(self, bar: Bar, *, initial: int = 0, **_: object) -> None:
        self._bar = bar
        bar.advance(initial)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: float | None = 1) -> None:
        """Count bytes."""
        self._bar.advance(int(count or 0))

    def close(self) -> None:
        """Nothing is held open."""


def _endpoint() -> str | None:
    """Return the mirror that the user has set; the library itself looks only when it is imported."""
    return os.environ.get("HF_ENDPOINT")
