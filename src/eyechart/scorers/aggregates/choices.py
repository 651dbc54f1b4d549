"""Tables of multiple-choice benchmarks: accuracy by split, category, ability, cycle or pair; counts.

Numbers are fractions, as VLMEvalKit reports them, unless noted otherwise.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from statistics import fmean

from eyechart.messages import UserMessage
from eyechart.metrics.cell_values import Row, as_score, as_text, options_of
from eyechart.metrics.repeated_questions import can_rotate, question_of, row_index
from eyechart.scorers.aggregates.means import (
    Line,
    Lines,
    Rows,
    all_right,
    by_column,
    grouped,
    mean,
    need,
    reports,
    together,
)
from eyechart.types import Notice

MMBENCH_SHORT = {
    "coarse_perception": "CP",
    "finegrained_perception (instance-level)": "FP-S",
    "finegrained_perception (cross-instance)": "FP-C",
    "logic_reasoning": "LR",
    "relation_reasoning": "RR",
    "attribute_reasoning": "AR",
}
MMT_SHORT = {
    "visual_recognition": "VR", "localization": "Loc", "ocr": "OCR", "counting": "Count", "hallucination": "HLN",
    "image_retrieval": "IR", "threed": "3D", "visual_captioning": "VC", "visual_grounding": "VG",
    "doc_understanding": "DU", "action_recognition": "AR", "pixel_level_perception": "PLP",
    "image-to-image_translation": "I2IT", "relation_reasoning": "RR", "intelligence_quotient_test": "IQT",
    "emotion": "Emo", "visual_illusion": "VI", "meme_understanding": "MemU", "visual_prompt_understanding": "VPU",
    "anomaly_detection": "AND", "keypoint_detection": "KD", "visual_commonsense_reasoning": "VCR",
    "image_evaluation_judgement": "IEJ", "multiple_image_analysis": "MIA", "cross_image_matching": "CIM",
    "temporal_understanding": "TU", "visual_code": "VP", "medical_understanding": "MedU",
    "autonomous_driving": "AUD", "discipline_knowledge_reasoning": "DKR", "embodied_ai": "EA",
    "gui_navigation": "GN",
}  # fmt: skip
MMSCI_SETTINGS = ("Fig2Cap", "SubFig2Cap", "SubCap2Fig")


def report_acc(rows: Iterable[Row]) -> Lines:
    """Return the mean score per split ("none" without such a column): Overall, each l2-category, each category.

    Names follow VLMEvalKit, including MMBench's abbreviations; None if a split has no row of a category.
    """
    found = need(rows)
    groups = list(by_column(found, "l2-category", "category"))
    table: Lines = []
    for split, members in _splits(found):
        within = {name: [row for row in group if _split(row) == split] for name, group in groups}
        means = {MMBENCH_SHORT.get(name, name): mean(part) if part else None for name, part in within.items()}
        table.append({"split": split, "Overall": mean(members), **means})
    return table


def _split(row: Row) -> str:
    return as_text(row.get("split")) or "none"


def _splits(rows: Rows) -> list[tuple[str, Rows]]:
    return sorted(grouped(rows, _split).items(), key=itemgetter(0))


@reports("Overall")
def mmvp(rows: Iterable[Row]) -> dict[str, float]:
    """Return MMVP's `Average` over questions and `Overall`: the share of consecutive pairs with both right."""
    found = need(rows)
    return {"Average": mean(found), "Overall": fmean(all_right(pair) for pair in together(found, 2))}


def mmt(rows: Iterable[Row]) -> Lines:
    """Return MMT-Bench's table: overall accuracy and that of each task and ability, per split and for `ALL`.

    Tasks are the values of `category`, abilities those of `l2-category`. An ability is the mean of its tasks and is
    omitted from a split that lacks one of them.
    """
    found = need(rows, "category", "l2-category")
    abilities = {name: dict(by_column(group, "category")) for name, group in by_column(found, "l2-category")}
    table: Lines = []
    for split, members in [*_splits(found), ("ALL", found)]:
        tasks = {name: mean(group) for name, group in by_column(members, "category")}
        line: dict[str, object] = {"split": split, "Overall": mean(members), **tasks}
        for ability, names in abilities.items():
            if all(name in tasks for name in names):
                line[MMT_SHORT.get(ability, ability)] = fmean(tasks[name] for name in names)
        table.append(line)
    return table


@reports(numbers=lambda table: {"Average|all": next(x["accuracy"] for x in table if x["cycle"] == "Average")})
def hrbench(rows: Iterable[Row]) -> Lines:
    """Return HRBench's accuracy by cycle and category, with `all` for every category and `Average` for every cycle."""
    found = need(rows, "cycle_category", "category")
    cycles = {
        name: {"all": mean(members)} | {kind: mean(group) for kind, group in by_column(members, "category")}
        for name, members in by_column(found, "cycle_category")
    }
    kinds = list(dict.fromkeys(kind for scores in cycles.values() for kind in scores))
    averages = {kind: sum(scores.get(kind, 0.0) for scores in cycles.values()) / len(cycles) for kind in kinds}
    return [
        {"cycle": cycle, "type": kind, "accuracy": score}
        for cycle, scores in [*cycles.items(), ("Average", averages)]
        for kind, score in scores.items()
    ]


