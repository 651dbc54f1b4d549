# ruff: noqa: RUF001 - signs that look alike are what this file is about
"""From what a model writes to a plain expression: the box, LaTeX's dress and signs of other alphabets go."""

import re
import unicodedata

MAX_LENGTH = 400
"""Longer texts are no answers."""
DEGREE, UNIT = "°", "¤"

_SIGNS = str.maketrans(
    {
        "×": r"\times ", "÷": r"\div ", "−": "-", "–": "-", "·": r"\cdot ", "π": r"\pi ", "√": r"\sqrt ",
        "∞": r"\infty ", "≤": r"\leq ", "≥": r"\geq ", "≠": r"\neq ",
        "±": r"\pm ", "∪": r"\cup ", "∶": ":", "，": ",", "；": ";",
        "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ",
        "′": "'", "。": ".", "⁄": "/", "∅": r"\emptyset ",
    }
)  # fmt: skip
_SMALL = re.compile(r"(?P<up>[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+)|(?P<down>[₀₁₂₃₄₅₆₇₈₉]+)|(?P<part>[¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞])")
"""Raised and lowered digits and fractions of one sign: as plain digits, 10⁴ were 104 and 2½ were 21/2."""
_TEXT = r"\\(?:text|mathrm|mbox|textbf|textit|textrm|mathbf|mathit|mathsf|operatorname|rm|bf)\s*\{([^{}]*)\}"
_UNIT_AFTER_NUMBER = re.compile(r"(?:(?<=[\d})])|(?<=\\pi))(?:\\[,;: ]|~|\s)*" + _TEXT + r"(?:\^\{?[23]\}?)?")
_TEXTS = re.compile(_TEXT)
_DRESS = re.compile(
    r"\\(?:left|right|bigl|bigr|big|Big|displaystyle|textstyle|limits)(?![a-zA-Z])"
    r"|(?<!\\)\\[,;:! ]|\\\(|\\\)|\\\[|\\\]|\\?\$|~"
)
_DEGREES = re.compile(r"(?<=\d)\s*degrees?(?![a-zA-Z])|\^\s*\{?\s*\\circ\s*\}?|\\degree(?![a-z])|\\circ(?![a-z])|°")
_UNITS = re.compile(
    r"(?:square|cubic|sq)?\s*(?:[cmkdµn]?m|k?g|mg|k?[jwn]|hz|pa|[vas]|ft|inch(?:es)?|in|miles?|yards?|seconds?|sec|"
    r"minutes?|min|hours?|hrs?|h|days?|weeks?|months?|years?|units?|dollars?|cents?|meters?|metres?|feet|grams?|"
    r"li?t(?:er|re)s?|degrees?|km/h|m/s|mph)\.?"
)
_MEMBER = re.compile(r"^[a-z]\s*\\in(?![a-z])\s*")
_TIMES_TEN = re.compile(r"(?<=\d)\s*x\s*(?=10\s*\^)")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


def boxed(text: str) -> list[str]:
    r"""Return the contents of each whole ``\boxed{...}``, in order."""
    found = []
    for start in _BOX.finditer(text):
        depth = 1
        for end in range(start.end(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if not depth:
                found.append(text[start.end() : end])
                break
    return found


def plain_expression(text: str) -> str:
    r"""Return the last box or the whole text, lower-cased and without LaTeX's dress.

    Degrees become ``°``. A unit is dropped (marked ``¤``) where it is set as text, ``5\text{ cm}``: there it is no
    product of variables, as 5 cm might be.
    """
    inside = boxed(text)
    plain = _SMALL.sub(_full_size, inside[-1] if inside else text).translate(_SIGNS).replace("{,}", ",")
    plain = unicodedata.normalize("NFKC", _DEGREES.sub(DEGREE, plain)).lower()
    plain = _UNIT_AFTER_NUMBER.sub(_unit, plain)
    plain = _TIMES_TEN.sub(r"\\times ", plain)
    plain = _DRESS.sub(" ", _TEXTS.sub(r" \1 ", plain))
    plain = _MEMBER.sub("", " ".join(plain.split()).replace(r"\varnothing", r"\emptyset"))
    return plain.rstrip(".") if not plain.endswith("...") else plain


def _full_size(found: re.Match[str]) -> str:
    plain = unicodedata.normalize("NFKC", found[0])
    if found["part"]:
        return r"\frac{{{}}}{{{}}}".format(*plain.split("⁄"))
    return ("^" if found["up"] else "_") + "{" + plain.replace("−", "-") + "}"


def _unit(found: re.Match[str]) -> str:
    return UNIT + found[1].strip() + UNIT if _UNITS.fullmatch(found[1].strip()) else found[0]


def without_units(plain: str) -> tuple[str, str]:
    """Return an expression without its marked units, and what these were."""
    parts = plain.split(UNIT)
    return "".join(parts[::2]).strip(), " ".join(parts[1::2])
