r"""Equality of mathematical answers, without evaluating code and without a computer algebra system.

Both are parsed as expressions, equations, inequalities, ratios, lists, sets, tuples or intervals of these. Numbers are
compared by value. Expressions with variables are compared by their values at a few fixed points, at which two different
answers do not agree by accident. ``\boxed{42}``, ``45^\circ``, ``\text{B}`` and ``x=5`` equal 42, 45, B and 5; ``50\%``
equals 0.5, and 50 if the target is in per cent. Unparsable answers are compared as text. Length, nesting and sizes are
bounded.
"""

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from eyechart.metrics.cell_values import as_text
from eyechart.metrics.math_expressions import (
    MAX_LENGTH,
    NotANumberError,
    Number,
    Tree,
    has,
    parse,
    plain_expression,
    symbols_of,
    value_of,
    without_units,
)

TOLERANCE = 1e-6
"""How far two numbers may be apart, as in VLMEvalKit's comparison for MathVision; tiny numbers less."""
_RELATIVE = 1e-9
_POINTS = tuple(
    tuple(0.37 + math.modf((i + 1) * (k + 2) * math.sqrt(2 + 3 * k))[0] for i in range(32)) for k in range(4)
)
_NOT_READ = (NotANumberError, OverflowError, ZeroDivisionError, KeyError, ValueError)
_HUNDREDTH = Fraction(1, 100)
_MAX_ITEMS = 12
_WORDS = re.compile(r"[^\W\d_]+(?:[\s'-]+[^\W\d_]+)*")
_SEPARATORS = re.compile(r"[,;]|\\cup(?![a-z])|(?<![a-z\\])(?:or|and)(?![a-z])")
_RELATIONS = {r"\leq": "<=", r"\le": "<=", r"\geq": ">=", r"\ge": ">=", r"\lt": "<", r"\gt": ">"}
_RELATION_NAME = re.compile(r"\\(?:leq|le|geq|ge|lt|gt)(?![a-z])")
_RELATION = re.compile(r"<=|>=|[<>=]")
_NAME = re.compile(r"(?:m?\s*\\angle\s*)?\\?[a-z]+'?(?:_\{?\w+\}?)?(?:\([a-z]\))?")
_LOOSE_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
"""White space without meaning; between digits it has one: 1 1/2."""
_BRACKETS = {("(", ")"), ("[", "]"), ("(", "]"), ("[", ")"), (r"\{", r"\}"), ("{", "}")}


def math_equal(answer: object, target: object) -> bool:
    """Whether two answers are the same text up to case and outer space, or mathematically equal."""
    left, right = as_text(answer).lower().strip(), as_text(target).lower().strip()
    if left == right:
        return True
    if max(len(left), len(right)) > 10 * MAX_LENGTH:
        return False
    (first, unit), (second, other) = (without_units(plain_expression(as_text(text))) for text in (answer, target))
    if not (first and second) or (unit and other and unit != other) or max(len(first), len(second)) > MAX_LENGTH:
        return False
    first, second = (_RELATION_NAME.sub(lambda sign: _RELATIONS[sign[0]], text) for text in (first, second))
    return _same(first, second)


def math_close(answer: object, target: object, tolerance: float) -> bool:
    """Whether two answers are equal, or the same numbers within a tolerance, in any order."""
    if math_equal(answer, target):
        return True
    said, wanted = _amounts(answer), _amounts(target)
    if not wanted or len(said) != len(wanted):
        return False
    return all(abs(a - b) <= tolerance for a, b in zip(said, wanted, strict=True))


def _amounts(text: object) -> list[float]:
    """Return the numbers that a text lists, sorted; an empty list if it holds anything else."""
    plain, _ = without_units(plain_expression(as_text(text)[: 10 * MAX_LENGTH]))
    try:
        return sorted(float(math_value(part).real) for part in (_top_level(plain) or [plain])[:_MAX_ITEMS])
    except _NOT_READ:
        return []


