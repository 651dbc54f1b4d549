"""OCRBench v2: thirty task types with a rule each."""

import re
from collections.abc import Callable, Sequence

from eyechart.metrics.answers import likeness
from eyechart.metrics.cell_values import Row, as_text, numbers, read_literal
from eyechart.metrics.long_texts import word_scores
from eyechart.metrics.structures import Box, outline_similarity, overlap, table_similarity
from eyechart.scorers.rule import RuleResult

_TEXT_TAG = re.compile(r"\\text\{([^{}]*)\}")
_JOINTS = ("", ".", ". ", ",", ", ", "、", ";", "; ", " ", "和")
_FENCE = re.compile(r"```(?:python|json)?\n(.*?)\n```", re.DOTALL | re.IGNORECASE)
_PAIR = re.compile(r"""["']?([\w\s]+)["']?\s*[:=]\s*["']?([^\n,"'{}]+)["']?""")
_RUN = re.compile(r"""["']?[\w\s]*""")
_COORDINATES = re.compile(r"[(\[]\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*[)\]]")
_SPOT = re.compile(r"[\[(]([^\[\]()]*)[\])]")
_EDGES = "!?.:,*\"()\u00b7[]/'"
"""Punctuation that may be missing at either end of a word."""
_ANY = "###"
"""Marks illegible words, which do not count."""


def ocr_task(row: Row, text: str) -> RuleResult:
    """Compare by the row's ``category``, and by its ``eval`` if set."""
    category = as_text(row["category"])
    if category not in _TASKS:
        raise ValueError(f"{category!r} is not a task of OCRBench v2")
    answers = read_literal(as_text(row["answer"]))
    if not answers:
        raise ValueError(f"the answer of index {row['index']} is not a list")
    score = _TASKS[category](row, text, answers if isinstance(answers, list) else [answers])
    return score if isinstance(score, RuleResult) else RuleResult(text, float(score))


def _answered(row: Row, text: str, answers: list[object]) -> float:
    how = _eval(row)
    if how == "multiple choice":
        return float("".join(letter for letter in text if letter.isalpha()) == str(answers[0]))
    if how not in {"", "case sensitive"}:
        raise ValueError(f"{how!r} is not a way to compare")
    if how:
        return _phrased(text, answers, str.strip)
    if as_text(row["category"]).endswith(" cn"):
        return _phrased(text, answers, lambda part: part.lower().strip().replace(" ", ""), ",", 4)
    return _phrased(text, answers)


def _phrased(
    text: str,
    answers: list[object],
    plain: Callable[[str], str] = lambda part: part.lower().strip(),
    cut: str | None = None,
    few: int = 5,
) -> float:
    """Search the text for short answers; answers of at least so many words may differ in half of their letters."""
    said, score = plain(text.replace("\n", " ")), 0.0
    for answer in answers:
        wanted = plain(str(answer).replace("\n", " "))
        if len(wanted.split(cut)) < few:
            score = max(score, float(wanted in said))
        else:
            near = likeness(said, wanted)
            score = max(score, near if near >= 0.5 else 0.0)
    return score


def _eval(row: Row) -> str:
    how = as_text(row.get("eval"))
    return "" if how == "without eval" else how


def _counted(row: Row, text: str, answers: list[object]) -> float:
    if _eval(row) == "exact match":
        return float(any(str(answer).lower().strip() in text for answer in answers))
    if _eval(row) != "regression":
        raise ValueError(f"{_eval(row)!r} is not a way to compare counts")
    found = re.search(r"\d+", text)
    said = int(found[0][:12]) if found else 0
    near = [1 - abs(said - count) / count for answer in answers if (count := int(str(answer)))]
    return max((value for value in near if said and value > 0.5), default=0.0)


def _formula(row: Row, text: str, answers: list[object]) -> float:
    chinese = as_text(row["category"]).endswith(" cn")
    said, *wanted = (
        re.sub(r"[\n ]", "", (_TEXT_TAG.sub(r"\1", part) if chinese else part).strip())
        for part in (text, *map(str, answers))
    )
    return float(any(answer in said for answer in wanted))


