"""Answers about tables, documents and charts."""

from __future__ import annotations

import re

from eyechart.metrics.answers import open_score
from eyechart.metrics.cells import Row, as_text, finite_number, text_list
from eyechart.metrics.texts.literals import read_literal
from eyechart.metrics.texts.open_answers import edit_distance
from eyechart.metrics.texts.table_answers import same_amount, same_statement, same_values
from eyechart.scorers.rules import Reading


def table_answer(row: Row, text: str, *, part: str = "split") -> Reading:
    """Compare an answer about a table, by the rule of the part of TableVQABench that it belongs to."""
    said, target = text.removeprefix("Answer: "), as_text(row["answer"])
    kind = as_text(row[part])
    if kind == "fintabnetqa":
        relaxed, exact = same_amount(said, target)
        return Reading(said, float(relaxed), {"exact": float(exact)})
    if kind == "vtabfact":
        return Reading(said, float(same_statement(said, target)))
    if kind in {"vwtq", "vwtq_syn"}:
        return Reading(said, float(same_values(said, target)))
    raise ValueError(f"{kind!r} is no part of TableVQABench")


def photographed(row: Row, text: str) -> Reading:
    """Compare an answer of WildDoc, by the benchmark that its index names; ``task`` and ``page`` go to the table."""
    task, part, _, page = [*as_text(row["index"]).split("-"), "", "", ""][:4]
    facts = {"task": task, "part": part, "page": page}
    if task == "TableVQA":
        read = table_answer({**row, "split": part}, text)
    elif task in {"DocVQA", "ChartQA"}:
        metric = {"DocVQA": "anls", "ChartQA": "relaxed_accuracy"}[task]
        read = Reading(text, open_score(text, row.get("answer"), metric) if text.strip() else 0.0)
    else:
        raise ValueError(f"{task!r} is no part of WildDoc")
    return Reading(read.extracted, read.score, facts=facts)


def chart_answer(row: Row, text: str, *, tolerance: float = 0.05) -> Reading:
    """Compare as ChartQAPro does: item by item; years and the like exactly, numbers within 5 %, texts by ANLS."""
    target = next(reversed(text_list(row["answer"])), "").strip(".").strip("\n")
    said = text.strip(".").strip("\n")
    flags = text_list(row.get("year"))
    if as_text(row.get("question_type")) == "Conversational":
        flags = flags[-1:]
    wanted, found = _items(_quoted(target)) or [target], _items(said) or [said]
    flags = flags * len(wanted) if len(flags) < len(wanted) else flags
    pairs = zip(wanted, found, flags, strict=False)
    scores = [_chart_item(a, b, tolerance, exact=flag.upper() == "YES") for a, b, flag in pairs]
    return Reading(said, sum(scores) / max(len(wanted), len(found)))


def _quoted(text: str) -> str:
    """Put quotes around the items of a list that has none: [A, B]."""
    inside = re.fullmatch(r"\[(.*)\]", text.strip(), re.DOTALL)
    if not inside or "'" in inside[1] or '"' in inside[1]:
        return text
    return repr([item.strip() for item in inside[1].split(",")])


def _items(text: str) -> list[str]:
    value = read_literal(text)
    return [str(item).strip(" '") for item in value] if isinstance(value, list) else []


def _chart_item(target: str, said: str, tolerance: float, *, exact: bool) -> float:
    if exact:
        return float(target.strip().lower() == said.strip().lower())
    wanted, found = (text.strip().strip("%").strip() for text in (target, said))
    numbers = _number(wanted), _number(found)
    if numbers[0] is not None and numbers[1] is not None:
        if not numbers[0]:
            return float(numbers[1] == 0)
        return float(abs(numbers[1] - numbers[0]) / abs(numbers[0]) <= tolerance)
    left, right = (" ".join(text.lower().split()) for text in (wanted, found))
    near = 1 - edit_distance(left, right) / max(len(left), len(right), 1)
    return near if near > 0.5 else 0.0


def _number(text: str) -> float | None:
    return finite_number(text.strip().strip("%"))