def math_value(text: str) -> Number:
    """Return the value of an expression without variables; `NotANumberError` for any other text."""
    plain, _ = without_units(plain_expression(text))
    name, equals, value = plain.rpartition("=")
    if equals and _NAME.fullmatch(name.strip()):
        plain = value
    try:
        found = value_of(parse(plain), {}, _HUNDREDTH)
    except _NOT_READ as error:
        raise NotANumberError(str(error)) from error
    if isinstance(found, complex):
        raise NotANumberError("a root of a negative number")
    return found


def _same(left: str, right: str, depth: int = 0) -> bool:
    """Compare two plain texts: as words, lists, relations, ratios, then as expressions."""
    left, right = _unwrapped(left), _unwrapped(right)
    if _LOOSE_SPACE.sub("", left) == _LOOSE_SPACE.sub("", right):
        return True
    if depth > 3 or _WORDS.fullmatch(left) or _WORDS.fullmatch(right):
        return False
    ours, theirs = _items(left), _items(right)
    if ours or theirs:
        return ours is not None and theirs is not None and _same_items(ours, theirs, depth)
    if (one := _ratio(left)) and (two := _ratio(right)):  # compared up to a common factor
        return len(one) == len(two) and all(
            _same_expression(f"({a})/({one[0]})", f"({b})/({two[0]})") for a, b in zip(one[1:], two[1:], strict=True)
        )
    if _RELATION.search(left) or _RELATION.search(right):
        return _same_relation(left, right, depth)
    return _same_expression(left, right)


def _unwrapped(text: str) -> str:
    """Drop brackets around a single item: (b) is b."""
    text = text.strip()
    while len(text) > 2 and text[0] == "(" and text[-1] == ")" and _closes_last(text) and not _top_level(text[1:-1]):
        text = text[1:-1].strip()
    return text


def _closes_last(text: str) -> bool:
    """Whether the first bracket closes at the end of the text."""
    depths = list(accumulate((letter in "([{") - (letter in ")]}") for letter in text))
    return 0 in depths and depths.index(0) == len(text) - 1


def _top_level(text: str) -> list[str]:
    """Split at separators outside of brackets; an empty list if there are none."""
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?%?", text.strip()):
        return []
    depth, start, parts = 0, 0, []
    for found in re.finditer(r"[(\[{)\]}]|" + _SEPARATORS.pattern, text):
        if found[0] in "([{":
            depth += 1
        elif found[0] in ")]}":
            depth -= 1
        elif not depth:
            parts.append(text[start : found.start()])
            start = found.end()
    return [*parts, text[start:]] if parts else []


_Items = tuple[tuple[str, str], list[str]]
"""Brackets and several answers: ordered in a tuple, an interval or a ratio, otherwise in any order."""


