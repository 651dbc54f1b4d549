"""Tables of document, chart, OCR and caption benchmarks."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from eyechart.metrics.captions import score_captions
from eyechart.metrics.cell_values import Row, as_score, as_text, text_list
from eyechart.metrics.long_texts import TOKENIZERS, best_span, vcr_answers
from eyechart.scorers.aggregates.means import Rows, Table, by_column, by_value, grouped, mean, means, need, reports
from eyechart.scorers.rules.texts import OCRBENCH_FORMULAS


def scored_parts(rows: Iterable[Row], *, parts: Sequence[str]) -> Table:
    """Return the mean of each part, and its exact-match mean if there is one (TableVQABench)."""
    groups = by_value(need(rows, "split"), "split")
    table = []
    for part in parts:
        if part in groups:
            names = [name for name in ("score", "exact") if name in groups[part][0]]
            table.append({"split": part, "average_scores": [100 * mean(groups[part], name) for name in names]})
    return table


def photographed(rows: Iterable[Row]) -> Table:
    """Return the mean and the share of pages with all four photos right, for each source benchmark of WildDoc.

    The numbers of tables are means over their parts. An ANLS above one half counts as right.
    """
    numbers: dict[str, tuple[float, float]] = {}
    for task, members in by_value(need(rows), "task").items():
        enough = 0.5 if task == "DocVQA" else 0.999
        pairs = []
        for part in by_value(members, "part").values() if task == "TableVQA" else [members]:
            pages = grouped(part, lambda row: (as_text(row["part"]), as_text(row["page"]))).values()
            whole = sum(sum(as_score(row["score"]) > enough for row in page) == 4 for page in pages)
            pairs.append((100 * mean(part), 100 * whole / (len(part) / 4)))
        numbers[task] = fmean(a for a, _ in pairs), fmean(b for _, b in pairs)
    numbers["WildDoc"] = fmean(a for a, _ in numbers.values()), fmean(b for _, b in numbers.values())
    return [
        {"Task": task, "Metric": name, "Score": score}
        for task, pair in numbers.items()
        for name, score in zip(("Overall", "Consistency"), pair, strict=True)
    ]


@reports("total", primary="total")
def ocr_parts(rows: Iterable[Row]) -> Table:
    """Return the mean over parts, each the mean of its rows: for groups of parts and overall (CC-OCR)."""
    keys = ("category", "l2-category", "split")
    parts = grouped(need(rows, *keys), lambda row: tuple(as_text(row[key]) for key in keys))
    groups: dict[str, list[float]] = {"lan_ocr": [], "scene_ocr": [], "kie": [], "doc_parsing": []}
    for (category, *_), members in parts.items():
        groups[next(name for name in groups if name in category)].append(mean(members))
    table = {name: fmean(values) for name, values in groups.items() if values}
    return table | {"total": fmean(table.values())}


def chart_parts(rows: Iterable[Row]) -> Table:
    """Return the structure scores (SCRM and its share above one half), and the judge's grades of the rest (ChartX)."""
    found = need(rows, "category")
    structure = [row for row in found if as_text(row["category"]) == "structure"]
    rest = [row for row in found if as_text(row["category"]) != "structure"]
    table = {"SCRM": mean(structure), "AP50_Strict": mean(structure, "half")} if structure else {}
    table |= {"GPT_Overall": mean(rest)} if rest else {}
    return table | {f"{name}_GPT": mean(members) for name, members in by_column(rest, "category")}


def texts(rows: Iterable[Row], *, parts: Mapping[str, str], value: str = "avg") -> Table:
    """Return one line per metric: its name, the number of rows, and the mean of its column (DUDE, SlideVQA)."""
    found = need(rows)
    return [{"category": name, "num": len(found), value: mean(found, column)} for name, column in parts.items()]


_EVIDENCE = {
    "text": "Pure-text (Plain-text)",
    "layout": "Generalized-text (Layout)",
    "table": "Table",
    "chart": "Chart",
    "image": "Figure",
}


def evidence(rows: Iterable[Row]) -> Table:
    """Return F1 and accuracy overall, and the mean by kind of evidence and number of pages (MMLongBench-Doc)."""
    found = need(rows)
    none = "not answerable"
    wanted = [row for row in found if as_text(row["answer"]).strip().lower() != none]
    said = [row for row in found if as_text(row["extracted"]).strip().lower() != none]
    recall, precision = (mean(part) if part else 0.0 for part in (wanted, said))
    whole = 2 * recall * precision / (recall + precision) if recall + precision else 0.0
    groups: dict[str, Rows] = {
        name: [row for row in found if source in text_list(row.get("evidence_sources"))]
        for name, source in _EVIDENCE.items()
    }
    pages = [(row, len(text_list(row.get("evidence_pages")))) for row in found]
    groups["single-page"] = [row for row, count in pages if count == 1]
    groups["multi-page"] = [row for row, count in pages if count > 1]
    groups["unanswerable"] = [row for row, count in pages if not count]
    table = [{"category": "overall_f1", "num": len(found), "avg_score": whole}]
    for name, members in {"overall_acc": found, **groups}.items():
        table.append({"category": name, "num": len(members), "avg_score": mean(members) if members else 0.0})
    return table


