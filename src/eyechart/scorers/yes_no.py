"""Yes/no questions: MME, POPE, HallusionBench, AMBER, VSR and tables of one's own.

A row has the columns of its TSV file, `extracted` ("Yes", "No", "Unknown") and `score`. Numbers are percentages.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from eyechart.datasets.questions.benchmarks import IGNORE_CASE
from eyechart.metrics.answers import YES_NO_EXTRACTORS
from eyechart.metrics.cells import Row, as_text, text_list
from eyechart.scorers.scorer import JUDGE, UNDECIDED, Score, Scorer, pick
from eyechart.scorers.tables import Rows, all_right, by_column, grouped, mean, need, percentages

MME_PERCEPTION = (
    "OCR",
    "artwork",
    "celebrity",
    "color",
    "count",
    "existence",
    "landmark",
    "position",
    "posters",
    "scene",
)
MME_REASONING = ("code_reasoning", "commonsense_reasoning", "numerical_calculation", "text_translation")

AMBER_KINDS = {
    "discriminative-attribute-state": "Attribute",
    "discriminative-attribute-number": "Attribute",
    "discriminative-attribute-action": "Attribute",
    "discriminative-hallucination": "Existence",
    "discriminative-relation": "Relation",
    "relation": "Relation",
}


def mme(rows: Iterable[Row]) -> dict[str, float]:
    """Return MME's scores: per category the accuracy plus the share of images with both questions right.

    `perception` (at most 2000) and `reasoning` (at most 800; the paper calls it cognition) are sums, left
    out while one of their categories is missing. `incomplete_pairs` counts the images with a single question.
    """
    scores: dict[str, float] = {}
    incomplete = 0
    for name, members in by_column(need(rows, "category", "image_path"), "category"):
        images = [group[:2] for group in grouped(members, lambda row: as_text(row["image_path"])).values()]
        pairs = [all_right(pair) for pair in images if len(pair) == 2]
        incomplete += len(images) - len(pairs)
        scores[name] = 100 * mean(members) + (100 * fmean(pairs) if pairs else 0.0)
    sums = {
        name: sum(scores[category] for category in categories)
        for name, categories in (("perception", MME_PERCEPTION), ("reasoning", MME_REASONING))
        if all(category in scores for category in categories)
    }
    return sums | scores | ({"incomplete_pairs": incomplete} if incomplete else {})


def _is_yes(value: object) -> bool:
    return as_text(value) == "Yes"


def _precision_recall_f1(rows: Rows) -> tuple[float, float, float]:
    """Return the three for the answer Yes, as fractions; anything that is not Yes counts as No; 0 without a case."""
    hits = sum(_is_yes(row["answer"]) and _is_yes(row["extracted"]) for row in rows)
    said = sum(_is_yes(row["extracted"]) for row in rows)
    true = sum(_is_yes(row["answer"]) for row in rows)
    precision, recall = hits / said if said else 0.0, hits / true if true else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0


def pope(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Return POPE's F1 (under the name `Overall`), acc, precision and recall: over all rows and per category.

    A row with several categories ("random,popular") counts once in each, and as often in `Overall`. An
    answer that is neither Yes nor No counts as No for precision and recall, and as wrong for acc.
    """
    exploded = [
        {**row, "category": category or None}
        for row in need(rows, "answer")
        for category in as_text(row.get("category")).split(",")
    ]
    groups: list[tuple[str, Rows]] = [("Overall", exploded), *by_column(exploded, "category")]
    return {name: _pope_numbers(members) for name, members in groups}


def _pope_numbers(rows: Rows) -> dict[str, float]:
    precision, recall, f1 = _precision_recall_f1(rows)
    return {"Overall": 100 * f1, "acc": 100 * mean(rows), "precision": 100 * precision, "recall": 100 * recall}


def vsr(rows: Iterable[Row]) -> dict[str, float]:
    """Return VSR's precision, recall, acc and f1_score, all times 100 (VLMEvalKit leaves f1_score a fraction)."""
    found = need(rows, "answer")
    precision, recall, f1 = _precision_recall_f1(found)
    return {"precision": 100 * precision, "recall": 100 * recall, "acc": 100 * mean(found), "f1_score": 100 * f1}


