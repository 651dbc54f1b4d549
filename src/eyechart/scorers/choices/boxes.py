"""TreeBench: letters, and how well the boxes that an answer draws cover those of the objects in question."""

import re
from collections.abc import Iterable, Sequence
from statistics import fmean

from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.tables import grouped, mean, need

PERCEPTION = ("Attributes", "Material", "Physical State", "Object Retrieval", "OCR")
REASONING = ("Perspective Transform", "Ordering", "Contact and Occlusion", "Spatial Containment", "Comparison")
Box = Sequence[float]
_DRAWN = re.compile(r"<box>\s{0,9}\[(\d{1,9}),(\d{1,9}),(\d{1,9}),(\d{1,9})\]")
_WANTED = re.compile(r"\[\s*([-\d.]+)\s*,\s*([-\d.]+)\s*,\s*([-\d.]+)\s*,\s*([-\d.]+)\s*\]")
_THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)


def treebench(rows: Iterable[Row]) -> dict[str, object]:
    """Return TreeBench's accuracy, overall and by subtask (0 without rows), and the mean overlap of boxes (mIoU)."""
    found = need(rows, "hit", "category")
    groups = grouped(found, lambda row: as_text(row["category"]))
    table: dict[str, object] = {"Overall": mean(found, "hit")}
    for task, subtasks in (("Perception", PERCEPTION), ("Reasoning", REASONING)):
        members = {name: groups.get(f"{task}/{name}", []) for name in subtasks}
        table[task] = {name: mean(rows, "hit") if rows else 0 for name, rows in members.items()}
    return table | {"mIoU": fmean(map(overlap, found))}


def overlap(row: Row) -> float:
    """Return the mean over wanted boxes of the best overlap with a box that the thought, or the answer, draws."""
    text = as_text(row.get("prediction"))
    thought = _THOUGHT.search(text)
    drawn = [_numbers(found) for found in _DRAWN.findall(thought[1] if thought else text)]
    drawn = [box for box in drawn if box[0] < box[2] and box[1] < box[3]]
    wanted = [_numbers(found) for found in _WANTED.findall(as_text(row.get("target_instances")))]
    if not drawn or not wanted:
        return float(bool(drawn))
    return fmean(max(iou(box, target) for box in drawn) for target in wanted)


def _numbers(texts: Sequence[str]) -> Box:
    return [float(text) for text in texts]


def iou(one: Box, other: Box) -> float:
    """Return the intersection of two boxes (x1, y1, x2, y2) over their union."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0.0, width) * max(0.0, height)
    union = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)) - shared
    return shared / union if union > 0 else 0.0
