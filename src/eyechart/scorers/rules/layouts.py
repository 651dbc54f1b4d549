"""Layouts extracted from images: texts, fields, formulas, tables, charts, boxes (CC-OCR, ChartX, OCRBench v2)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence

from eyechart.metrics.answers import likeness
from eyechart.metrics.cell_values import Row, as_text, numbers, read_literal
from eyechart.metrics.structures import Box, overlap, table_similarity, value_similarity
from eyechart.scorers.rule import RuleResult

_BY_LETTER = {"Arabic", "Japanese", "Korean"}
_PREAMBLE = re.compile(
    r"\\documentclass\{.*?\}|\\usepackage\[.*?\]\{.*?\}|\\usepackage\{.*?\}|\\geometry\{.*?\}|\\begin\{document\}|"
    r"\\end\{document\}|\\noindent"
)


def ocr_part(row: Row, text: str) -> RuleResult:
    """Compare by the row's category: words, fields, or a part of a document (CC-OCR)."""
    category, target = as_text(row["category"]), as_text(row["answer"])
    if category in {"multi_lan_ocr", "multi_scene_ocr"}:
        return RuleResult(text, _words(text, target, as_text(row["split"]), scene="scene" in category))
    if category == "kie":
        return RuleResult(text, _fields(text, target))
    kind = as_text(row["l2-category"])
    if category != "doc_parsing" or kind not in _PARTS:
        raise ValueError(f"{category!r} with {kind!r} is not a part of CC-OCR")
    return RuleResult(text, _PARTS[kind](text, target))


def _words(text: str, target: str, split: str, *, scene: bool) -> float:
    """Return the F1 score of words, or of characters in languages without spaces."""
    by_letter = split in _BY_LETTER or "zh" in split
    said, wanted = (_tokens(value, by_letter, plain=scene and not by_letter) for value in (text, target))
    right = sum((Counter(said) & Counter(wanted)).values())
    return 2 * right / (len(said) + len(wanted)) if right else 0.0


def _tokens(text: str, by_letter: bool, *, plain: bool) -> list[str]:
    flat = re.sub(r"\s+", " ", text.strip().replace("###", "").replace("***", "")).lower()
    parts = list(flat.replace(" ", "")) if by_letter else flat.split(" ")
    parts = [re.sub(r"[^a-z0-9]+", "", part) for part in parts] if plain else parts
    return [part for part in parts if part]


def _fields(text: str, target: str) -> float:
    found = re.search(r"```json(.*?)```", text, re.DOTALL)
    try:
        said = json.loads((found[1] if found else text).strip().replace("\n", ""))
    except (ValueError, RecursionError):
        said = {}
    return value_similarity(_normal(_halfwidth(said)), _normal(_halfwidth(read_literal(target))))


