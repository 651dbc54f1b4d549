"""CLIP_benchmark's Python API: its names, served by our tasks, metrics and datasets."""

__all__ = ["__version__"]

__version__ = "1.6.2"
"""The version whose names these are."""