def _same_items(ours: _Items, theirs: _Items, depth: int) -> bool:
    (brackets, items), (other, left) = ours, theirs
    if brackets != other or len(items) != len(left):
        return False
    if brackets[0] in {"(", "["}:
        return all(_same(a, b, depth + 1) for a, b in zip(items, left, strict=True))
    for item in items:
        match = next((found for found in left if _same(item, found, depth + 1)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _items(text: str) -> _Items | None:
    text = text.strip()
    for opening, closing in _BRACKETS:
        if text.startswith(opening) and text.endswith(closing) and _closes_last(text.replace("\\", "")):
            whole = text[len(opening) : len(text) - len(closing)]
            inside = _top_level(whole)
            if inside or opening in {r"\{", "["}:
                return _bounded(("{", "}") if "{" in opening else (opening, closing), inside or [whole])
    found = _top_level(text)
    if r"\pm" in text and not found:
        found = [text.replace(r"\pm", sign) for sign in "+-"]
    if found:
        return _bounded(("", ""), found)
    # The terms of an inequality such as 1 < x < 3 in ascending order, with its signs as brackets.
    terms, signs = _RELATION.split(text), _RELATION.findall(text)
    if len(signs) < 2 or "=" in signs or len({sign[0] for sign in signs}) > 1:
        return None
    if signs[0][0] == ">":
        terms, signs = terms[::-1], [sign.replace(">", "<") for sign in signs[::-1]]
    return _bounded(("(", " ".join(signs)), terms)


def _bounded(brackets: tuple[str, str], parts: Sequence[str]) -> _Items | None:
    return (brackets, [part.strip() for part in parts]) if len(parts) <= _MAX_ITEMS else None


def _ratio(text: str) -> list[str]:
    """Return the terms of 3:2 or 1:2:3; an empty list for anything else."""
    terms = re.split(r":|\\colon(?![a-z])", text)
    return [term.strip() for term in terms] if 2 <= len(terms) <= _MAX_ITEMS else []


def _same_relation(left: str, right: str, depth: int) -> bool:
    """Compare equations and inequalities; ``x = 5`` equals 5 if the other side has no name."""
    one, two = _sides(left), _sides(right)
    if one is None or two is None:
        named, plain = (one, right) if one else (two, left)
        if named is None or named[1] != "=":
            return False
        for name, value in ((named[0], named[2]), (named[2], named[0])):
            if _NAME.fullmatch(name.strip()):
                return _same(value, plain, depth + 1)
        return False
    if one[1] != two[1]:
        return False
    if one[0].strip() == two[0].strip():
        return _same(one[2], two[2], depth + 1)
    return _proportional(f"({one[0]})-({one[2]})", f"({two[0]})-({two[2]})", positive=one[1] != "=")


def _sides(text: str) -> tuple[str, str, str] | None:
    """Split at the relation, larger side first; of a chain of equations the name and the last value."""
    parts, signs = _RELATION.split(text), _RELATION.findall(text)
    if not signs or (len(signs) > 1 and set(signs) != {"="}):
        return None
    left, right = parts[0], parts[-1]
    return (right, signs[0].replace("<", ">"), left) if signs[0] in {"<", "<="} else (left, signs[0], right)


def _same_expression(left: str, right: str) -> bool:
    """Compare by value, a ratio as a quotient."""
    try:
        one, two = (
            ("/", *map(parse, ratio)) if len(ratio := _ratio(text)) == 2 else parse(text) for text in (left, right)
        )
    except _NOT_READ:
        return False
    if bool(symbols_of(one)) != bool(symbols_of(two)):
        return False
    names = sorted(symbols_of(one) | symbols_of(two))
    # If only one side has a per-cent sign, it may also stand for 1.
    percents = [_HUNDREDTH] if has(one, "percent") == has(two, "percent") else [_HUNDREDTH, Fraction(1)]
    return any(_agree(one, two, names, percent) for percent in percents)


def _agree(one: Tree, two: Tree, names: Sequence[str], percent: Fraction) -> bool:
    try:
        if not names:
            return _close(value_of(one, {}, percent), value_of(two, {}, percent))
        pairs = zip(_samples(one, names, percent), _samples(two, names, percent), strict=True)
    except _NOT_READ:
        return False
    return all(abs(a - b) <= _RELATIVE * max(1e-3, abs(a), abs(b)) for a, b in pairs)


def _proportional(left: str, right: str, *, positive: bool) -> bool:
    """Whether one expression is a constant (positive) multiple of the other."""
    try:
        one, two = parse(left), parse(right)
        names = sorted(symbols_of(one) | symbols_of(two))
        if not symbols_of(one) or not symbols_of(two) or len(names) > len(_POINTS[0]):
            return False
        pairs = zip(_samples(one, names, _HUNDREDTH), _samples(two, names, _HUNDREDTH), strict=True)
        ratios = [a / b for a, b in pairs]
    except _NOT_READ:
        return False
    first = ratios[0]
    steady = all(abs(ratio - first) <= _RELATIVE * max(1.0, abs(first)) for ratio in ratios)
    return steady and abs(first) > TOLERANCE and (not positive or complex(first).real > 0)


def _samples(tree: Tree, names: Sequence[str], percent: Fraction) -> list[complex]:
    return [complex(value_of(tree, dict(zip(names, point, strict=False)), percent)) for point in _POINTS]


def _close(left: Number, right: Number) -> bool:
    """Compare numbers: to 1e-6, tiny ones to 1 % of their value, large floats to nine digits."""
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        gap = abs(left - right)
        return gap == 0 or (gap < TOLERANCE and 100 * gap < max(abs(left), abs(right)))
    one, two = complex(left), complex(right)
    size = max(abs(one), abs(two))
    return abs(one - two) <= max(1e-12, min(TOLERANCE, size / 100), _RELATIVE * size)
