"""How a benchmark words its questions, as data: a text with the columns of a row in it, and where the images go.

In a text, ``${question}`` stands for a cell of the row and ``${options}`` for its options, one after the other. What
stands between ``[[`` and ``]]`` is left out where one of its cells is empty; what follows ``||`` there comes instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eyechart.datasets.questions.messages import Item
from eyechart.errors import DataError
from eyechart.metrics.cells import LETTERS, Row, as_text, options_of, text_list

MARK = "<image>"
"""Stands in a text where an image is shown."""
_FIELD = re.compile(r"\$\{([^{}]+)\}")
_PLACE = re.compile(r"\[\[(?P<part>.*?)(?:\|\|(?P<other>.*?))?\]\]|\$\{(?P<name>[^{}]+)\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Asking:
    """The words of a prompt, with places for the cells of a row."""

    text: str = "${question}"
    option: str = "${letter}. ${option}\n"
    """Each option, one after the other, with ``join`` between them."""
    join: str = ""
    options: str | Sequence[str] = ""
    """The column that lists the options, or one column for each; empty: the columns A, B, ..."""
    images: str = "first"
    """Where the images go, one of `PLACES`."""
    unmarked: str = ""
    """What a question gets after it that does not say where its image is shown."""
    by: str = ""
    """A column whose value chooses the text ..."""
    cases: Mapping[str, str] = field(default_factory=dict)
    """... from these; ``text`` for all others, unless it is empty."""

    def items(self, row: Row, images: Sequence[Item], where: str) -> list[Any]:
        """Return what a row asks; ``where`` names the row in errors."""
        return PLACES[self.images](self.words(row, where), images, where)

    def words(self, row: Row, where: str) -> str:
        """Return the text of a row's prompt, with marks where images go."""
        text = self._text(row, where)

        def cell(name: str) -> str:
            if name == "options":
                return self._listed(row)
            found = as_text(row.get(name))
            return found + self.unmarked if name == "question" and MARK not in found else found

        def filled(match: re.Match[str]) -> str:
            if match["name"]:
                return cell(match["name"])
            whole = all(cell(name) for name in _FIELD.findall(match["part"]))
            return _fill(match["part"] if whole else match["other"] or "", cell)

        return _PLACE.sub(filled, text)

    def _text(self, row: Row, where: str) -> str:
        kind = as_text(row.get(self.by)) if self.by else ""
        text = self.cases.get(kind, self.text)
        if self.by and not text:
            raise DataError(f"{where} has the {self.by} {kind!r}, not {' or '.join(self.cases)}.")
        return text

    def _listed(self, row: Row) -> str:
        named = options_in(row, self.options).items()
        return self.join.join(_fill(self.option, {"letter": letter, "option": text}.get) for letter, text in named)


def _fill(text: str, cell: Callable[[str], str | None]) -> str:
    return _FIELD.sub(lambda place: cell(place[1]) or "", text)


def options_in(row: Row, columns: str | Sequence[str]) -> dict[str, str]:
    """Return a row's options by letter: from a column that lists them, from one column each, or from A, B, ..."""
    if not columns:
        return options_of(row)
    listed = text_list(row.get(columns)) if isinstance(columns, str) else [as_text(row.get(name)) for name in columns]
    return dict(zip(LETTERS, listed, strict=False))


def text_item(value: str) -> Item:
    """Return a text as an item of a prompt."""
    return {"type": "text", "value": value}


def first(text: str, images: Sequence[Item], where: str) -> list[Any]:  # noqa: ARG001 - no error
    """Show the images, then the text."""
    return [*images, text_item(text)]


def numbered(text: str, images: Sequence[Item], where: str) -> list[Any]:
    """Show the images where the text names them: ``<image 1>``."""
    start, *rest = re.split(r"<image (\d)>", text)
    if not rest:
        return first(text, images, where)
    message = [text_item(start)]
    for number, after in zip(rest[::2], rest[1::2], strict=True):
        if not 1 <= int(number) <= len(images):
            raise DataError(f"{where} speaks of <image {number}> but has {len(images)} images.")
        message += [images[int(number) - 1], text_item(after)]
    return message


