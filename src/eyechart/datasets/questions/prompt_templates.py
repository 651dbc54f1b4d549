# ruff: noqa: RUF001 - Chinese punctuation
"""Prompt templates as data: text with placeholders for a row's cells, and the position of the images.

``${question}`` is replaced by a cell of the row and ``${options}`` by its formatted options. A block in ``[[`` and
``]]`` is dropped if one of its cells is empty, or replaced by the part after ``||`` if it has one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eyechart.datasets.questions.prompt_items import Item
from eyechart.errors import DataError
from eyechart.metrics.cell_values import LETTERS, Row, as_text, is_missing, options_of, read_literal, text_list

MARK = "<image>"
"""Marks the position of an image in a text."""
_FIELD = re.compile(r"\$\{([^{}]+)\}")
_PLACE = re.compile(r"\[\[(?P<part>.*?)(?:\|\|(?P<other>.*?))?\]\]|\$\{(?P<name>[^{}]+)\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with placeholders for the cells of a row."""

    text: str = "${question}"
    option: str = "${letter}. ${option}\n"
    """Template of one option; options are joined by ``join``."""
    join: str = ""
    options: str | Sequence[str] = ""
    """The column that lists the options, or one column per option; empty: columns A, B, ..."""
    images: str = "first"
    """Position of the images, a key of `PLACES`."""
    unmarked: str = ""
    """Suffix for a question that contains no image mark."""
    by: str = ""
    """The column whose value selects the text ..."""
    cases: Mapping[str, str] = field(default_factory=dict)
    """... from these; other values use ``text``, or are an error if it is empty."""

    def items(self, row: Row, images: Sequence[Item]) -> list[Any]:
        """Build the prompt items of a row."""
        kind = as_text(row.get(self.by)) if self.by else ""
        text = self.cases.get(kind, self.text)
        if self.by and not text:
            raise DataError(
                "unknown {by} {kind!r}; expected {cases}.", by=self.by, kind=kind, cases=" or ".join(self.cases)
            )

        def cell(name: str) -> str:
            if name == "options":
                named = options_in(row, self.options).items()
                return self.join.join(_fill(self.option, {"letter": key, "option": said}.get) for key, said in named)
            found = as_text(row.get(name))
            return found + self.unmarked if name == "question" and MARK not in found else found

        def filled(match: re.Match[str]) -> str:
            if match["name"]:
                return cell(match["name"])
            whole = all(cell(name) for name in _FIELD.findall(match["part"]))
            return _fill(match["part"] if whole else match["other"] or "", cell)

        return PLACES[self.images](_PLACE.sub(filled, text), images)


def _fill(text: str, cell: Callable[[str], str | None]) -> str:
    return _FIELD.sub(lambda place: cell(place[1]) or "", text)


def options_in(row: Row, columns: str | Sequence[str]) -> dict[str, str]:
    """Return a row's options by letter: from a column that lists them, from one column each, or from A, B, ..."""
    if not columns:
        return options_of(row)
    listed = text_list(row.get(columns)) if isinstance(columns, str) else [as_text(row.get(name)) for name in columns]
    return dict(zip(LETTERS, listed, strict=False))


def text_item(value: str) -> Item:
    """Wrap a text as a prompt item."""
    return {"type": "text", "value": value}


def first(text: str, images: Sequence[Item]) -> list[Any]:
    """Put the images before the text."""
    return [*images, text_item(text)]


def numbered(text: str, images: Sequence[Item]) -> list[Any]:
    """Replace numbered marks (``<image 1>``) by the images they refer to."""
    start, *rest = re.split(r"<image (\d)>", text)
    if not rest:
        return first(text, images)
    message = [text_item(start)]
    for number, after in zip(rest[::2], rest[1::2], strict=True):
        message += [_image_at(int(number) - 1, images, f"<image {number}>"), text_item(after)]
    return message


