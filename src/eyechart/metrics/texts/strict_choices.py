r"""Reading the chosen option by rules that prefer no answer over a guess (the extractor named `strict`).

What counts, in order: a refusal; the last `\boxed{}`; an answer that is nothing but a letter; the last
sentence that commits to a letter, or to exactly an option's text; a single "B. ..." label at the start of a
line; an option's exact words. A letter inside a word, a quoted article ("the answer is a dog"), a denied
letter ("not B") and a choice between two letters decide nothing. Full-width letters and punctuation count
as their plain forms.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping

from eyechart.metrics.cells import as_text, is_missing
from eyechart.metrics.texts.choices import FAILED, NO_OPTION, REFUSALS, UNDECIDED, Extraction, clean_options

# Quotation marks and East Asian stops that NFKC leaves as they are.
_TYPOGRAPHY = str.maketrans("\u2018\u2019\u201c\u201d\u3002\u3001\u300c\u300d", '\'\'"".,""')
_BOXED = re.compile(r"\\boxed\s{0,9}\{([^{}]*(?:\{[^{}]*\}[^{}]*)?)\}")
_LATEX_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\s{0,9}\{([^{}]*)\}")
_BARE = re.compile(r"[\W_]*([A-Za-z])[\W_]*")
_LABEL = re.compile(r"^[ \t*#>(\[]{0,9}([A-Z])(?:[.):\]]|\*\*)(?=\s|$|\*|\w)", re.MULTILINE)

# A capital letter standing alone, or a small one that cannot be an article because nothing follows it.
_LETTER = r"[\"'(\[{*_\s:$]{0,9}(?:([A-Z])(?![A-Za-z0-9])|([a-z])(?=[\"')\]}*_.!,;\s]{0,9}(?:\n|$)))"
_COMMITMENTS = re.compile(
    r"(?:\b(?:[Aa]nswer|ANSWER|[Cc]hoice|[Oo]ption|[Ss]olution)\s{0,9}(?:is|was|would\s{1,9}be|must\s{1,9}be|:|=)"
    r"|\b[Ii]s\s{1,9}(?:therefore\s{1,9})?[Oo]ption"
    r"|\b(?:I|We|we)\s{1,9}(?:choose|chose|pick|select|would\s{1,9}choose|go\s{1,9}with)(?:\s{1,9}[Oo]ption)?"
    r"|(?:答案|选项|选择|选)\s{0,9}(?:是|为|:|应该是|应为)?)" + _LETTER
)
_VERDICT = re.compile(r"(?<![A-Za-z0-9])([A-Z])[)\]*.\"']{0,4}\s{1,9}is\s{1,9}(?:the\s{1,9})?(?:correct|right)\b")
_ALTERNATIVE = re.compile(
    r"[)\]*\"']{0,4}\s{0,9}(?:\b(?:or|and)\b|/|,|&|或|和)\s{0,9}[(\[*\"']{0,4}[A-Z](?![A-Za-z0-9])"
)
_DENIAL = re.compile(
    r"\b(?:not|no|never|neither|nor|without|isn't|aren't|wasn't|doesn't|don't|cannot|can't)\b", re.IGNORECASE
)

_STATED = re.compile(r"(?:\b[Aa]nswer\s{0,9}(?:is|:)|答案\s{0,9}(?:是|为|:))")

Options = Mapping[str, str]


def extract_strict(answer: object, choices: Mapping[str, object]) -> Extraction:
    """Read the chosen option by this module's rules, naming the one that decided."""
    if is_missing(answer):
        return Extraction(None, "missing")
    text = unicodedata.normalize("NFKC", as_text(answer)).translate(_TYPOGRAPHY)
    text = text.rpartition("</think>")[2].strip()
    if FAILED in text:
        return Extraction(None, "failed")
    options = clean_options(choices)
    for rule, read in _RULES.items():
        choice = read(text, options)
        if choice is not None:
            return Extraction(choice, rule)
    return UNDECIDED


def _refusal(text: str, _options: Options) -> str | None:
    return NO_OPTION if any(phrase in text for phrase in REFUSALS) else None


def _boxed(text: str, options: Options) -> str | None:
    boxes = _BOXED.findall(text)
    if not boxes:
        return None
    inner = _LATEX_TEXT.sub(r"\1", boxes[-1])
    return _bare(inner, options) or _exact_words(inner, options)


def _bare(text: str, options: Options) -> str | None:
    letter = _BARE.fullmatch(text)
    return _known(letter[1], options) if letter else None


def _commitment(text: str, options: Options) -> str | None:
    found = sorted([*_COMMITMENTS.finditer(text), *_VERDICT.finditer(text)], key=lambda match: match.end())
    if not found or _ALTERNATIVE.match(text, found[-1].end()):
        return None
    return _known(found[-1][found[-1].lastindex or 0], options)


def _statement(text: str, options: Options) -> str | None:
    """Accept "the answer is dog" when the rest of that line is exactly an option."""
    stated = [match.end() for match in _STATED.finditer(text)]
    return _exact_words(text[stated[-1] :].strip().partition("\n")[0], options) if stated else None


def _label(text: str, options: Options) -> str | None:
    """Accept "B. dog" when it is the only labelled line: several would be the options repeated."""
    labels = set(_LABEL.findall(text))
    return _known(labels.pop(), options) if len(labels) == 1 else None


def _words(text: str, options: Options) -> str | None:
    """Accept the one option whose words occur, whole and not denied; a longer option hides one inside it."""
    exact = _exact_words(text, options)
    if exact or len(text) > 2 * sum(map(len, options.values())) or _DENIAL.search(_outside(text, options)):
        return exact
    rest, found = text.casefold(), []
    for letter, option in sorted(options.items(), key=lambda item: -len(item[1])):
        words = option.casefold().strip()
        if words and words.isascii():
            rest, count = re.subn(rf"(?<!\w){re.escape(words)}(?!\w)", "\0", rest)
            found += [letter] * bool(count)
    return found[0] if len(found) == 1 else None


def _outside(text: str, options: Options) -> str:
    """Return the text without the options' own words, which may hold a "no" of their own."""
    rest = text.casefold()
    for option in sorted(options.values(), key=len, reverse=True):
        rest = rest.replace(option.casefold().strip() or "\0", " ")
    return rest


def _exact_words(text: str, options: Options) -> str | None:
    bare = _plain(text)
    same = [letter for letter, option in options.items() if _plain(option) == bare]
    return same[0] if bare and len(same) == 1 else None


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(" .,!*\"'`:;")


def _known(letter: str, options: Options) -> str | None:
    upper = letter.upper()
    return upper if upper in options or upper == NO_OPTION else None


_RULES: dict[str, Callable[[str, Options], str | None]] = {
    "refusal": _refusal,
    "boxed": _boxed,
    "bare": _bare,
    "commitment": _commitment,
    "statement": _statement,
    "label": _label,
    "text": _words,
}
