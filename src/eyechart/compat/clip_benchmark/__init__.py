"""CLIP_benchmark's Python API, implemented by Eyechart's tasks, metrics and datasets."""

__all__ = ["__version__"]

__version__ = "1.6.2"
"""Emulated version."""
