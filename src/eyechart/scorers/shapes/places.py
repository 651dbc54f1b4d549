"""Tables of points and boxes."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from eyechart.metrics.cells import Row, as_score, as_text
from eyechart.scorers.tables import Table, by_column, grouped, hit, mean, need


def clicks(rows: Iterable[Row], *, kind: str) -> Table:
    """Return counts and percentages of hits: of all, of texts and icons (the column ``kind``), and per category."""
    found = need(rows, kind)
    categories = "category" in found[0] and all(as_text(row.get("category")) for row in found)

    def key(row: Row) -> str:
        return f"{as_text(row['category'])}:{as_text(row[kind])}" if categories else as_text(row[kind])

    table: dict[str, Any] = {f"{name}:cnt": len(members) for name, members in grouped(found, key).items()}
    table["Overall_Accuracy"] = 100 * mean(found)
    table["Format_Err_Rate"] = 100 * mean(found, "unread")
    for name in ("text", "icon"):
        members = [row for row in found if as_text(row[kind]) == name]
        table[f"{name.capitalize()}_Accuracy"] = 100 * mean(members) if members else None
    if categories:
        table |= {f"{name}_Accuracy": 100 * mean(members) for name, members in by_column(found, "category")}
    return table


_REFCOCO = tuple(f"{name}_{split}" for name in ("RefCOCO", "RefCOCO+") for split in ("val", "testA", "testB"))


def referrals(rows: Iterable[Row]) -> Table:
    """Return precision and mean overlap per split, and the mean over splits (RefCOCO)."""
    found = need(rows)
    splits = grouped(found, lambda row: as_text(row.get("split")) or as_text(row.get("category")) or "RefCOCO")
    order = [*_REFCOCO, "RefCOCOg_val", "RefCOCOg_test"]
    names = [*(name for name in order if name in splits), *sorted(splits.keys() - {*order})]
    lines = [
        {
            "Split": name,
            "Precision@1": 100 * mean(splits[name]),
            "Average IoU": mean(splits[name], "overlap"),
            "Samples": len(splits[name]),
        }
        for name in names
    ]
    known = [line for line in lines if line["Split"] in order]
    if not known:
        whole = {"Precision@1": 100 * mean(found), "Average IoU": mean(found, "overlap"), "Samples": len(found)}
        return [*lines, {"Split": "Average", **whole}]
    columns = ("Precision@1", "Average IoU")
    means = {name: fmean(as_score(line[name]) for line in known) for name in columns}
    return [*lines, {"Split": "Average", **means, "Samples": sum(int(as_score(line["Samples"])) for line in known)}]


def overlaps(rows: Iterable[Row]) -> Table:
    """Return the mean overlap and the hits at three thresholds, per kind and finer kind (GroundingME)."""
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
        for name, members in grouped(found, lambda row: as_text(row["category"])).items()
    }
    return {
        "accuracy": 100 * mean(found),
        "num_correct": sum(map(hit, found)),
        "num_total": len(found),
        "illformed_responses": sum(int(as_score(row["unread"])) for row in found),
        "category_stats": counts,
    }