def _page(row: Row, text: str, answers: list[object]) -> RuleResult:
    """Average BLEU, METEOR, the F score of words and the edit similarity."""
    if not text:
        return RuleResult(text, 0.0)
    wanted = str(answers[0])
    if not wanted:
        return RuleResult(text, None)
    scores, needs = word_scores(text, wanted)
    if needs:
        return RuleResult(text, None, facts={"needs": needs})
    return RuleResult(text, sum(scores[name] for name in ("bleu", "meteor", "f_measure", "near")) / 4)


def _extracted(row: Row, text: str, answers: list[object]) -> float | RuleResult:
    if "简答" in as_text(row["question"]):
        return _page(row, text, answers)
    return float(any(joint.join(str(answers[0])) in text for joint in _JOINTS))


def _table(row: Row, text: str, answers: list[object]) -> float:
    """Compare the first HTML table of a text, or tables in Markdown, whose second line is the ruler."""
    question, target = as_text(row["question"]).lower(), str(answers[0])
    if "html" in question or as_text(row["category"]).endswith(" cn"):
        flat, wanted = text.replace("\n", ""), target.replace("\n", "")
        start = flat.find("<body") if "<body" in flat else flat.find("<table")
        wanted = wanted if "<table" in wanted else f"<table>{wanted}"
        return table_similarity(flat[start:], wanted) if start >= 0 else 0.0
    if "markdown" not in question:
        raise ValueError(f"the question of index {row['index']} names neither HTML nor Markdown")
    tables = []
    for part in (text, target):
        first, *rest = part.strip("`markdown").strip("`").strip().split("\n")
        rows = [line.strip().split("|")[1:-1] for line in (first, *rest[1:])]
        tables.append([[cell.strip() if cell.strip(" ") or not cell else " " for cell in row] for row in rows])
    return table_similarity(*map(_rows_to_html, tables))


def _rows_to_html(rows: Sequence[Sequence[str]]) -> str:
    return "<table>" + "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows) + "</table>"


def _chart(row: Row, text: str, answers: list[object]) -> float:
    """Compare a chart's data, a dict, as a table of keys and values."""
    fences = _FENCE.findall(text)
    body = re.sub(r"^\s*\w+\s*=\s*", "", max(fences, key=len) if fences else text.strip(), count=1)
    body = re.sub(r"#.*", "", body)
    said = read_literal(body[: body.rfind("}") + 1] if "}" in body else body)
    if not isinstance(said, dict) or not said:
        return 0.0
    tables = ([(str(key), " ".join(str(value))) for key, value in d.items()] for d in (said, _as_dict(answers[0])))
    return table_similarity(*map(_rows_to_html, tables))


def read_fields(text: str) -> dict[str, str]:
    """Return the fields of a JSON object, a Python dict, or lines like ``key: value``."""
    fence = _FENCE.search(text)
    body = fence[1] if fence else text.strip()
    value = read_literal(body)
    if value is None:  # pairs from left to right; a run of words without a separator after it is skipped
        pairs, place = dict[str, str](), 0
        while place < len(body):
            found = _PAIR.match(body, place)
            if found:
                pairs[found[1]] = found[2]
            run = _RUN.match(body, place)
            place = found.end() if found else max(place + 1, run.end() if run else 0)
        value = pairs
    return {str(key).strip(): str(part).strip() for key, part in value.items()} if isinstance(value, dict) else {}


def _fields(row: Row, text: str, answers: list[object]) -> float:
    """Return the share of right fields among those expected or given; a field may have several values."""
    wanted, said, hits = _as_dict(answers[0]), read_fields(text), list[bool]()

    def flat(value: object) -> str:
        return str(value).lower().strip().replace("\n", " ").replace(" ", "")

    for key in {*said, *wanted}:
        values = wanted.get(key)
        right = {flat(value) for value in (values if isinstance(values, list) else [values]) if value is not None}
        if key in said or right:
            hits.append(key in said and flat(said[key]) in right)
    return sum(hits) / len(hits) if hits else 0.0


def _as_dict(value: object) -> dict[str, object]:
    """Return a dict, or the one that a text contains, possibly within quotes."""
    for _ in range(2):
        value = read_literal(value.strip('"')) if isinstance(value, str) else value
    if isinstance(value, dict):
        return value
    raise ValueError("an answer is not a dict")


