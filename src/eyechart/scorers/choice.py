"""Multiple choice: tables of one's own, MMMU, MMVP, MMT-Bench, HRBench.

A row has the columns of its TSV file (index, A, B, ..., answer, category, l2-category, split) and `hit`, 1 or 0.
Numbers are fractions between 0 and 1, as VLMEvalKit reports them.
"""

from collections.abc import Iterable
from functools import partial
from operator import itemgetter
from statistics import fmean

from eyechart.metrics.answers import EXTRACTORS
from eyechart.metrics.cells import Row, as_text, is_missing, options_of
from eyechart.metrics.texts.choices import NO_OPTION
from eyechart.scorers.scorer import JUDGE, UNDECIDED, Score, Scorer, pick
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
OTHER_ANSWERS = "Other Answers"

Table = list[dict[str, object]]


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

    Tasks are the values of `category`, abilities those of `l2-category`.
    """
    found = need(rows, "hit", "category", "l2-category")
    table: Table = []
    for split, members in [*_splits(found), ("ALL", found)]:
        line: dict[str, object] = {"split": split, "Overall": mean(members, "hit")}
        line |= {name: mean(group, "hit") for name, group in by_column(members, "category")}
        for ability, group in by_column(members, "l2-category"):
            line[MMT_SHORT.get(ability, ability)] = fmean(mean(task, "hit") for _, task in by_column(group, "category"))
        table.append(line)
    return table


def hrbench(rows: Iterable[Row]) -> dict[str, float]:
    """Return HRBench's accuracy as `cycle|category`, with `all` for every category and `Average` for every cycle."""
    found = need(rows, "hit", "cycle_category", "category")
    cycles = {
        name: {"all": mean(members, "hit")}
        | {kind: mean(group, "hit") for kind, group in by_column(members, "category")}
        for name, members in by_column(found, "cycle_category")
    }
    kinds = list(dict.fromkeys(kind for scores in cycles.values() for kind in scores))
    averages = {kind: sum(scores.get(kind, 0.0) for scores in cycles.values()) / len(cycles) for kind in kinds}
    return {
        f"{cycle}|{kind}": score
        for cycle, scores in [*cycles.items(), ("Average", averages)]
        for kind, score in scores.items()
    }


class ChoiceScorer(Scorer):
    """Multiple choice."""

    form = "choice"
    extractors = tuple(EXTRACTORS)

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Refuse a row whose answer is no letter of its options: nobody could be right. Published tables stay."""
        answer, options = as_text(row.get("answer")), options_of(row)
        if answer not in options and not self.benchmark.url:
            letters = ", ".join(options) or "none"
            raise ValueError(f"the answer {answer!r} of index {row.get('index')} is none of its letters: {letters}")
        return super().prepare(row)

    def score(self, row: Row, answer: object) -> Score:
        """Read the chosen letter."""
        found = EXTRACTORS[self.extractor](answer, options_of(row))
        rule = found.rule if found.choice is not None else UNDECIDED
        return Score(found.choice, rule, float(found.choice == as_text(row.get("answer"))))

    def judged(self, row: Row, verdict: str) -> Score:
        """Take the judge's letter."""
        return Score(verdict, JUDGE, float(verdict == as_text(row.get("answer"))))

    def columns(self, score: Score) -> dict[str, object]:
        """Give the letter; Z, which is never right, where there is none."""
        return {"choice": score.extracted or NO_OPTION, "hit": score.correct}

    def chance(self, rows: Rows) -> float | None:
        """Return the accuracy of guessing among the options."""
        counts = [len(options_of(row)) for row in rows]
        return fmean(1 / count for count in counts) if counts and all(counts) else None


class MmmuScorer(ChoiceScorer):
    """MMMU: an open question is a choice between its answer and any other, as in VLMEvalKit."""

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Close open questions."""
        return super().prepare(close_open(row))


CHOICE = partial(ChoiceScorer, arrange=report_acc)
MMMU = partial(MmmuScorer, arrange=report_acc)
MMVP = partial(ChoiceScorer, arrange=mmvp, numbers=pick("Overall"))
MMT = partial(ChoiceScorer, arrange=mmt)
HRBENCH = partial(ChoiceScorer, arrange=hrbench, numbers=pick("Average|all"))
