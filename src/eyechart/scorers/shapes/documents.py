"""Tables of documents, charts and OCR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from eyechart.metrics.cells import Row, as_score, as_text, text_list
from eyechart.scorers.tables import Rows, Table, by_column, grouped, mean, need


def scored_parts(rows: Iterable[Row], *, parts: Sequence[str], by: str = "split") -> Table:
    """Return the mean of each part, and the mean of exact answers beside it where there is one (TableVQABench)."""
    found = need(rows, by)
    lines = []
    for part in parts:
        members = [row for row in found if as_text(row[by]) == part]
        columns = [name for name in ("score", "exact") if members and name in members[0]]
        if members:
            lines.append({"split": part, "average_scores": [100 * mean(members, column) for column in columns]})
    return lines


def photographed(rows: Iterable[Row]) -> Table:
    """Return the mean and the part of pages with all four photos right, per benchmark that WildDoc is made of.

    The tables' numbers are the means over their parts. An answer by ANLS is right above one half.
    """
    found = need(rows)
    numbers: dict[str, tuple[float, float]] = {}
    for task, members in grouped(found, lambda row: as_text(row["task"])).items():
        by_part = grouped(members, lambda row: as_text(row["part"]) if as_text(row["task"]) == "TableVQA" else "")
        pairs = [(100 * mean(part), _all_four(part)) for part in by_part.values()]
        numbers[task] = fmean(a for a, _ in pairs), fmean(b for _, b in pairs)
    numbers["WildDoc"] = fmean(a for a, _ in numbers.values()), fmean(b for _, b in numbers.values())
    return [
        {"Task": task, "Metric": name, "Score": score}
        for task, pair in numbers.items()
        for name, score in zip(("Overall", "Consistency"), pair, strict=True)
    ]


def _all_four(rows: Rows) -> float:
    pages = grouped(rows, lambda row: (as_text(row["part"]), as_text(row["page"])))
    whole = sum(sum(map(_is_right, page)) == 4 for page in pages.values())
    return 100 * whole / (len(rows) / 4)


def _is_right(row: Row) -> bool:
    return as_score(row["score"]) > (0.5 if as_text(row["task"]) == "DocVQA" else 0.999)


def ocr_parts(rows: Iterable[Row]) -> Table:
    """Return the means over parts: a part's score is the mean of its rows; of groups of parts, and of all (CC-OCR)."""
    found = need(rows, "category", "l2-category", "split")
    keys = ("category", "l2-category", "split")
    parts = grouped(found, lambda row: tuple(as_text(row[key]) for key in keys))
    groups_of: dict[str, list[float]] = {}
    for (category, *_), members in parts.items():
        group = next(name for name in ("lan_ocr", "scene_ocr", "kie", "doc_parsing") if name in category)
        groups_of.setdefault(group, []).append(mean(members))
    table = {
        name: fmean(groups_of[name]) for name in ("lan_ocr", "scene_ocr", "kie", "doc_parsing") if name in groups_of
    }
    return table | {"total": fmean(table.values())}


def chart_parts(rows: Iterable[Row]) -> Table:
    """Return the structure scores (SCRM and its share above one half), and a judge's grades of the rest (ChartX)."""
    found = need(rows, "category")
    structure = [row for row in found if as_text(row["category"]) == "structure"]
    rest = [row for row in found if as_text(row["category"]) != "structure"]
    table = {"SCRM": mean(structure), "AP50_Strict": mean(structure, "half")} if structure else {}
    table |= {"GPT_Overall": mean(rest)} if rest else {}
    return table | {f"{name}_GPT": mean(members) for name, members in by_column(rest, "category")}


def texts(rows: Iterable[Row], *, parts: Mapping[str, str], value: str = "avg") -> Table:
    """Return one line per respect: its name, how many rows, and the mean of its column (DUDE, SlideVQA)."""
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
    """Return F1 and accuracy of all, and the mean by kind of evidence and number of pages (MMLongBench-Doc)."""
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
    lines = [{"category": "overall_f1", "num": len(found), "avg_score": whole}]
    lines.append({"category": "overall_acc", "num": len(found), "avg_score": mean(found)})
    for name, members in groups.items():
        lines.append({"category": name, "num": len(members), "avg_score": mean(members) if members else 0.0})
    return lines


def in_languages(rows: Iterable[Row], *, languages: Mapping[str, Mapping[str, Sequence[str]]]) -> Table:
    """Return the mean of groups of tasks, and of the groups of each language (OCRBench v2).

    A group with an answer that cannot be scored here (``needs``) is left out, and so is the number over its language.
    """
    found = grouped(need(rows, "category"), lambda row: as_text(row["category"]))
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
    "ocr": ("bleu", "meteor", "f_measure", "precision", "recall", "near"),
    "translation": ("bleu", "meteor", "f_measure", "precision", "recall", "near"),
}


def page_kinds(rows: Iterable[Row]) -> Table:
    """Return means and counts: per kind of task, and per ``sub_task`` (FoxBench).

    A number that some answer lacks (``needs``) is left out.
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
    """Return each number of these kinds of tasks, over the rows that are of such a kind."""
    names = dict.fromkeys(name for row in rows for name in _PAGE_NUMBERS[as_text(row["kind"])])
    table = {}
    for name in names:
        members = [row for row in rows if name in _PAGE_NUMBERS[as_text(row["kind"])]]
        if all(name in row for row in members):
            table[name] = mean(members, name)
    if "near" in table:
        table["edit_dist"] = 1 - table.pop("near")
    return table
