"""CLIP_benchmark's Python API: its names, served by our tasks, metrics and datasets."""