def hallusion(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Return HallusionBench's aAcc, fAcc and qAcc: overall, per category and per l2-category.

    aAcc is the accuracy, fAcc the share of figures and qAcc the share of questions answered right
    throughout. Set, figure and question are the fourth to sixth part of the index (VD_illusion_1_0_1_0).
    """
    found = need(rows, "index", "l2-category")
    groups: list[tuple[str, Rows]] = [("Overall", found), *by_column(found, "category", "l2-category")]
    return {name: _hallusion_numbers(members) for name, members in groups}


def _hallusion_numbers(rows: Rows) -> dict[str, float]:
    together = {
        "aAcc": [[row] for row in rows],
        "fAcc": grouped(rows, lambda row: (as_text(row["l2-category"]), *_ids(row)[:2])).values(),
        "qAcc": grouped(rows, lambda row: (as_text(row["l2-category"]), *_ids(row)[::2])).values(),
    }
    return {name: 100 * fmean(map(all_right, groups)) for name, groups in together.items()}


def _ids(row: Row) -> tuple[str, str, str]:
    parts = as_text(row["index"]).split("_")
    if len(parts) < 6:
        raise ValueError(f"index {row['index']!r} does not name set, figure and question as in VD_illusion_1_0_1_0")
    return parts[3], parts[4], parts[5]


def amber(rows: Iterable[Row]) -> dict[str, float]:
    """Return AMBER's accuracy per kind (Attribute, Existence, Relation) and their plain mean `Avg ACC`."""
    found = need(rows, "category")
    kinds = [{**row, "category": AMBER_KINDS.get(as_text(row["category"]), row["category"])} for row in found]
    scores = {name: 100 * mean(members) for name, members in by_column(kinds, "category")}
    return scores | {"Avg ACC": sum(scores.values()) / len(scores)}


@dataclass(frozen=True)
class YesNoScorer(Scorer):
    """Yes/no questions."""

    form = "yes_no"
    extractors = tuple(YES_NO_EXTRACTORS)
    ignores_case: bool = False

    def score(self, row: Row, answer: object) -> Score:
        """Read yes or no."""
        found = YES_NO_EXTRACTORS[self.extractor](answer)
        return Score(found, UNDECIDED if found == "Unknown" else self.extractor, self._correct(row, found))

    def judged(self, row: Row, verdict: str) -> Score:
        """Take the judge's word."""
        return Score(verdict, JUDGE, self._correct(row, verdict))

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Assume the right word or the other one: whoever takes "Unknown" for No would find it right at times."""
        says_yes = any(self._correct(row, yes) for yes in ("Yes", "yes")) == right
        return Score("Yes" if says_yes else "No", rule, float(right))

    def _correct(self, row: Row, found: str) -> float:
        answer = as_text(row.get("answer"))
        if self.benchmark.metric == IGNORE_CASE:  # a table of one's own may hold "Yes " or "['Yes']", too
            [answer] = text_list(answer)
        if self.ignores_case or self.benchmark.metric == IGNORE_CASE:
            return float(answer.strip().lower() == found.lower())
        return float(answer == found)

    def chance(self, rows: Rows) -> float | None:
        """Return one half."""
        return 0.5


def _pope_overall(table: dict[str, dict[str, float]]) -> dict[str, float]:
    names = {"F1": "Overall", "precision": "precision", "recall": "recall"}
    return {name: table["Overall"][column] / 100 for name, column in names.items()} if table else {}


YES_NO = partial(YesNoScorer, arrange=percentages)
MME = partial(YesNoScorer, arrange=mme, numbers=pick("perception", "reasoning"), points=True)
POPE = partial(YesNoScorer, arrange=pope, numbers=_pope_overall)
HALLUSION = partial(
    YesNoScorer,
    arrange=hallusion,
    numbers=pick("aAcc", "fAcc", "qAcc", within="Overall"),
    points=True,
)
AMBER = partial(YesNoScorer, arrange=amber, numbers=pick("Avg ACC"), points=True, ignores_case=True)
VSR = partial(YesNoScorer, arrange=vsr, numbers=pick("precision", "recall", "f1_score"), points=True)
