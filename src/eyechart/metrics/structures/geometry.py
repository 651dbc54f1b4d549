"""Points, boxes and polygons in images."""

from __future__ import annotations

from collections.abc import Sequence

Box = Sequence[float]
"""Left, upper, right, lower."""


def overlap(first: Box, second: Box) -> float:
    """Return the intersection of two boxes over their union; 0 where that is empty."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(width, 0.0) * max(height, 0.0)
    union = _area(first) + _area(second) - shared
    return shared / union if union > 0 else 0.0


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def in_box(x: float, y: float, box: Box) -> bool:
    """Tell whether a point lies in a box or on its edge."""
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def in_polygon(x: float, y: float, corners: Sequence[Sequence[float]]) -> bool:
    """Tell whether a point lies in a polygon: a ray from it crosses the edges an odd number of times."""
    inside = False
    for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
        if min(ay, by) < y <= max(ay, by) and x <= (y - ay) * (bx - ax) / (by - ay) + ax:
            inside = not inside
    return inside
