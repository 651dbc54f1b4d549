"""Cells cut up and joined anew for the words of a prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping

from eyechart.metrics.cells import LETTERS, Row, as_text, is_missing, text_list
from eyechart.metrics.texts.literals import read_literal


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
