"""The tables that most multiple-choice benchmarks share: accuracy by split and category, by ability, by cycle, by pair.

A row has the columns of its TSV file and `hit`, 1 or 0. Numbers are fractions, as VLMEvalKit reports them.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from statistics import fmean

from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.tables import Rows, all_right, by_column, grouped, mean, need, together

MMBENCH_SHORT = {
    "coarse_perception": "CP",
    "finegrained_perception (instance-level)": "FP-S",
    "finegrained_perception (cross-instance)": "FP-C",
    "logic_reasoning": "LR",
    "relation_reasoning": "RR",
    "attribute_reasoning": "AR",
}
MMT_SHORT = {
    "visual_recognition": "VR",
    "localization": "Loc",
    "ocr": "OCR",
    "counting": "Count",
    "hallucination": "HLN",
    "image_retrieval": "IR",
    "threed": "3D",
    "visual_captioning": "VC",
    "visual_grounding": "VG",
    "doc_understanding": "DU",
    "action_recognition": "AR",
    "pixel_level_perception": "PLP",
    "image-to-image_translation": "I2IT",
    "relation_reasoning": "RR",
    "intelligence_quotient_test": "IQT",
    "emotion": "Emo",
    "visual_illusion": "VI",
    "meme_understanding": "MemU",
    "visual_prompt_understanding": "VPU",
    "anomaly_detection": "AND",
    "keypoint_detection": "KD",
    "visual_commonsense_reasoning": "VCR",
    "image_evaluation_judgement": "IEJ",
    "multiple_image_analysis": "MIA",
    "cross_image_matching": "CIM",
    "temporal_understanding": "TU",
    "visual_code": "VP",
    "medical_understanding": "MedU",
    "autonomous_driving": "AUD",
    "discipline_knowledge_reasoning": "DKR",
    "embodied_ai": "EA",
    "gui_navigation": "GN",
}

Table = list[dict[str, object]]


def report_acc(rows: Iterable[Row]) -> Table:
    """Return the mean of `hit` per split ("none" without such a column): Overall, each l2-category, each category.

    Names follow VLMEvalKit, MMBench's short ones included; None where a split has no row of a category.
    """
    found = need(rows, "hit")
    groups = list(by_column(found, "l2-category", "category"))
    table: Table = []
    for split, members in _splits(found):
        line: dict[str, object] = {"split": split, "Overall": mean(members, "hit")}
        for name, group in groups:
            within = [row for row in group if _split(row) == split]
            line[MMBENCH_SHORT.get(name, name)] = mean(within, "hit") if within else None
        table.append(line)
    return table


def _split(row: Row) -> str:
    return as_text(row.get("split")) or "none"


def _splits(rows: Rows) -> list[tuple[str, Rows]]:
    return sorted(grouped(rows, _split).items(), key=itemgetter(0))


def mmvp(rows: Iterable[Row]) -> dict[str, float]:
    """Return MMVP's `Average` over questions and `Overall`: the share of consecutive pairs with both right."""
    found = need(rows)
    return {"Average": mean(found, "hit"), "Overall": fmean(all_right(pair, "hit") for pair in together(found, 2))}


def mmt(rows: Iterable[Row]) -> Table:
    """Return MMT-Bench's table: per split and over `ALL`, the accuracy and each task's; an ability averages its tasks.

    Tasks are the values of `category`, abilities those of `l2-category`. An ability is left out of a split that lacks
    one of its tasks.
    """
    found = need(rows, "hit", "category", "l2-category")
    abilities = {name: dict(by_column(group, "category")) for name, group in by_column(found, "l2-category")}
    table: Table = []
    for split, members in [*_splits(found), ("ALL", found)]:
        tasks = {name: mean(group, "hit") for name, group in by_column(members, "category")}
        line: dict[str, object] = {"split": split, "Overall": mean(members, "hit"), **tasks}
        for ability, names in abilities.items():
            if all(name in tasks for name in names):
                line[MMT_SHORT.get(ability, ability)] = fmean(tasks[name] for name in names)
        table.append(line)
    return table


