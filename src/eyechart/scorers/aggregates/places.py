"""Tables of benchmarks on points and boxes in images."""

import re
from collections.abc import Iterable
from statistics import fmean
from typing import Any

from eyechart.metrics.cell_values import Row, as_score, as_text
from eyechart.metrics.structures import Box, overlap
from eyechart.scorers.aggregates.means import Table, by_column, by_value, grouped, hit, mean, need, reports


def clicks(rows: Iterable[Row], *, kind: str) -> Table:
    """Return counts and percentages of hits: overall, for texts and icons (the column ``kind``), and per category."""
    found = need(rows, kind)
    categories = "category" in found[0] and all(as_text(row.get("category")) for row in found)

    def key(row: Row) -> str:
        return f"{as_text(row['category'])}:{as_text(row[kind])}" if categories else as_text(row[kind])

    table: dict[str, Any] = {f"{name}:cnt": len(members) for name, members in grouped(found, key).items()}
    table["Overall_Accuracy"] = 100 * mean(found)
    table["Format_Err_Rate"] = 100 * mean(found, "unread")
    parts = {name: [row for row in found if as_text(row[kind]) == name] for name in ("text", "icon")}
    table |= {f"{name.capitalize()}_Accuracy": 100 * mean(part) if part else None for name, part in parts.items()}
    if categories:
        table |= {f"{name}_Accuracy": 100 * mean(members) for name, members in by_column(found, "category")}
    return table


def referrals(rows: Iterable[Row]) -> Table:
    """Return precision and mean IoU per split, and the mean over splits (RefCOCO)."""
    found = need(rows)
    splits = grouped(found, _split)
    order = [f"{name}_{split}" for name in ("RefCOCO", "RefCOCO+") for split in ("val", "testA", "testB")]
    order += ["RefCOCOg_val", "RefCOCOg_test"]
    names = [*(name for name in order if name in splits), *sorted(splits.keys() - {*order})]
    lines = [(name, 100 * mean(splits[name]), mean(splits[name], "overlap"), len(splits[name])) for name in names]
    known = [line for line in lines if line[0] in order]
    if known:
        _, precisions, overlaps, samples = zip(*known, strict=True)
        lines.append(("Average", fmean(precisions), fmean(overlaps), sum(samples)))
    else:
        lines.append(("Average", 100 * mean(found), mean(found, "overlap"), len(found)))
    columns = ("Split", "Precision@1", "Average IoU", "Samples")
    return [dict(zip(columns, line, strict=True)) for line in lines]


def _split(row: Row) -> str:
    """Return the row's split, else its category as one: "RefCOCO+ test A" is RefCOCO+_testA."""
    if as_text(row.get("split")):
        return as_text(row["split"])
    name, *rest = as_text(row.get("category")).split(None, 1) or ["RefCOCO"]
    part = "".join(rest).strip()
    known = {"val": "val", "test": "test", "testa": "testA", "testb": "testB"}
    return "_".join([name, known.get(re.sub(r"[\s_-]", "", part.lower()), re.sub("[ -]", "_", part))][: 1 + len(rest)])


@reports("Average IoU")
def grounding(rows: Iterable[Row]) -> Table:
    """Return the share of boxes with their centre in the right box, their mean IoU and their number (TDBench)."""
    found = need(rows)
    names = {"Average Centroid Containment": "score", "Average IoU": "overlap"}
    return {name: mean(found, column) for name, column in names.items()} | {"Total Samples": len(found)}


def overlaps(rows: Iterable[Row]) -> Table:
    """Return the mean IoU and the hit rates at three thresholds, per kind and subkind (GroundingME)."""
    found = need(rows, "subtask_l1")
    limits = {"ACC@0.5": "acc_50", "ACC@0.75": "acc_75", "ACC@0.9": "acc_90"}
    table = {"IoU": mean(found)} | {name: mean(found, column) for name, column in limits.items()}
    for kind, members in by_column(found, "subtask_l1"):
        table |= {f"{kind}_{name}": mean(members, column) for name, column in limits.items()}
    fine = [row for row in found if as_text(row.get("subtask_l2"))]
    pairs = grouped(fine, lambda row: (as_text(row["subtask_l1"]), as_text(row["subtask_l2"])))
    for (kind, finer), members in sorted(pairs.items()):
        table[f"{kind}_{finer}_ACC@0.5"] = mean(members, "acc_50")
    return table


def pointing(rows: Iterable[Row]) -> Table:
    """Return the percentage, counts, unreadable answers, and counts per category (RoboSpatial)."""
    found = need(rows, "category")
    counts = {
        name: {"num_correct": sum(map(hit, members)), "num_total": len(members)}
        for name, members in by_value(found, "category").items()
    }
    return {
        "accuracy": 100 * mean(found),
        "num_correct": sum(map(hit, found)),
        "num_total": len(found),
        "illformed_responses": sum(int(as_score(row["unread"])) for row in found),
        "category_stats": counts,
    }


PERCEPTION = ("Attributes", "Material", "Physical State", "Object Retrieval", "OCR")
REASONING = ("Perspective Transform", "Ordering", "Contact and Occlusion", "Spatial Containment", "Comparison")
_DRAWN = re.compile(r"<box>\s{0,9}\[(\d{1,9}),(\d{1,9}),(\d{1,9}),(\d{1,9})\]")
_WANTED = re.compile(r"\[\s*([-\d.]+)\s*,\s*([-\d.]+)\s*,\s*([-\d.]+)\s*,\s*([-\d.]+)\s*\]")
_THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)


@reports("mIoU")
def treebench(rows: Iterable[Row]) -> dict[str, object]:
    """Return TreeBench's accuracy, overall and by subtask (0 without rows), and the mean IoU of boxes (mIoU)."""
    found = need(rows, "category")
    groups = by_value(found, "category")
    table: dict[str, object] = {"Overall": mean(found)}
    for task, subtasks in (("Perception", PERCEPTION), ("Reasoning", REASONING)):
        members = {name: groups.get(f"{task}/{name}", []) for name in subtasks}
        table[task] = {name: mean(rows) if rows else 0 for name, rows in members.items()}
    return table | {"mIoU": fmean(map(_drawn_overlap, found))}


def _drawn_overlap(row: Row) -> float:
    """Return the mean over target boxes of the best IoU with a box in the reasoning or the answer."""
    text = as_text(row.get("prediction"))
    thought = _THOUGHT.search(text)
    drawn: list[Box] = [[*map(float, sides)] for sides in _DRAWN.findall(thought[1] if thought else text)]
    drawn = [box for box in drawn if box[0] < box[2] and box[1] < box[3]]
    wanted: list[Box] = [[*map(float, sides)] for sides in _WANTED.findall(as_text(row.get("target_instances")))]
    if not drawn or not wanted:
        return float(bool(drawn))
    return fmean(max(overlap(box, target) for box in drawn) for target in wanted)
