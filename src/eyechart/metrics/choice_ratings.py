"""Ratings of multiple-choice benchmarks from rows: MMBench, MMMU, MMVP, MMT-Bench, HRBench and tables of one's own.

A row has the columns of its TSV file (index, A, B, ..., answer, category, l2-category, split) and a
`prediction`; `choice`, when present, is the letter somebody else (a judge) read from it. Numbers are
fractions between 0 and 1, as VLMEvalKit reports them.
"""

from collections import Counter
from collections.abc import Iterable
from statistics import fmean

from eyechart.metrics.answers import EXTRACTORS
from eyechart.metrics.cells import Row, as_score, as_text, is_missing, options_of
from eyechart.metrics.choices import Extraction
from eyechart.metrics.circular import circular_groups, circular_hit, row_index
from eyechart.metrics.tables import Rows, by_column, grouped, mean, need

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
OTHER_ANSWERS = "Other Answers"

Table = list[dict[str, object]]


def read_choice(row: Row, extractor: str = "vlmeval") -> Extraction:
    """Return the option a row's prediction chooses; a row's own `choice` (a judge's, say) comes first."""
    if not is_missing(row.get("choice")):
        return Extraction(as_text(row["choice"]), "given")
    return EXTRACTORS[extractor](row.get("prediction"), options_of(row))


def mcq(rows: Iterable[Row], extractor: str = "vlmeval", circular: bool = False) -> dict[str, object]:
    """Rate multiple-choice rows without a judge: `hit` (1 or 0 per index) and `result` (see `report_acc`).

    With `circular`, a question counts as right only if every rotation of its options is answered right;
    only the rows whose index is their group's are reported. An undecided prediction is wrong.
    """
    found = need(rows, "index", "answer")
    indices = Counter(as_text(row["index"]) for row in found)
    if len(indices) < len(found):
        raise ValueError(f"index {indices.most_common(1)[0][0]} occurs more than once: a prediction must name one row")
    hits = _circular_hits(found, extractor) if circular else _plain_hits(found, extractor)
    reported = [{**row, "hit": hits[as_text(row["index"])]} for row in found if as_text(row["index"]) in hits]
    return {"hit": hits, "result": report_acc(reported)}


def _plain_hits(rows: Rows, extractor: str) -> dict[str, int]:
    return {as_text(row["index"]): int(read_choice(row, extractor).choice == as_text(row["answer"])) for row in rows}


def _circular_hits(rows: Rows, extractor: str) -> dict[str, int]:
    groups = circular_groups(rows)
    mains = {row_index(row): as_text(row["index"]) for row in rows}
    lost = sorted(groups.keys() - mains.keys())
    if lost:
        raise ValueError(f"{len(lost)} questions have rotations but no row of their own, the first is index {lost[0]}")
    return {mains[group]: group_hit(members, extractor) or 0 for group, members in groups.items()}


def group_hit(rows: Rows, extractor: str = "vlmeval") -> int | None:
    """Judge the rotations of one question: 1, 0, or None when the undecided ones need a judge."""
    chosen = [read_choice(row, extractor).choice for row in rows]
    return circular_hit(chosen, [as_text(row["answer"]) for row in rows])


def mmbench(rows: Iterable[Row], extractor: str = "vlmeval") -> dict[str, object]:
    """Rate MMBench, CCBench and other circular sets: `mcq` with `circular`."""
    return mcq(rows, extractor, circular=True)


def mmmu(rows: Iterable[Row], extractor: str = "vlmeval") -> dict[str, object]:
    """Rate MMMU: `mcq` after each open question became a choice between its answer and any other (`close_open`)."""
    return mcq([close_open(row) for row in rows], extractor)


def close_open(row: Row) -> dict[str, object]:
    """Return a row without options as the choice A = its answer, B = "Other Answers", answer A (MMMU's convention).

    The prediction was made without seeing these options, so it is right when the answer's text occurs in it.
    """
    if not is_missing(row.get("A")):
        return dict(row)
    return {**row, "A": as_text(row.get("answer")), "B": OTHER_ANSWERS, "answer": "A"}


def report_acc(rows: Iterable[Row]) -> Table:
    """Return the mean of `hit` per split ("none" without such a column): Overall, each l2-category, each category.

    Names follow VLMEvalKit, MMBench's short ones included; None where a split has no row of a category.
    """
    found = need(rows, "hit")
    groups = list(by_column(found, "l2-category", "category"))
    table: Table = []
    for split, members in _splits(found):
        line: dict[str, object] = {"split": split, "Overall": mean(members, _hit)}
        for name, group in groups:
            within = [row for row in group if _split(row) == split]
            line[MMBENCH_SHORT.get(name, name)] = mean(within, _hit) if within else None
        table.append(line)
    return table


def _split(row: Row) -> str:
    return as_text(row.get("split")) or "none"


def _splits(rows: Rows) -> list[tuple[str, Rows]]:
    return sorted((str(split), members) for split, members in grouped(rows, _split).items())


def _hit(row: Row) -> float:
    return as_score(row["hit"])


def mmvp(rows: Iterable[Row]) -> dict[str, float]:
    """Return MMVP's `Average` over questions and `Overall`: the share of consecutive pairs with both right."""
    found = need(rows, "hit")
    if len(found) % 2:
        raise ValueError(f"MMVP asks its questions in pairs, but there are {len(found)} rows")
    pairs = [min(_hit(first), _hit(second)) for first, second in zip(found[::2], found[1::2], strict=True)]
    return {"Average": mean(found, _hit), "Overall": fmean(pairs)}


def mmt(rows: Iterable[Row]) -> Table:
    """Return MMT-Bench's table: per split and over `ALL`, the accuracy and each task's; an ability averages its tasks.

    Tasks are the values of `category`, abilities those of `l2-category`.
    """
    found = need(rows, "hit", "category", "l2-category")
    table: Table = []
    for split, members in [*_splits(found), ("ALL", found)]:
        line: dict[str, object] = {"split": split, "Overall": mean(members, _hit)}
        line |= {name: mean(group, _hit) for name, group in by_column(members, "category")}
        for ability, group in by_column(members, "l2-category"):
            line[MMT_SHORT.get(ability, ability)] = fmean(mean(task, _hit) for _, task in by_column(group, "category"))
        table.append(line)
    return table


def hrbench(rows: Iterable[Row]) -> dict[str, float]:
    """Return HRBench's accuracy as `cycle|category`, with `all` for every category and `Average` for every cycle."""
    found = need(rows, "hit", "cycle_category", "category")
    cycles = {
        name: {"all": mean(members, _hit)} | {kind: mean(group, _hit) for kind, group in by_column(members, "category")}
        for name, members in by_column(found, "cycle_category")
    }
    kinds = list(dict.fromkeys(kind for scores in cycles.values() for kind in scores))
    averages = {kind: sum(scores.get(kind, 0.0) for scores in cycles.values()) / len(cycles) for kind in kinds}
    return {
        f"{cycle}|{kind}": score
        for cycle, scores in [*cycles.items(), ("Average", averages)]
        for kind, score in scores.items()
    }


def compare_extractors(rows: Iterable[Row], left: str = "vlmeval", right: str = "strict") -> dict[str, float]:
    """Count the rows (`n`) on which two extractors read another option (`differ`), and their share (`rate`)."""
    found = need(rows)
    pairs = [
        [EXTRACTORS[name](row.get("prediction"), options_of(row)).choice for name in (left, right)] for row in found
    ]
    differ = sum(first != second for first, second in pairs)
    return {"n": len(found), "differ": differ, "rate": differ / len(found)}