def hrbench(rows: Iterable[Row]) -> Table:
    """Return HRBench's accuracy by cycle and category, with `all` for every category and `Average` for every cycle."""
    found = need(rows, "hit", "cycle_category", "category")
    cycles = {
        name: {"all": mean(members, "hit")}
        | {kind: mean(group, "hit") for kind, group in by_column(members, "category")}
        for name, members in by_column(found, "cycle_category")
    }
    kinds = list(dict.fromkeys(kind for scores in cycles.values() for kind in scores))
    averages = {kind: sum(scores.get(kind, 0.0) for scores in cycles.values()) / len(cycles) for kind in kinds}
    return [
        {"cycle": cycle, "type": kind, "accuracy": score}
        for cycle, scores in [*cycles.items(), ("Average", averages)]
        for kind, score in scores.items()
    ]


def sources(rows: Iterable[Row]) -> Table:
    """Return CV-Bench's table: for the 2D part the accuracy of each source, whose plain mean is `Overall`."""
    found = need(rows, "hit", "split")
    if any(as_text(row["split"]) != "2D" for row in found):
        return report_acc(found)
    scores = {name: mean(members, "hit") for name, members in by_column(found, "source")}
    return [{"split": "2D", **scores, "Overall": fmean(scores.values())}]


MMSCI_SETTINGS = ("Fig2Cap", "SubFig2Cap", "SubCap2Fig")


def mmsci(rows: Iterable[Row]) -> Table:
    """Return MMSci's accuracy by subject, by category and overall, in its three settings and on average.

    A setting that a subject lacks counts as 0 in its average, as in VLMEvalKit.
    """
    found = [row for row in need(rows, "hit", "setting") if as_text(row["setting"]) in MMSCI_SETTINGS]
    groups = [
        *by_column(found, "subject"),
        *((f"CATEGORY_{name}", group) for name, group in by_column(found, "category")),
    ]
    return [_settings(name, group) for name, group in [*groups, ("Overall", found)]]


def _settings(name: str, rows: Rows) -> dict[str, object]:
    scores = {setting: mean(group, "hit") for setting, group in by_column(rows, "setting")}
    line = {setting: scores.get(setting, 0.0) for setting in MMSCI_SETTINGS}
    return {"subject": name, **line, "Avg": fmean(line.values())}


FLIPS: Mapping[str, Callable[[str], str]] = {
    "vanilla": lambda name: name,
    "flip_eval": lambda name: name.replace("-flip", ""),
    "circ_eval": lambda name: name[:13] if "-flip" in name else name[:8],
    "flip_circ_eval": lambda name: name[:8],
}
"""3DSRBench: which rows count together, by what is left of their ``qid``."""


def flips(rows: Iterable[Row]) -> Table:
    """Return 3DSRBench's accuracy of rows, of rows with their mirror images, with their rotations, and with both."""
    found = need(rows, "hit", "qid")
    table: Table = []
    for setting, key in FLIPS.items():
        names = [key(as_text(row["qid"])) for row in found]
        lost = {name for name, row in zip(names, found, strict=True) if not row["hit"]}
        mains = [row for row in found if as_text(row["qid"]) in set(names)]
        lines = report_acc([{**row, "hit": as_text(row["qid"]) not in lost} for row in mains])
        table += [{"setting": setting, **{k: v for k, v in line.items() if k != "split"}} for line in lines]
    return table


def partial_matches(rows: Iterable[Row]) -> Table:
    """Return `report_acc`, and beside each number the mean share of words that chosen and right option have in common.

    That is TopViewRS's partial match. The chosen option is the one that was read (VLMEvalKit takes the last word of
    the answer for it).
    """
    found = need(rows, "hit")
    exact = report_acc(found)
    common = report_acc([{**row, "hit": _common_words(row)} for row in found])
    table: Table = []
    for line, other in zip(exact, common, strict=True):
        pairs = (((name, value), (f"{name}_PM", other[name])) for name, value in line.items() if name != "split")
        table.append({"split": line["split"], **dict(entry for pair in pairs for entry in pair)})
    return table


def _common_words(row: Row) -> float:
    said, right = (set(as_text(row.get(as_text(row[name]))).lower().split()) for name in ("choice", "answer"))
    return len(said & right) / max(len(said), len(right)) if said and right else 0.0
