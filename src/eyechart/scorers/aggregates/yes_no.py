"""Tables of yes/no benchmarks: MME, POPE, HallusionBench, AMBER, VSR (in percent) and NaturalBench."""

from collections.abc import Iterable
from statistics import fmean

from eyechart.metrics.cell_values import Row, as_text
from eyechart.scorers.aggregates.means import (
    Rows,
    all_right,
    by_column,
    by_value,
    grouped,
    mean,
    need,
    pick,
    reports,
    together,
)

MME_PERCEPTION = (
    "OCR", "artwork", "celebrity", "color", "count", "existence", "landmark", "position", "posters", "scene",
)  # fmt: skip
MME_REASONING = ("code_reasoning", "commonsense_reasoning", "numerical_calculation", "text_translation")
AMBER_KINDS = {
    **{f"discriminative-attribute-{kind}": "Attribute" for kind in ("state", "number", "action")},
    "discriminative-hallucination": "Existence",
    **dict.fromkeys(("discriminative-relation", "relation"), "Relation"),
}


@reports("perception", "reasoning", points=True)
def mme(rows: Iterable[Row]) -> dict[str, float]:
    """Return MME's scores: per category the accuracy plus the share of images with both questions right.

    `perception` (at most 2000) and `reasoning` (at most 800; cognition in the paper) are sums, omitted if one of their
    categories is missing. `incomplete_pairs` counts the images with a single question.
    """
    scores: dict[str, float] = {}
    incomplete = 0
    for name, members in by_column(need(rows, "category", "image_path"), "category"):
        images = [group[:2] for group in by_value(members, "image_path").values()]
        pairs = [all_right(pair) for pair in images if len(pair) == 2]
        incomplete += len(images) - len(pairs)
        scores[name] = 100 * mean(members) + (100 * fmean(pairs) if pairs else 0.0)
    sums = {
        name: sum(scores[category] for category in categories)
        for name, categories in (("perception", MME_PERCEPTION), ("reasoning", MME_REASONING))
        if all(category in scores for category in categories)
    }
    return sums | scores | ({"incomplete_pairs": incomplete} if incomplete else {})


def _precision_recall_f1(rows: Rows) -> tuple[float, float, float]:
    """Return precision, recall and F1 of the answer Yes as fractions; anything but Yes counts as No; 0 if undefined."""
    pairs = [(as_text(row["answer"]) == "Yes", as_text(row["extracted"]) == "Yes") for row in rows]
    hits, true, said = pairs.count((True, True)), sum(answer for answer, _ in pairs), sum(yes for _, yes in pairs)
    precision, recall = hits / said if said else 0.0, hits / true if true else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0


def _pope_overall(table: dict[str, dict[str, float]]) -> dict[str, float]:
    names = {"F1": "Overall", "precision": "precision", "recall": "recall"}
    return {name: table["Overall"][column] / 100 for name, column in names.items()} if table else {}


@reports(numbers=_pope_overall)
def pope(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Return POPE's F1 (under the name `Overall`), acc, precision and recall: over all rows and per category.

    A row with several categories ("random,popular") counts once in each, and as often in `Overall`. An answer that is
    neither Yes nor No counts as No for precision and recall, and as wrong for acc.
    """
    exploded: Rows = [
        {**row, "category": category or None}
        for row in need(rows, "answer")
        for category in as_text(row.get("category")).split(",")
    ]
    table: dict[str, dict[str, float]] = {}
    for name, members in [("Overall", exploded), *by_column(exploded, "category")]:
        precision, recall, f1 = _precision_recall_f1(members)
        numbers = {"Overall": f1, "acc": mean(members), "precision": precision, "recall": recall}
        table[name] = {column: 100 * value for column, value in numbers.items()}
    return table


@reports("precision", "recall", "f1_score", points=True)
def vsr(rows: Iterable[Row]) -> dict[str, float]:
    """Return VSR's precision, recall, acc and f1_score, all times 100 (VLMEvalKit leaves f1_score a fraction)."""
    found = need(rows, "answer")
    precision, recall, f1 = _precision_recall_f1(found)
    return {"precision": 100 * precision, "recall": 100 * recall, "acc": 100 * mean(found), "f1_score": 100 * f1}


@reports(numbers=pick("aAcc", "fAcc", "qAcc", within="Overall"), points=True)
def hallusion(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Return HallusionBench's aAcc, fAcc and qAcc: overall, per category and per l2-category.

    aAcc is the accuracy, fAcc the share of figures and qAcc the share of questions that are right throughout. Set,
    figure and question are the fourth to sixth component of the index (VD_illusion_1_0_1_0).
    """
    found = need(rows, "index", "l2-category")

    def ids(row: Row) -> tuple[str, str, str]:
        parts = as_text(row["index"]).split("_")
        if len(parts) < 6:
            raise ValueError(f"index {row['index']!r} does not name set, figure and question as in VD_illusion_1_0_1_0")
        return parts[3], parts[4], parts[5]

    table: dict[str, dict[str, float]] = {}
    for name, members in [("Overall", found), *by_column(found, "category", "l2-category")]:
        figures = grouped(members, lambda row: (as_text(row["l2-category"]), *ids(row)[:2])).values()
        questions = grouped(members, lambda row: (as_text(row["l2-category"]), *ids(row)[::2])).values()
        parts = {"aAcc": [[row] for row in members], "fAcc": figures, "qAcc": questions}
        table[name] = {part: 100 * fmean(map(all_right, groups)) for part, groups in parts.items()}
    return table


@reports("Avg ACC", points=True)
def amber(rows: Iterable[Row]) -> dict[str, float]:
    """Return AMBER's accuracy per kind (Attribute, Existence, Relation) and their plain mean `Avg ACC`."""
    found = need(rows, "category")
    kinds = [{**row, "category": AMBER_KINDS.get(as_text(row["category"]), row["category"])} for row in found]
    scores = {name: 100 * mean(members) for name, members in by_column(kinds, "category")}
    return scores | {"Avg ACC": sum(scores.values()) / len(scores)}


@reports("Q_Acc", "I_Acc", "G_Acc")
def naturalbench_groups(rows: Iterable[Row]) -> dict[str, float]:
    """Return NaturalBench's Q_Acc, I_Acc, Acc and G_Acc as fractions.

    Four consecutive rows are a group: question 0 on image 0 and image 1, then question 1. Question 0 is true of image 0
    only, question 1 of image 1 only. A question counts if right on both images, an image if both questions on it are
    right, a group if all four are.
    """
    right = [
        [int(as_text(row["extracted"])) == wanted for row, wanted in zip(group, (1, 0, 0, 1), strict=True)]
        for group in together(need(rows), 4)
    ]
    return {
        "Q_Acc": fmean(all(pair) for cells in right for pair in (cells[:2], cells[2:])),
        "I_Acc": fmean(all(pair) for cells in right for pair in (cells[::2], cells[1::2])),
        "Acc": fmean(cell for cells in right for cell in cells),
        "G_Acc": fmean(map(all, right)),
    }