def in_place(text: str, images: Sequence[Item], where: str, mark: str = MARK) -> list[Any]:
    """Show the images where the text has a mark; as many as there are marks. Without any mark they come first."""
    start, *rest = text.split(mark)
    if not rest:
        return first(text, images, where)
    if len(rest) != len(images):
        raise DataError(f"{where}: {len(rest)} times {mark} in the text, but {len(images)} images.")
    message = [text_item(start)]
    for image, after in zip(images, rest, strict=True):
        message += [image, text_item(after)]
    return message


def woven(text: str, images: Sequence[Item], where: str) -> list[Any]:
    """Show the images where the text has a mark, others at the end; no spaces around them, and no empty texts."""
    marks = text.count(MARK)
    if marks > len(images):
        raise DataError(f"{where}: {marks} times {MARK} in the text, but {len(images)} images.")
    shown = in_place(text, images[:marks] if marks else images, where)
    stripped = [text_item(item["value"].strip()) if item["type"] == "text" else item for item in shown]
    return [*(item for item in stripped if item["value"]), *(images[marks:] if marks else ())]


def shown(text: str, images: Sequence[Item], where: str) -> list[Any]:
    """Show the images where the text has two marks, of which the first stays in the text; no empty texts."""
    parts = in_place(text.replace(MARK * 2, f"\0{MARK}"), images, where)
    kept = [text_item(item["value"].replace("\0", MARK)) if item["type"] == "text" else item for item in parts]
    return [item for item in kept if item["value"]]


def here(text: str, images: Sequence[Item], where: str) -> list[Any]:
    """Show the images where the text has ``<ImageHere>``, and none elsewhere; no empty texts."""
    count = text.count("<ImageHere>")
    if count > len(images):
        raise DataError(f"{where}: {count} times <ImageHere> in the text, but {len(images)} images.")
    return [item for item in in_place(text, images[:count], where, "<ImageHere>") if item["value"]]


def pages(text: str, images: Sequence[Item], where: str) -> list[Any]:  # noqa: ARG001 - no error
    """Show the text, then each image after its number."""
    total = len(images)
    numbered_pages = [
        [text_item(f"Below is the {i}-th image (total {total} images).\n"), image] for i, image in enumerate(images, 1)
    ]
    return [text_item(text), *(item for page in numbered_pages for item in page)]


def marked(text: str, images: Sequence[Item], where: str) -> list[Any]:  # noqa: ARG001 - no error
    """Show images where the text has a mark, as far as they go, others at the end; before it where it has no mark."""
    left = list(images)
    message: list[Any] = []
    for part in re.split(r"(<image token>|<image>)", text):
        if part in ("<image token>", MARK):
            message += [left.pop(0)] if left else []
        elif part:
            message.append(text_item(part))
    return [*left, *message] if len(left) == len(images) else [*message, *left]


def tagged(text: str, images: Sequence[Item], where: str) -> list[Any]:
    """Show the images where the text names them: ``<IMAGE_0>``; no empty texts."""
    message = []
    for i, part in enumerate(re.split(r"<IMAGE_(\d+)>", text)):
        if i % 2 and int(part) >= len(images):
            raise DataError(f"{where} speaks of <IMAGE_{part}> but has {len(images)} images.")
        message += [images[int(part)]] if i % 2 else [text_item(part)] if part else []
    return message


def parted(text: str, images: Sequence[Item], where: str) -> list[Any]:  # noqa: ARG001 - no error
    """Make a part of its own of what stands between bars (``<|>``); the images are shown in place of ``<images>``."""
    parts = text.split("<|>")
    return [item for part in parts for item in (images if part == "<images>" else [text_item(part)])]


PLACES: dict[str, Callable[[str, Sequence[Item], str], list[Any]]] = {
    "first": first,
    "numbered": numbered,
    "in_place": in_place,
    "woven": woven,
    "shown": shown,
    "tagged": tagged,
    "parted": parted,
    "here": here,
    "pages": pages,
    "marked": marked,
}
"""Where images go, by name."""