def in_languages(rows: Iterable[Row], *, languages: Mapping[str, Mapping[str, Sequence[str]]]) -> Table:
    """Return the mean of groups of tasks, and of the groups of each language (OCRBench v2).

    A group with an answer that needs a missing library (``needs``) is omitted, along with the mean of its language.
    """
    found = by_value(need(rows, "category"), "category")
    table: dict[str, float] = {}
    overall: dict[str, float] = {}
    for language, groups in languages.items():
        members = {name: [row for task in tasks for row in found.get(task, ())] for name, tasks in groups.items()}
        whole = {name: part for name, part in members.items() if not any(row.get("needs") for row in part)}
        scored = {name: [row for row in part if row["score"] is not None] for name, part in whole.items()}
        means = {name: mean(part) for name, part in scored.items() if part}
        table |= means
        if means and len(whole) == len(groups):
            overall[language] = fmean(means.values())
    return table | overall


_PAGE_NUMBERS = {
    "qa": ("accuracy",),
    "summary": ("rouge_l_r", "rouge_l_p", "rouge_l_f"),
    **dict.fromkeys(("ocr", "translation"), ("bleu", "meteor", "f_measure", "precision", "recall", "near")),
}


def page_kinds(rows: Iterable[Row]) -> Table:
    """Return means and counts per kind of task and per ``sub_task`` (FoxBench).

    A number that needs a missing library for some answer (``needs``) is omitted.
    """
    found = need(rows)
    kinds = {kind: [row for row in found if row["kind"] == kind] for kind in ("ocr", "translation", "summary", "qa")}
    parts = dict(by_column(found, "sub_task"))
    return {
        **{kind: _page_numbers(members) for kind, members in kinds.items()},
        "counts": {**{kind: len(members) for kind, members in kinds.items()}, "total": len(found)},
        "sub_tasks": {name: _page_numbers(members) for name, members in parts.items()},
        "sub_task_counts": {name: len(members) for name, members in parts.items()},
    }


def _page_numbers(rows: Rows) -> dict[str, float]:
    names = dict.fromkeys(name for row in rows for name in _PAGE_NUMBERS[as_text(row["kind"])])
    table = {}
    for name in names:
        members = [row for row in rows if name in _PAGE_NUMBERS[as_text(row["kind"])]]
        if all(name in row for row in members):
            table[name] = mean(members, name)
    if "near" in table:
        table["edit_dist"] = 1 - table.pop("near")
    return table


_RECOGNITION = (
    "Regular Text Recognition", "Irregular Text Recognition", "Artistic Text Recognition", "Handwriting Recognition",
    "Digit String Recognition", "Non-Semantic Text Recognition",
)  # fmt: skip
_OTHERS = ("Scene Text-centric VQA", "Doc-oriented VQA", "Key Information Extraction", OCRBENCH_FORMULAS)
OCRBENCH_GROUPS = dict.fromkeys(_RECOGNITION, "Text Recognition") | {name: name for name in _OTHERS}


@reports("Final Score", points=True)
def ocrbench(rows: Iterable[Row]) -> dict[str, float]:
    """Return OCRBench's counts of hits in its five groups, their sum `Final Score` and a tenth of it, `... Norm`."""
    counts = dict.fromkeys(OCRBENCH_GROUPS.values(), 0)
    for row in need(rows, "category"):
        category = as_text(row["category"])
        if category not in OCRBENCH_GROUPS:
            raise ValueError(f"{category!r} is not a category of OCRBench: expected {', '.join(OCRBENCH_GROUPS)}")
        counts[OCRBENCH_GROUPS[category]] += bool(row["score"])
    total = sum(counts.values())
    return counts | {"Final Score": total, "Final Score Norm": total / 10}


@reports(numbers=dict, primary="Exact_Match")
def vcr(rows: Iterable[Row], language: str = "en") -> dict[str, float]:
    """Return VCR's `Exact_Match` and `Jaccard` over every covered text, as fractions.

    `answer` lists the covered texts of an image. A refusal, or nothing in common, scores 0.
    """
    exact, jaccard = [], []
    for row in need(rows, "answer"):
        answer = as_text(row.get("prediction"))
        for covered in text_list(row["answer"]):
            span = best_span(covered, answer, language) if vcr_answers(answer) else []
            wanted = TOKENIZERS[language][0](covered)
            exact.append(float(bool(span) and span == wanted))
            jaccard.append(len({*span} & {*wanted}) / len({*span} | {*wanted}) if span else 0.0)
    return {"Exact_Match": fmean(exact), "Jaccard": fmean(jaccard)}


def _caption_numbers(table: Mapping[str, Any]) -> dict[str, float]:
    bleu = {f"Bleu_{i}": value for i, value in enumerate(table["Bleu"], 1)}
    return bleu | {name: value for name, value in table.items() if name != "Bleu"}


@reports(numbers=_caption_numbers, points=True, primary="CIDEr")
def captions(rows: Iterable[Row]) -> dict[str, Any]:
    """Return BLEU-1 to BLEU-4, ROUGE-L and CIDEr of all captions, times 100.

    A ``lost`` caption is empty and scores 0 in ROUGE-L and CIDEr, which are means. BLEU is a corpus statistic that
    would hardly drop, so it is multiplied by the share of captions that are not lost.
    """
    found = need(rows, "answer")
    said = [as_text(row.get("prediction")) for row in found]
    scores = score_captions(said, [text_list(row["answer"]) for row in found])
    share = fmean(not row.get("lost") for row in found)
    bleu = [share * scores.pop(f"Bleu_{i}") for i in range(1, 5)]
    return {"Bleu": bleu, **scores}


@reports("Average", points=True)
def mtvqa(rows: Iterable[Row]) -> Table:
    """Return MTVQA's accuracy per language (`category`) and over all questions (`Average`)."""
    return means(need(rows, "category"), groups={"category": "{}"}, overall="Average", last=True, scale=100)
