"""Exact CPU speed-ups: the same bits, or vectors that agree with the library's to 1e-5, in less time.

================================  ====================================================================================
`speedups.transforms`             resize and centre crop in one step; normalisation by table
`speedups.open_clip_towers`       text towers without padding; the last block for the pooled position only; weights in
                                  oneDNN's layout
`speedups.autotune`               batches split into slices that fit the CPU caches, several at once
================================  ====================================================================================

Each is compared with the library's result when a model is loaded, or before it is first used, and dropped if it
differs. ``EYECHART_SPEEDUPS=0`` disables all of them.
"""

import os

VARIABLE = "EYECHART_SPEEDUPS"
OFF = ("0", "false", "no", "off")


def enabled() -> bool:
    """Whether models that are loaded now may use the speed-ups."""
    return os.environ.get(VARIABLE, "").strip().lower() not in OFF