def _image_at(place: int, images: Sequence[Item], mark: str) -> Item:
    if not 0 <= place < len(images):
        raise DataError("the text refers to {mark}, but there are {n} images.", mark=mark, n=len(images))
    return images[place]


def in_place(text: str, images: Sequence[Item], mark: str = MARK) -> list[Any]:
    """Replace each mark by the next image; the counts must match. Without marks, images come first."""
    start, *rest = text.split(mark)
    if not rest:
        return first(text, images)
    if len(rest) != len(images):
        raise DataError(
            "the text contains {mark} {n} times, but there {n_images:is|are} {n_images} images.",
            n=len(rest),
            mark=mark,
            n_images=len(images),
        )
    message = [text_item(start)]
    for image, after in zip(images, rest, strict=True):
        message += [image, text_item(after)]
    return message


def woven(text: str, images: Sequence[Item]) -> list[Any]:
    """Replace marks by images and append the remaining ones; texts are stripped and empty texts dropped."""
    marks = text.count(MARK)
    shown = in_place(text, images[:marks] if marks else images)
    stripped = [text_item(item["value"].strip()) if item["type"] == "text" else item for item in shown]
    return [*(item for item in stripped if item["value"]), *(images[marks:] if marks else ())]


def shown(text: str, images: Sequence[Item]) -> list[Any]:
    """Replace doubled marks by a mark in the text followed by the image; empty texts are dropped."""
    parts = in_place(text.replace(MARK * 2, f"\0{MARK}"), images)
    kept = [text_item(item["value"].replace("\0", MARK)) if item["type"] == "text" else item for item in parts]
    return [item for item in kept if item["value"]]


def here(text: str, images: Sequence[Item]) -> list[Any]:
    """Replace ``<ImageHere>`` by images and omit the remaining ones; empty texts are dropped."""
    shown = in_place(text, images[: text.count("<ImageHere>")], "<ImageHere>")
    return [item for item in shown if item["value"]]


def pages(text: str, images: Sequence[Item]) -> list[Any]:
    """Append each image, introduced by its number, to the text."""
    message: list[Any] = [text_item(text)]
    for i, image in enumerate(images, 1):
        message += [text_item(f"Below is the {i}-th image (total {len(images)} images).\n"), image]
    return message


def marked(text: str, images: Sequence[Item]) -> list[Any]:
    """Replace marks by images while there are any and append the rest; without marks, images come first."""
    left = list(images)
    message: list[Any] = []
    for part in re.split(r"(<image token>|<image>)", text):
        if part in ("<image token>", MARK):
            message += [left.pop(0)] if left else []
        elif part:
            message.append(text_item(part))
    return [*left, *message] if len(left) == len(images) else [*message, *left]


def tagged(text: str, images: Sequence[Item]) -> list[Any]:
    """Replace ``<IMAGE_0>`` and so on by the images; empty texts are dropped."""
    message = []
    for i, part in enumerate(re.split(r"<IMAGE_(\d+)>", text)):
        if i % 2:
            message.append(_image_at(int(part), images, f"<IMAGE_{part}>"))
        elif part:
            message.append(text_item(part))
    return message


def parted(text: str, images: Sequence[Item]) -> list[Any]:
    """Split the text at ``<|>`` into separate items; the item ``<images>`` is replaced by the images."""
    parts = text.split("<|>")
    return [item for part in parts for item in (images if part == "<images>" else [text_item(part)])]


PLACES: dict[str, Callable[[str, Sequence[Item]], list[Any]]] = {
    place.__name__: place for place in (first, numbered, in_place, woven, shown, tagged, parted, here, pages, marked)
}
"""Image placements by name."""


def by_turns(row: Row) -> Mapping[str, object]:
    """Return the first and the last of several questions, and the turns before the last (ChartQAPro)."""
    questions, answers = text_list(row.get("question")), text_list(row.get("answer"))
    before = [text for pair in zip(questions[:-1], answers[:-1], strict=False) for text in pair]
    return {"first": "".join(questions[:1]), "last": "".join(questions[-1:]), "turns": repr(before)}


