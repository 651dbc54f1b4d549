"""``clip_benchmark.cli``: the same command line."""

from __future__ import annotations

from eyechart.cli import main_clip_benchmark as main

__all__ = ["main"]