def _located(row: Row, text: str, answers: list[object]) -> float:
    """Average the answer's score and the IoU of its box."""
    said = read_fields(text)
    right = _phrased(said["answer"], answers) if "answer" in said else 0.0
    return (right + _box_overlap(read_literal(said.get("bbox", "")), read_literal(as_text(row["bbox"])))) / 2


def _grounded(row: Row, text: str, answers: list[object]) -> float:
    """Return the IoU of the last box in a text; coordinates range up to 1000."""
    boxes = [[int(side[:12]) for side in sides] for sides in _COORDINATES.findall(text)]
    fitting = [box for box in boxes if max(box) <= 1000]
    return _box_overlap(fitting[-1], answers) if fitting else 0.0


def _box_overlap(*boxes: object) -> float:
    """Return the IoU of two boxes of integer parts, which may be quoted; 0 if one is not a box."""
    found = []
    for box in boxes:
        sides = box if isinstance(box, list | tuple) else []
        read = numbers([float(side) if isinstance(side, str) and side.isdigit() else side for side in sides])
        found.append([float(int(side)) for side in read if abs(side) < 1e9])
    return overlap(*found) if all(len(sides) == 4 for sides in found) else 0.0


def _spotted(row: Row, text: str, answers: list[object]) -> float:
    """Return the F score of words with boxes: a word must match, and its box must have an IoU above one half."""
    said = [(box, word) for box, word in _spots(text) if box[0] < box[2] and box[1] < box[3]]
    boxes, words = read_literal(as_text(row["bbox"])), read_literal(as_text(row["content"]))
    pairs = list(zip(boxes, words, strict=False)) if isinstance(boxes, list) and isinstance(words, list) else []
    if not pairs:
        raise ValueError(f"index {row['index']} has no boxes with words")
    wanted = [((min(box[::2]), min(box[1::2]), max(box[::2]), max(box[1::2])), str(word)) for box, word in pairs]
    ignored = [box for box, word in wanted if word == _ANY]
    wanted = [(box, word) for box, word in wanted if word != _ANY]
    said = [(box, word) for box, word in said if not any(_inside(box, other) > 0.5 for other in ignored)]
    free, right = list(said), 0
    for box, word in wanted:
        match = next((spot for spot in free if overlap(box, spot[0]) > 0.5), None)
        if match:
            free.remove(match)
            starts = [word, word[1:]] if word[:1] in _EDGES else [word]
            forms = {form for start in starts for form in (start, start[:-1] if start[-1:] in _EDGES else start)}
            right += match[1].upper() in {form.upper() for form in forms}
    return 2 * right / (len(wanted) + len(said)) if right else 0.0


def _inside(box: Box, other: Box) -> float:
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    return max(width, 0) * max(height, 0) / ((box[2] - box[0]) * (box[3] - box[1]))


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


_ANSWERED = (
    "APP agent en", "ASCII art classification en", "math QA en", "reasoning VQA en", "science QA en",
    "text recognition en", "document classification en", "cognition VQA en", "diagram QA en", "cognition VQA cn",
    "reasoning VQA cn",
)  # fmt: skip
_EXTRACTIONS = ("key information extraction en", "key information mapping en", "key information extraction cn")
_PAGES = ("text translation cn", "fine-grained text recognition en", "full-page OCR en", "full-page OCR cn")
_TASKS: dict[str, Callable[[Row, str, list[object]], float | RuleResult]] = {
    **dict.fromkeys(_ANSWERED, _answered),
    **dict.fromkeys(_EXTRACTIONS, _fields),
    **dict.fromkeys(_PAGES, _page),
    **dict.fromkeys(("formula recognition cn", "formula recognition en"), _formula),
    **dict.fromkeys(("table parsing en", "table parsing cn"), _table),
    **dict.fromkeys(
        ("document parsing en", "document parsing cn"),
        lambda _, text, answers: outline_similarity(text, str(answers[0])),
    ),
    "handwritten answer extraction cn": _extracted,
    "text counting en": _counted,
    "chart parsing en": _chart,
    "VQA with position en": _located,
    "text grounding en": _grounded,
    "text spotting en": _spotted,
}
