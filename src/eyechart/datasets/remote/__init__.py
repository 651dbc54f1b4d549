"""Remote files: plain HTTP folders and dataset repositories of hubs, behind one interface."""

from eyechart.datasets.locations import Files
from eyechart.datasets.remote.remote_sources import fetch_url, open_files

__all__ = ["Files", "fetch_url", "open_files"]