def sources(rows: Iterable[Row]) -> Lines:
    """Return CV-Bench's table: for the 2D part the accuracy of each source, whose plain mean is `Overall`."""
    found = need(rows, "split")
    if any(as_text(row["split"]) != "2D" for row in found):
        return report_acc(found)
    scores = {name: mean(members) for name, members in by_column(found, "source")}
    return [{"split": "2D", **scores, "Overall": fmean(scores.values())}]


def mmsci(rows: Iterable[Row]) -> Lines:
    """Return MMSci's accuracy by subject, by category and overall, in its three settings and on average.

    A setting that a subject lacks counts as 0 in its average, as in VLMEvalKit.
    """
    found = [row for row in need(rows, "setting") if as_text(row["setting"]) in MMSCI_SETTINGS]
    groups = [
        *by_column(found, "subject"),
        *((f"CATEGORY_{name}", group) for name, group in by_column(found, "category")),
        ("Overall", found),
    ]
    table: Lines = []
    for name, group in groups:
        scores = {setting: mean(members) for setting, members in by_column(group, "setting")}
        line = {setting: scores.get(setting, 0.0) for setting in MMSCI_SETTINGS}
        table.append({"subject": name, **line, "Avg": fmean(line.values())})
    return table


FLIPS: Mapping[str, Callable[[str], str]] = {
    "vanilla": lambda name: name,
    "flip_eval": lambda name: name.replace("-flip", ""),
    "circ_eval": lambda name: name[:13] if "-flip" in name else name[:8],
    "flip_circ_eval": lambda name: name[:8],
}
"""3DSRBench: maps a ``qid`` to the key of the rows that count together."""


@reports(numbers=lambda table: {line["setting"]: line["Overall"] for line in table})
def flips(rows: Iterable[Row]) -> Lines:
    """Return 3DSRBench's accuracy of rows, of rows with their mirror images, with their rotations, and with both."""
    found = need(rows, "qid")
    table: Lines = []
    for setting, key in FLIPS.items():
        names = [key(as_text(row["qid"])) for row in found]
        lost = {name for name, row in zip(names, found, strict=True) if not row["score"]}
        mains = [row for row in found if as_text(row["qid"]) in set(names)]
        lines = report_acc([{**row, "score": as_text(row["qid"]) not in lost} for row in mains])
        table += [{"setting": setting, **{k: v for k, v in line.items() if k != "split"}} for line in lines]
    return table


def partial_matches(rows: Iterable[Row]) -> Lines:
    """Return `report_acc` with the mean share of words common to chosen and right option next to each number.

    This is TopViewRS's partial match. The chosen option is the extracted one (VLMEvalKit uses the last word of the
    answer).
    """
    found = need(rows)
    exact = report_acc(found)
    shared = []
    for row in found:
        said, right = (set(as_text(row.get(as_text(row[name]))).lower().split()) for name in ("choice", "answer"))
        shared.append({**row, "score": len(said & right) / max(len(said), len(right)) if said and right else 0.0})
    table: Lines = []
    for line, other in zip(exact, report_acc(shared), strict=True):
        pairs = (((name, value), (f"{name}_PM", other[name])) for name, value in line.items() if name != "split")
        table.append({"split": line["split"], **dict(entry for pair in pairs for entry in pair)})
    return table


def _guessed_rotations(rows: Rows) -> float:
    """The probability of guessing every rotation of a question right, averaged over questions."""
    groups = grouped(rows, question_of).values()
    return fmean(math.prod(1 / max(1, len(options_of(row))) for row in members) for members in groups)


def _missing_rotations(rows: Rows) -> list[Notice]:
    """Count the questions with missing rotations, which makes them easier."""
    groups = grouped(rows, question_of).values()
    count = sum(can_rotate(members[0]) and len(members) < len(options_of(members[0])) for members in groups)
    text = UserMessage(
        "{count} questions lack rotations of their options (missing rows), which makes them easier.", count=count
    )
    return [Notice("missing_rotations", count, text)] if count else []


@reports(unit=question_of, chance=_guessed_rotations, notices=_missing_rotations)
def mmbench(rows: Iterable[Row]) -> Lines:
    """Return `report_acc` of the questions of MMBench, CCBench and other circular sets.

    Only the unrotated row of each question is reported.
    """
    found = need(rows)
    groups = grouped(found, question_of)
    mains = {row_index(row): row for row in found}
    lost = sorted(groups.keys() - mains.keys())
    if lost:
        raise ValueError(f"{len(lost)} questions have rotations but no unrotated row, the first is index {lost[0]}")
    hits = {group: all_right(members) for group, members in groups.items()}
    return report_acc([{**row, "score": hits[index]} for index, row in mains.items() if index in hits])


