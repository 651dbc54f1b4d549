"""Files that lie elsewhere: plain HTTP folders and dataset repositories of hubs, all behind one interface."""

from eyechart.datasets.remote.files import Files, LocalFiles, cache_folder
from eyechart.datasets.remote.open import fetch_url, open_files

__all__ = ["Files", "LocalFiles", "cache_folder", "fetch_url", "open_files"]
