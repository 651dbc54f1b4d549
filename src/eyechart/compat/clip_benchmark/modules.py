"""The modules of CLIP_benchmark that are served, and by which of ours."""

MODULES = {
    "clip_benchmark.cli": ("eyechart.compat.clip_benchmark.cli",),
}
