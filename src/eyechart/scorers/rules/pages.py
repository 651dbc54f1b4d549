"""Answers about long documents and pages: LongDocURL and related benchmarks, FoxBench."""

import re
import string
from collections import Counter
from math import isclose

from eyechart.metrics.answers import likeness
from eyechart.metrics.captions import common_length
from eyechart.metrics.cell_values import Row, as_text, finite_number, numbers, read_literal, text_list
from eyechart.metrics.long_texts import rouge_l, word_scores
from eyechart.scorers.rule import RuleResult

_UNITS = ("kg", "mm", "meters", "minutes", "miles", "mile", "acres", "million", "thousand", "billion", "m")
_EXACT = re.compile(
    r".*https://.*|.*\.py|.*ipynb|page.*|\d+(?:-\d+|\s\d+)?|.*[ap]\.m\..*|\d{4}[-\s]\d{2}(?:[-\s]\d{2})?|"
    r"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}",
    re.DOTALL,
)


def page_answer(row: Row, text: str, *, lists: str = "greedy", units: bool = True) -> RuleResult:
    """Compare by the row's ``answer_format``: Integer, Float, String or None, else a list.

    ``lists``: each right item is matched with its best counterpart (``greedy``), or items are sorted and the worst pair
    counts.
    """
    kind, target = as_text(row.get("answer_format")), as_text(row["answer"])
    said, wanted = _clean(text, units=units), _clean(target, units=units)
    found, right = finite_number(said), finite_number(wanted)
    if kind in {"Integer", "Int"}:
        same = found == right if None not in (found, right) else said == wanted
        return RuleResult(text, float(bool(said) and same))
    if kind == "Float":
        near = (
            found is not None
            and right is not None
            and any(isclose(value, found, rel_tol=0.01) for value in (right / 100, right, right * 100))
        )
        return RuleResult(text, float(near))
    if kind in {"String", "Str", "None"}:
        return RuleResult(text, float(said == wanted) if _EXACT.fullmatch(wanted) else _likeness(said, wanted))
    items = []
    for part in (text, target):
        value = read_literal(part) if part.strip().startswith("[") else part
        listed = value if isinstance(value, list) else [part]
        texts = ["-".join(map(str, item.values())) if isinstance(item, dict) else str(item) for item in listed]
        items.append([_clean(item, units=units) for item in texts])
    return RuleResult(text, _compare_lists(*items, greedy=lists == "greedy"))


def _clean(text: str, *, units: bool) -> str:
    plain = text.lower().strip()
    if units:
        plain = plain.replace(",", "")
        unit = next((unit for unit in _UNITS if plain.endswith(unit)), "")
        plain = plain.removesuffix(unit).strip()
    plain = re.sub(r"\s*\([^)]*\)", "", plain).strip()
    plain = re.sub(r"^['\"]|['\"]$", "", plain).strip()
    return plain.lstrip("$\u00a3").strip().rstrip("%").strip()


def _likeness(said: str, wanted: str) -> float:
    near = likeness(said, wanted)
    return near if near > 0.5 else 0.0


def _compare_lists(said: list[str], wanted: list[str], *, greedy: bool) -> float:
    if not said or not wanted or (not greedy and len(said) != len(wanted)):
        return 0.0
    exact = finite_number(wanted[0]) is not None or _EXACT.fullmatch(wanted[0])
    if not greedy:
        said, wanted = sorted(said), sorted(wanted)
    if exact:
        return float(said == wanted)
    if not greedy:
        return min(map(_likeness, said, wanted))
    best = [max(_likeness(found, target) for found in said) for target in wanted]
    return float(sum(best) / len(wanted) * min(1.0, len(wanted) / len(said)) ** 0.5)


def page_text(row: Row, text: str) -> RuleResult:
    """Compare texts by ANLS, equality and common words; a missing answer is "Not answerable" (DUDE, SlideVQA)."""
    wanted = (as_text(row.get("answer")) or "Not answerable").replace("\n", "").lower()
    said = text.lower()
    left, right = (Counter(_plain(part).split()) for part in (said, wanted))
    shared = (left & right).total()
    words = 2 * shared / (left.total() + right.total()) if shared else 0.0
    return RuleResult(text, _likeness(said, wanted), {"same": float(said.strip() == wanted.strip()), "words": words})


