# ruff: noqa: RUF001 - Chinese punctuation
"""What the words of a prompt need that is no cell of the row, made from its cells: a benchmark names its view."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from eyechart.metrics.cells import LETTERS, Row, as_text, is_missing, text_list
from eyechart.metrics.texts.literals import read_literal

View = Callable[[Row], Mapping[str, object]]


def by_turns(row: Row) -> Mapping[str, object]:
    """Name the first and the last of several questions, and the turns before the last (ChartQAPro)."""
    questions, answers = text_list(row.get("question")), text_list(row.get("answer"))
    before = [text for pair in zip(questions[:-1], answers[:-1], strict=False) for text in pair]
    return {
        "first": questions[0] if questions else "",
        "last": questions[-1] if questions else "",
        "turns": repr(before),
    }


def by_index(row: Row) -> Mapping[str, object]:
    """Name the task that the index begins with, or the part of it that tells tables apart (WildDoc)."""
    task, _, rest = as_text(row.get("index")).partition("-")
    return {"task": rest.partition("-")[0] if task == "TableVQA" else task}


def long_document(row: Row) -> Mapping[str, object]:
    """Join a document with its question and options; each mark of an image is also shown (MM-NIAH)."""
    context, question = [*text_list(row.get("question")), "", ""][:2]
    listed = read_literal(as_text(row.get("multi-choice options")))
    texts, images = [*(listed if isinstance(listed, list) else []), None, None][:2]
    text = f"{context}\n{question}".replace("<image>", "\n<image><image>")
    if texts or images:
        options = [*map(as_text, texts)] if texts else ["<image><image>"] * len(images)
        text += "".join(f"\n{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))
        return {"document": f"{text}\nAnswer with the option's letter from the given choices directly."}
    return {"document": f"{text}\nAnswer the question using a single word or phrase."}


def tagged(row: Row) -> Mapping[str, object]:
    """Put the parts of ``additional`` where the question names them, and line breaks (VisFactor)."""
    parts = [] if is_missing(row.get("additional")) else as_text(row["additional"]).replace("<br>", "\n").split(";")

    def part(match: re.Match[str]) -> str:
        number = int(match[1])
        return parts[number] if number < len(parts) else match[0]

    question = as_text(row.get("question")).replace("<br>", "\n")
    return {"question": re.sub(r"<ADDITIONAL_(\d+)>", part, question)}


def thinking(row: Row) -> Mapping[str, object]:
    """Ask for reasoning before the answer (VisFactor's chain of thought)."""
    question = as_text(tagged(row)["question"])
    steps = "Output: Solve the problem step-by-step. First, reason through the problem clearly. At the end, respond"
    return {"question": question.replace("Output: Respond", steps)}


def asked(row: Row) -> Mapping[str, object]:
    """Cut off what a question says about the form of its answer (RoboSpatial)."""
    return {"asked": as_text(row.get("question")).split("Your answer should")[0].strip()}


_KINDS = {
    "Numerical": ("数值", "a numerical value"),
    "Expression": ("表达式", "an expression"),
    "Equation": ("方程", "an equation"),
    "Interval": ("区间", "an interval"),
}


def olympiad(row: Row) -> Mapping[str, object]:
    """Name a competition's language, subject and kinds of answers (OlympiadBench)."""
    source = as_text(row.get("source"))
    chinese, maths = "zh" in source, "maths" in source
    subject = ("数学" if maths else "物理") if chinese else ("Math" if maths else "Physics")
    several = as_text(row.get("is_multiple_answer")) in {"True", "1", "1.0"}
    context = "" if maths or is_missing(row.get("context")) else as_text(row["context"]) + "\n"
    box = ("用英文逗号连接的多个答案" if several else "答案") if chinese else ""
    box = box or ("multiple answers connected with commas" if several else "answer")
    unit = not is_missing(row.get("unit"))
    return {
        "form": ("zh" if chinese else "en") + ("_proof" if "TP" in source else ""),
        "subject": subject,
        "kinds": _kinds(as_text(row.get("answer_type")), several, chinese),
        "box": f"\\boxed{{{box}}}" + (("(单位)" if chinese else "(unit)") if unit else ""),
        "without_unit": _without_unit(chinese) if unit else "",
        "context": context,
    }


def _without_unit(chinese: bool) -> str:
    if chinese:
        return "，注意答案的单位不要放在\\boxed{}中"
    return ", note that the unit of the answer should not be included in \\boxed{}"


def _kinds(answer_type: str, several: bool, chinese: bool) -> str:
    if not answer_type or "Need_human_evaluate" in answer_type or "Tuple" in answer_type:
        return ""
    parts = answer_type.split(",") if several else [answer_type]
    names = [_KINDS[kind][not chinese] for part in parts for kind in _KINDS if kind in part]
    if not several:
        return f"，答案类型为{names[0]}" if chinese else f"The answer of The problem should be {names[0]}. "
    if len(set(names)) == 1:
        many = "The problem has multiple answers, each of them should be"
        return f"，题目有多个答案，答案类型均为{names[0]}" if chinese else f"{many} {names[0]}. "
    if chinese:
        return "，题目有多个答案，答案类型分别为" + "、".join(names)
    return f"The problem has multiple answers, with the answers in order being {', '.join(names)}. "


VIEWS: dict[str, View] = {
    "by_turns": by_turns,
    "by_index": by_index,
    "long_document": long_document,
    "tagged": tagged,
    "thinking": thinking,
    "olympiad": olympiad,
    "asked": asked,
}
"""Views by the name that ``parameters.view`` gives."""