def by_index(row: Row) -> Mapping[str, object]:
    """Return the task that prefixes the index; for TableVQA, its second component (WildDoc)."""
    task, _, rest = as_text(row.get("index")).partition("-")
    return {"task": rest.partition("-")[0] if task == "TableVQA" else task}


def long_document(row: Row) -> Mapping[str, object]:
    """Join a document with its question and options, with doubled marks to keep them in the text (MM-NIAH)."""
    context, question = [*text_list(row.get("question")), "", ""][:2]
    listed = read_literal(as_text(row.get("multi-choice options")))
    texts, images = [*(listed if isinstance(listed, list) else []), None, None][:2]
    text = f"{context}\n{question}".replace("<image>", "\n<image><image>")
    if texts or images:
        options = [*map(as_text, texts)] if texts else ["<image><image>"] * len(images)
        text += "".join(f"\n{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))
        return {"document": f"{text}\nAnswer with the option's letter from the given choices directly."}
    return {"document": f"{text}\nAnswer the question using a single word or phrase."}


def with_additional(row: Row) -> Mapping[str, object]:
    """Insert the parts of ``additional`` at their tags in the question, and line breaks (VisFactor)."""
    question, additional = (as_text(row.get(name)).replace("<br>", "\n") for name in ("question", "additional"))
    parts = [] if is_missing(row.get("additional")) else additional.split(";")
    tag = re.compile(r"<ADDITIONAL_(\d+)>")
    return {"question": tag.sub(lambda at: parts[int(at[1])] if int(at[1]) < len(parts) else at[0], question)}


def thinking(row: Row) -> Mapping[str, object]:
    """Ask for reasoning before the answer (VisFactor's chain of thought)."""
    question = as_text(with_additional(row)["question"])
    steps = "Output: Solve the problem step-by-step. First, reason through the problem clearly. At the end, respond"
    return {"question": question.replace("Output: Respond", steps)}


def asked(row: Row) -> Mapping[str, object]:
    """Remove the answer format instructions from a question (RoboSpatial)."""
    return {"asked": as_text(row.get("question")).split("Your answer should")[0].strip()}


_KINDS = {
    "Numerical": ("数值", "a numerical value"),
    "Expression": ("表达式", "an expression"),
    "Equation": ("方程", "an equation"),
    "Interval": ("区间", "an interval"),
}
_WITHOUT_UNIT = {
    True: "，注意答案的单位不要放在\\boxed{}中",
    False: ", note that the unit of the answer should not be included in \\boxed{}",
}


def olympiad(row: Row) -> Mapping[str, object]:
    """Return a competition's language, subject and answer types (OlympiadBench).

    Every prompt speaks of a unit: VLMEvalKit takes the missing cells of ``unit`` for units.
    """
    source = as_text(row.get("source"))
    chinese, maths = "zh" in source, "maths" in source
    subject = ("数学" if maths else "物理") if chinese else ("Math" if maths else "Physics")
    several = as_text(row.get("is_multiple_answer")) in {"True", "1", "1.0"}
    context = "" if maths or is_missing(row.get("context")) else as_text(row["context"]) + "\n"
    box = ("用英文逗号连接的多个答案" if several else "答案") if chinese else ""
    box = box or ("multiple answers connected with commas" if several else "answer")
    return {
        "form": ("zh" if chinese else "en") + ("_proof" if "TP" in source else ""),
        "subject": subject,
        "kinds": _kinds(as_text(row.get("answer_type")), several, chinese),
        "box": f"\\boxed{{{box}}}" + ("(单位)" if chinese else "(unit)"),
        "without_unit": _WITHOUT_UNIT[chinese],
        "context": context,
    }


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


VIEWS: Mapping[str, Callable[[Row], Mapping[str, object]]] = {
    view.__name__: view for view in (by_turns, by_index, long_document, thinking, asked, olympiad)
} | {"tagged": with_additional}
"""Views by the name in ``parameters.view``."""