def counted(
    rows: Iterable[Row],
    names: Sequence[str],
    overall: str = "Overall",
    column: str = "category",
    title: str = "category",
    holds: bool = False,
) -> Lines:
    """Return tot, hit and acc for all rows and for each named category that has rows.

    With ``holds`` a row belongs to each name that its category contains, and counts once there (VLMEvalKit counts a row
    of MMOral three times if the name is the whole category).
    """
    found = need(rows)
    cells = [(as_text(row.get(column)), row) for row in found]
    groups = {name: [row for cell, row in cells if cell == name or (holds and name in cell)] for name in names}
    table: Lines = []
    for name, members in {overall: found, **groups}.items():
        if members:
            hits = round(sum(as_score(row["score"]) for row in members))
            table.append({title: name, "tot": len(members), "hit": hits, "acc": 100 * hits / len(members)})
    return table


def visual_puzzles(rows: Iterable[Row], categories: Sequence[str], levels: Sequence[str]) -> Lines:
    """Return VisualPuzzles' counts by category and by difficulty."""
    found = need(rows)
    kinds = counted(found, categories, "overall", "category", "group")
    first, *others = counted(found, levels, "overall", "difficulty", "group")
    return [
        *({**line, "type": "category"} for line in kinds),
        *({**line, "type": "level"} for line in (*others, first)),
    ]


def sorted_counts(rows: Iterable[Row], names: Sequence[str]) -> Lines:
    """Return tot and acc of the rows whose category contains a name, and of all, sorted by name (MMOral)."""
    lines = {str(line["Category"]): line for line in counted(rows, names, title="Category", holds=True)}
    return [{key: lines[name][key] for key in ("Category", "tot", "acc")} for name in sorted(lines)]


@reports("Overall macro")
def paths(rows: Iterable[Row], columns: Sequence[str], spheres: bool = False) -> dict[str, float]:
    """Return the accuracy of each path of categories ("Perception/x"), their mean and the accuracy of all rows.

    With ``spheres`` also the mean of each first component; the macro mean then includes those, as in VLMEvalKit.
    """
    found = need(rows)
    groups = grouped(found, lambda row: "/".join(as_text(row.get(column)) for column in columns))
    table = {name: mean(groups[name]) for name in sorted(groups)}
    if spheres:
        tops = grouped(table, lambda name: name.partition("/")[0])
        table |= {f"Sphere macro: {top}": fmean(table[name] for name in names) for top, names in tops.items()}
    return table | {"Overall macro": fmean(table.values()), "Overall micro": mean(found)}


def vmcbench(rows: Iterable[Row], groups: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return VMCBench's accuracy in percent: overall, the plain mean of each group of sources, and each source."""
    found = need(rows, "category")
    each = {name: mean(members) for name, members in by_column(found, "category")}
    known = {group: {name: each[name] for name in names if name in each} for group, names in groups.items()}
    table = {"Overall": mean(found)} | {name: fmean(values.values()) for name, values in known.items() if values}
    for values in known.values():
        table |= values
    return {name: round(100 * value, 2) for name, value in table.items()}


def realworld(rows: Iterable[Row], subtasks: Sequence[str]) -> dict[str, object]:
    """Return MME-RealWorld's accuracy by task, subtask and attribute, each with the average over its rows.

    A row's `category` is "task/subtask"; of an `l2-category` with an attribute only the first component is used.
    """

    def attribute(row: Row) -> str:
        name = as_text(row["l2-category"]).lower()
        return f"{name.partition('/')[0]}/attribute" if "attribute" in name else name

    def averages(members: Rows) -> dict[str, float]:
        groups = grouped(members, attribute)
        return {name: mean(group) for name, group in groups.items()} | {"Avg": mean(members) if members else 0}

    found = need(rows, "category", "l2-category")
    table: dict[str, object] = {"Overall": mean(found)}
    for task in ("Reasoning", "Perception"):
        members = [row for row in found if as_text(row["category"]).partition("/")[0] == task]
        parts = grouped(members, lambda row: as_text(row["category"]).split("/")[1])
        named = {name: averages(parts.get(name, [])) for name in dict.fromkeys((*subtasks, *parts))}
        table[task] = {**named, "Avg": mean(members) if members else 0}
    return table


@reports("total", primary="total")
def in_fours(rows: Iterable[Row], *, fixed: Sequence[str]) -> Line:
    """Return the share of groups of four consecutive rows that are all right: per category of the last, and overall."""
    found = need(rows, "category")
    if len(found) % 4:
        raise ValueError(f"questions are asked in groups of 4, but there are {len(found)} rows")
    hits: dict[str, list[float]] = {name: [] for name in (*fixed, "total")}
    for i in range(0, len(found), 4):
        right = all_right(found[i : i + 4])
        hits.setdefault(as_text(found[i + 3]["category"]), []).append(right)
        hits["total"].append(right)
    return {name: fmean(values) if values else None for name, values in hits.items()}