def _halfwidth(value: object) -> object:
    if isinstance(value, dict):
        return {key: _halfwidth(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_halfwidth(part) if isinstance(part, dict) else part for part in value]
    return _spaced(value) if isinstance(value, str) else value


def _spaced(text: str) -> str:
    narrow = "".join(chr(ord(c) - 0xFEE0) if 0xFF01 <= ord(c) <= 0xFF5E else " " if c == "\u3000" else c for c in text)
    narrow = narrow.replace("、", ",")
    narrow = re.sub(
        r"(?<=[\u4e00-\u9fff])\s+(?=[\u4e00-\u9fffa-zA-Z0-9])|(?<=[a-zA-Z0-9])\s+(?=[\u4e00-\u9fff])", "", narrow
    )
    narrow = re.sub(r"(?<![0-9])\s*([,.!?:;])\s*", r"\1 ", narrow)
    narrow = re.sub(r"(?<=[0-9])(?=[a-zA-Z])|(?<=[a-zA-Z])(?=[0-9])", " ", narrow)
    return re.sub(r"\s+", " ", narrow)


def _normal(value: object) -> object:
    """Sort keys by length, make every value a list of texts, and drop empty ones, as Donut does."""
    if isinstance(value, dict):
        parts = {key: _normal(value[key]) for key in sorted(value, key=lambda key: (len(str(key)), str(key)))}
        return {key: part if isinstance(part, list) else [part] for key, part in parts.items() if part}
    if isinstance(value, list):
        if all(isinstance(item, dict) for item in value):
            return [part for item in value if (part := _normal(item))]
        return [str(item).strip() for item in value if isinstance(item, str | int | float) and str(item).strip()]
    return [str(value).strip()]


def _document(text: str, target: str) -> float:
    said = _PREAMBLE.sub("", text)
    said = said.split("```")[1] if said.count("```") else said
    return likeness("".join(re.split("[ \n]", said.replace("```latex", ""))), "".join(re.split("[ \n]", target)))


def _table(text: str, target: str) -> float:
    said = _PREAMBLE.sub("", text)
    said = said.split("```html")[1] if "```html" in said else said
    plain = said.replace("```", "").replace(" ", "").replace("\n", "").replace("\uff0c", ",")
    return table_similarity(plain, target.replace(" ", "").replace("\n", ""))


def _formula(text: str, target: str) -> float:
    said = re.sub(r"[\n\t ]", "", text.replace("```latex", "").replace("```", ""))
    return likeness(said, target.replace(" ", ""))


def _molecule(text: str, target: str) -> float:
    said = re.sub(r"[\n ]|</?smiles>", "", text)
    return likeness(said, target.replace(" ", ""))


_PARTS: dict[str, Callable[[str, str], float]] = {
    "doc": _document,
    "table": _table,
    "formula": _formula,
    "molecular": _molecule,
}


def chart_structure(row: Row, text: str) -> RuleResult:
    r"""Compare a chart's data, rows with ``\t`` between cells and ``\n`` between rows, as sets of triples (ChartX).

    The score is the mean over thresholds from 0.5 to 0.95 of whether the sets' overlap reaches them.
    """
    if as_text(row["category"]) != "structure":
        return RuleResult(text, 0.0, {"half": 0.0})
    said, wanted = _triples(text), _triples(as_text(row["answer"]))
    union = said | wanted
    shared = len(said & wanted) / len(union) if union else 0.0
    reached = [shared >= 0.5 + 0.05 * i - 1e-9 for i in range(10)]
    return RuleResult(text, sum(reached) / 10, {"half": float(reached[0])})


def _triples(text: str) -> set[tuple[str, str, str | float]]:
    inside = re.search(r"```(?:csv)?(.*?)(?:```|$)", text, re.DOTALL)
    first, *lines = (inside[1] if inside else text).strip().split("\\n")
    header = first.split("\\t")
    found = set()
    for line in lines:
        entity, *values = line.split("\\t")
        for name, value in zip(header[1:], values, strict=False):
            ends = sorted((entity.strip().lower(), name.strip().lower()))
            found.add((ends[0], ends[1], _cell(value.strip().replace("%", "").replace("$", ""))))
    return found


def _cell(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text.lower()


_FENCE = re.compile(r"```(?:python|json)?\n(.*?)\n```", re.DOTALL | re.IGNORECASE)
_PAIR = re.compile(r"""["']?([\w\s]+)["']?\s*[:=]\s*["']?([^\n,"'{}]+)["']?""")
_RUN = re.compile(r"""["']?[\w\s]*""")
_COORDINATES = re.compile(r"[(\[]\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*[)\]]")
_SPOT = re.compile(r"[\[(]([^\[\]()]*)[\])]")
_EDGES = "!?.:,*\"()\u00b7[]/'"
"""Punctuation that may be missing at either end of a word."""
_ANY = "###"
"""Marks illegible words, which do not count."""


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
    return [
        [cell.strip() if cell.strip(" ") or not cell else " " for cell in line.strip().split("|")[1:-1]]
        for line in lines
    ]


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
    """Parse pairs from left to right; a run of words without a separator after it is skipped."""
    pairs, place = dict[str, str](), 0
    while place < len(text):
        found = _PAIR.match(text, place)
        if found:
            pairs[found[1].strip()] = found[2].strip()
        run = _RUN.match(text, place)
        place = found.end() if found else max(place + 1, run.end() if run else 0)
    return pairs


def fields_found(text: str, target: object) -> float:
    """Return the share of right fields among those expected or given; a field may have several values."""
    wanted, said, hits = _as_dict(target), read_fields(text), list[bool]()
    for key in {*said, *wanted}:
        values = wanted.get(key)
        listed = values if isinstance(values, list) else [values]
        right = {_flat(str(value)) for value in listed if value is not None}
        if key in said or right:
            hits.append(key in said and _flat(said[key]) in right)
    return sum(hits) / len(hits) if hits else 0.0


def _as_dict(value: object) -> dict[str, object]:
    """Return a dict, or the one that a text contains, possibly within quotes."""
    for _ in range(2):
        value = read_literal(value.strip('"')) if isinstance(value, str) else value
    if isinstance(value, dict):
        return value
    raise ValueError("an answer is not a dict")


def _flat(text: str) -> str:
    return text.lower().strip().replace("\n", " ").replace(" ", "")


def read_box(text: str, target: object) -> float:
    """Return the IoU of the last box in a text; coordinates range up to 1000."""
    boxes = [[int(side[:12]) for side in sides] for sides in _COORDINATES.findall(text)]
    fitting = [box for box in boxes if max(box) <= 1000]
    return shared(fitting[-1], whole_numbers(target)) if fitting else 0.0


def whole_numbers(value: object) -> list[float]:
    """Return the integer parts of a list's numbers, including quoted digits."""
    found = (
        [float(part) if isinstance(part, str) and part.isdigit() else part for part in value]
        if isinstance(value, list | tuple)
        else []
    )
    return [float(int(side)) for side in numbers(found) if abs(side) < 1e9]


def shared(one: Box, two: Box) -> float:
    """Return the IoU of two boxes; 0 if one is not a box."""
    return overlap(one, two) if len(one) == len(two) == 4 else 0.0


def spotted(row: Row, text: str) -> float:
    """Return the F score of words with boxes: a word must match, and its box must have an IoU above one half."""
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
    """Parse boxes with words: a list of lists, or anything in brackets that begins with four numbers."""
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