def _plain(text: str, *, marks: bool = False) -> str:
    low = text.lower() if marks else "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", low).split())


def long_context(row: Row, text: str) -> RuleResult:
    """Compare by ``task`` and ``source_dataset``; the better of the text and its stated answer (MMLongBench)."""
    task, source = as_text(row["task"]), as_text(row.get("source_dataset"))
    prefix = {"summ": "Summary:", "ICL": "label:"}.get(task, "Answer:")
    if task == "NIAH" and source.startswith("vh_"):
        said = re.findall(r"\b(?:yes|no)\b", _plain(text, marks=True))
        target = as_text(row["answer"])
        wanted = {"yes": "yes", "no": "no", "1": "yes", "0": "no"}.get(target.strip().lower(), target)
        return RuleResult(text, float(bool(said) and said[-1] == wanted))
    needle = _counts if "counting" in source else _letter if "image" in source else _holds
    rule = {"vrag": _holds, "ICL": _label, "summ": _summary}.get(task, needle)
    stated = re.search(f"{prefix}(.*)", text, re.IGNORECASE | re.DOTALL)
    parts = [text, re.sub(f"^{prefix}", "", stated[1].strip(), flags=re.IGNORECASE).strip()] if stated else [text]
    extra = read_literal(as_text(row.get("extra_info")))
    answer = extra.get("answer", row["answer"]) if isinstance(extra, dict) else row["answer"]
    return RuleResult(parts[-1], max(rule(part, answer) for part in parts) if text.strip() else 0.0)


def _holds(text: str, answer: object) -> float:
    return float(any(bool(_plain(target)) and _plain(target) in _plain(text) for target in text_list(answer)))


def _counts(text: str, answer: object) -> float:
    wanted = numbers(answer if isinstance(answer, list) else read_literal(as_text(answer)))
    lists = re.findall(r"\[[\d\s,]+\]", text)
    said = numbers(read_literal(lists[-1])) if lists else [float(n[:12]) for n in re.findall(r"\d+", text)]
    return float(bool(wanted) and bool(said) and sum(said) == sum(wanted))


def _letter(text: str, answer: object) -> float:
    flat = " ".join(text.split())
    found = re.search(r"answer is \(?([A-J])\)?", flat) or re.search(r"[aA]nswer:\s*([A-J])", flat)
    said = found[1] if found else next(reversed(re.findall(r"\b[A-J]\b", flat)), "")
    return float(bool(said) and str("ABCDEFGHIJ".index(said)) == as_text(answer).strip().removesuffix(".0"))


def _label(text: str, answer: object) -> float:
    found = re.search(r"label:\s*(\d+)", text, re.IGNORECASE)
    said = found[1] if found else next(reversed(re.findall(r"\b\d+\b", text)), "")
    return float(isinstance(answer, int) and bool(said) and int(said[:12]) == answer)


def _summary(text: str, answer: object) -> float:
    """Return ROUGE-L of words, without stemming."""
    said, wanted = (re.findall(r"[a-z0-9]+", part.lower())[:4000] for part in (text, as_text(answer)))
    shared = common_length(said, wanted)
    return 2 * shared / (len(said) + len(wanted)) if shared else 0.0


_KINDS = {
    "which page's box contains more characters": "qa",
    "what is this in the box": "qa",
    "summarize": "summary",
    "translate": "translation",
}
"""Maps the last line of a question to its kind of task; the default is reading."""


def page_task(row: Row, text: str) -> RuleResult:
    """Compare by the kind of question: literally, by ROUGE-L, or word by word (the score is that of characters)."""
    lines = [line.strip() for line in as_text(row["question"]).split("\n") if line.strip()]
    asked, target = (lines[-1] if lines else "").lower(), as_text(row["answer"])
    kind = next((kind for words, kind in _KINDS.items() if words in asked), "ocr")
    if kind == "qa":
        grades, needs = {"accuracy": float(text == target)}, ""
    elif kind == "summary":
        grades, needs = rouge_l(text, target), ""
    else:
        grades, needs = word_scores(text, target)
    score = grades[{"qa": "accuracy", "summary": "rouge_l_f"}.get(kind, "near")]
    return RuleResult(text, score, grades, {"kind": kind, "needs": needs})
