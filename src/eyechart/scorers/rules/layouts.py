"""Layouts extracted from images: texts, fields, formulas, tables, charts (CC-OCR, ChartX)."""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable

from eyechart.metrics.answers import likeness
from eyechart.metrics.cell_values import Row, as_text, read_literal
from eyechart.metrics.structures import table_similarity, value_similarity
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
        found = re.search(r"```json(.*?)```", text, re.DOTALL)
        try:
            said = json.loads((found[1] if found else text).strip().replace("\n", ""))
        except (ValueError, RecursionError):
            said = {}
        fields = (_normal(_halfwidth(value)) for value in (said, read_literal(target)))
        return RuleResult(text, value_similarity(*fields))
    kind = as_text(row["l2-category"])
    if category != "doc_parsing" or kind not in _PARTS:
        raise ValueError(f"{category!r} with {kind!r} is not a part of CC-OCR")
    return RuleResult(text, _PARTS[kind](text, target))


def _words(text: str, target: str, split: str, *, scene: bool) -> float:
    """Return the F1 score of words, or of characters in languages without spaces."""
    by_letter = split in _BY_LETTER or "zh" in split
    counts = []
    for value in (text, target):
        flat = re.sub(r"\s+", " ", value.strip().replace("###", "").replace("***", "")).lower()
        parts = list(flat.replace(" ", "")) if by_letter else flat.split(" ")
        parts = [re.sub(r"[^a-z0-9]+", "", part) for part in parts] if scene and not by_letter else parts
        counts.append(Counter(part for part in parts if part))
    right = (counts[0] & counts[1]).total()
    return 2 * right / (counts[0].total() + counts[1].total()) if right else 0.0


def _halfwidth(value: object) -> object:
    if isinstance(value, dict):
        return {key: _halfwidth(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_halfwidth(part) if isinstance(part, dict) else part for part in value]
    if not isinstance(value, str):
        return value
    narrow = "".join(chr(ord(c) - 0xFEE0) if 0xFF01 <= ord(c) <= 0xFF5E else " " if c == "\u3000" else c for c in value)
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


_PARTS: dict[str, Callable[[str, str], float]] = {
    "doc": _document,
    "table": _table,
    "formula": lambda text, target: likeness(
        re.sub(r"[\n\t ]", "", text.replace("```latex", "").replace("```", "")), target.replace(" ", "")
    ),
    "molecular": lambda text, target: likeness(re.sub(r"[\n ]|</?smiles>", "", text), target.replace(" ", "")),
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
            cell: str | float = value.strip().replace("%", "").replace("$", "").lower()
            with contextlib.suppress(ValueError):
                cell = float(cell)
            found.add((ends[0], ends[1], cell))
    return found
