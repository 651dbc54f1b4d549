"""Which kind of place an address is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from eyechart.datasets.layout import is_url
from eyechart.datasets.remote.files import Files, LocalFiles, cache_folder
from eyechart.errors import DataError
from eyechart.io.progress import NoProgress

HUB_ADDRESS = re.compile(
    r"https?://(?P<host>[^/]+)/datasets/(?P<repo>[^/]+/[^/]+)(?:/(?:tree|resolve|raw)/(?P<revision>[^/?#]+))?/?$"
)
HUGGINGFACE = frozenset({"huggingface.co", "hf.co"})
MODELSCOPE = frozenset({"modelscope.cn", "www.modelscope.cn", "modelscope.ai", "www.modelscope.ai"})


def open_files(root: str, options: Mapping[str, Any]) -> Files:
    """Open the place that a root names: a folder, a repository on a hub, or a folder on a web server."""
    if not is_url(root):
        return LocalFiles(Path(root))
    cache, offline = cache_folder(options), bool(options.get("offline"))
    match = HUB_ADDRESS.match(root)
    if match and match["host"] in HUGGINGFACE:
        from eyechart.datasets.remote.huggingface import HuggingFaceFiles

        return HuggingFaceFiles(match["repo"], match["revision"] or "main", cache, offline)
    if match and match["host"] in MODELSCOPE:
        from eyechart.datasets.remote.modelscope import ModelScopeFiles

        return ModelScopeFiles(match["repo"], match["revision"] or "master", cache, offline)
    from eyechart.datasets.remote.http import open_http

    return open_http(root, cache, offline=offline)


def fetch_url(url: str, options: Mapping[str, Any]) -> Path:
    """Fetch a single small file by its address, through the cache.

    Raises:
        DataError: If there is no such file, no network, or the cache lacks it while offline.
    """
    from eyechart.datasets.remote.http import open_http

    parts = urlsplit(url)
    path = PurePosixPath(parts.path)
    folder = open_http(
        parts._replace(path=str(path.parent)).geturl(), cache_folder(options), offline=bool(options.get("offline"))
    )
    if folder.size(path.name) is None:
        raise DataError(
            f"There is no file at {folder.address}/{path.name}.", advice="It may have moved; get it by hand."
        )
    return folder.fetch(path.name, NoProgress())
