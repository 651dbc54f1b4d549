"""OCRBench v2's tasks with a layout: tables, charts, fields, boxes, words with boxes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from eyechart.metrics.cells import Row, as_text
from eyechart.metrics.structures.geometry import Box, overlap
from eyechart.metrics.structures.trees import table_similarity
from eyechart.metrics.texts.literals import numbers, read_literal

_FENCE = re.compile(r"```(?:python|json)?\n(.*?)\n```", re.DOTALL | re.IGNORECASE)
_PAIR = re.compile(r"""["']?([\w\s]+)["']?\s*[:=]\s*["']?([^\n,"'{}]+)["']?""")
_RUN = re.compile(r"""["']?[\w\s]*""")
_COORDINATES = re.compile(r"[(\[]\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*[)\]]")
_SPOT = re.compile(r"[\[(]([^\[\]()]*)[\])]")
_EDGES = "!?.:,*\"()\u00b7[]/'"
"""A word may lack one of these at its beginning and at its end."""
_ANY = "###"
"""Stands for words that nobody can read: they do not count."""


def html_table(text: str, target: str) -> float:
    """Compare the first HTML table of a text."""
    flat = text.replace("\n", "")
    start = flat.find("<body") if "<body" in flat else flat.find("<table")
    return table_similarity(flat[start:], _wrapped(target.replace("\n", ""))) if start >= 0 else 0.0


def _wrapped(table: str) -> str:
    return table if "<table" in table else f"<table>{table}"


def markdown_table(text: str, target: str) -> float:
    """Compare tables in Markdown, whose second line is the ruler."""
    return table_similarity(*(_rows_to_html(_markdown_rows(part)) for part in (text, target)))


def _markdown_rows(text: str) -> list[list[str]]:
    first, *rest = text.strip("`markdown").strip("`").strip().split("\n")
    lines = [first, *rest[1:]]
    return [[cell.strip() if cell.strip(" ") or not cell else " " for cell in _cells(line)] for line in lines]


def _cells(line: str) -> list[str]:
    return line.strip().split("|")[1:-1]


def _rows_to_html(rows: Sequence[Sequence[str]]) -> str:
    return "<table>" + "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows) + "</table>"


def chart_table(text: str, target: object) -> float:
    """Compare a chart's data, a dict, as a table of keys and values."""
    fences = _FENCE.findall(text)
    body = re.sub(r"^\s*\w+\s*=\s*", "", max(fences, key=len) if fences else text.strip(), count=1)
    body = re.sub(r"#.*", "", body)
    said = read_literal(body[: body.rfind("}") + 1] if "}" in body else body)
    if not isinstance(said, dict) or not said:
        return 0.0
    return table_similarity(
        *(_rows_to_html([(str(k), " ".join(str(v))) for k, v in d.items()]) for d in (said, _as_dict(target)))
    )


def read_fields(text: str) -> dict[str, str]:
    """Return the fields of a JSON object, a Python dict, or lines like ``key: value``."""
    found = _FENCE.search(text)
    body = found[1] if found else text.strip()
    value = read_literal(body)
    if value is None:
        value = _pairs(body)
    return {str(key).strip(): str(part).strip() for key, part in value.items()} if isinstance(value, dict) else {}


def _pairs(text: str) -> dict[str, str]:
    """Read pairs from left to right; a run of words without a sign after it is skipped as a whole."""
    pairs, place = dict[str, str](), 0
    while place < len(text):
        found = _PAIR.match(text, place)
        if found:
            pairs[found[1].strip()] = found[2].strip()
        run = _RUN.match(text, place)
        place = found.end() if found else max(place + 1, run.end() if run else 0)
    return pairs


def fields_found(text: str, target: object) -> float:
    """Return the share of fields that are right, of those that are wanted or given; a field may have several values."""
    wanted, said, hits = _as_dict(target), read_fields(text), list[bool]()
    for key in {*said, *wanted}:
        values = wanted.get(key)
        listed = values if isinstance(values, list) else [values]
        right = {_flat(str(value)) for value in listed if value is not None}
        if key in said or right:
            hits.append(key in said and _flat(said[key]) in right)
    return sum(hits) / len(hits) if hits else 0.0


def _as_dict(value: object) -> dict[str, object]:
    """Return a dict, or the one that a text writes, be it within quotes."""
    for _ in range(2):
        value = read_literal(value.strip('"')) if isinstance(value, str) else value
    if isinstance(value, dict):
        return value
    raise ValueError("an answer is no dict")


def _flat(text: str) -> str:
    return text.lower().strip().replace("\n", " ").replace(" ", "")


def read_box(text: str, target: object) -> float:
    """Return the overlap of the last box in a text; coordinates go up to 1000."""
    boxes = [[int(side[:12]) for side in sides] for sides in _COORDINATES.findall(text)]
    fitting = [box for box in boxes if max(box) <= 1000]
    return shared(fitting[-1], whole_numbers(target)) if fitting else 0.0


def whole_numbers(value: object) -> list[float]:
    """Return the whole parts of the numbers of a list; digits in quotes are numbers, too."""
    found = (
        [float(part) if isinstance(part, str) and part.isdigit() else part for part in value]
        if isinstance(value, list | tuple)
        else []
    )
    return [float(int(side)) for side in numbers(found) if abs(side) < 1e9]


def shared(one: Box, two: Box) -> float:
    """Return the overlap of two boxes; 0 where one is none."""
    return overlap(one, two) if len(one) == len(two) == 4 else 0.0


def spotted(row: Row, text: str) -> float:
    """Return the F score of words with boxes: a box must overlap one that is wanted by more than half, the word fit."""
    said = [(box, word) for box, word in _spots(text) if box[0] < box[2] and box[1] < box[3]]
    boxes, words = read_literal(as_text(row["bbox"])), read_literal(as_text(row["content"]))
    pairs = list(zip(boxes, words, strict=False)) if isinstance(boxes, list) and isinstance(words, list) else []
    if not pairs:
        raise ValueError(f"index {row['index']} has no boxes with words")
    wanted = [(_around(box), str(word)) for box, word in pairs]
    ignored = [box for box, word in wanted if word == _ANY]
    wanted = [(box, word) for box, word in wanted if word != _ANY]
    said = [(box, word) for box, word in said if not any(_inside(box, other) > 0.5 for other in ignored)]
    free, right = list(said), 0
    for box, word in wanted:
        match = next((spot for spot in free if overlap(box, spot[0]) > 0.5), None)
        if match:
            free.remove(match)
            right += _same_word(word.upper(), match[1].upper())
    return 2 * right / (len(wanted) + len(said)) if right else 0.0


def _around(corners: Sequence[float]) -> Box:
    return min(corners[::2]), min(corners[1::2]), max(corners[::2]), max(corners[1::2])


def _inside(box: Box, other: Box) -> float:
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    return max(width, 0) * max(height, 0) / ((box[2] - box[0]) * (box[3] - box[1]))


def _same_word(wanted: str, said: str) -> bool:
    starts = [wanted, wanted[1:]] if wanted[:1] in _EDGES else [wanted]
    forms = [form for start in starts for form in (start, start[:-1] if start[-1:] in _EDGES else start)]
    return said in forms


def _spots(text: str) -> list[tuple[Box, str]]:
    """Read boxes with words: a list of lists, or anything in brackets that begins with four numbers."""
    value = read_literal(text)
    if value is None:
        items: list[Sequence[object]] = [part.split(",", 4) for part in _SPOT.findall(text)]
    else:
        items = [item for item in value if isinstance(item, list | tuple)] if isinstance(value, list | tuple) else []
    found: dict[tuple[Box, str], None] = {}
    for item in items:
        sides = [str(side).strip() for side in item[:4]]
        if len(item) > 4 and all(re.fullmatch(r"\d{1,4}", side) and int(side) <= 1000 for side in sides):
            word = str(item[4]).replace("\n", "").strip().strip('"').strip("'")
            found[tuple(map(int, sides)), word] = None
    return list(found)
