"""Answers that are a word, a phrase, a count or a letter; answers about tables, documents and charts."""

import re

from eyechart.metrics.answers import likeness, open_score, same_amount, same_statement, same_values, vqa_normalize
from eyechart.metrics.cell_values import SMALL, Row, as_text, finite_number, read_literal, text_list
from eyechart.scorers.rule import CUT, FAILED, UNDECIDED, BoundRule, RuleResult, rule

OCRBENCH_FORMULAS = "Handwritten Mathematical Expression Recognition"
_BRACES = re.compile(r"\{(.*?)\}")
_COUNT_WORDS = (*SMALL, "twenty")
_COUNT = re.compile(r"\b(?:[0-9]|1[0-9]|20|" + "|".join(_COUNT_WORDS) + r")\b")


def metric(row: Row, text: str, *, by: str, column: str = "answer") -> RuleResult:
    """Score by a metric of open questions; an empty answer is wrong."""
    return RuleResult(text, open_score(text, row.get(column), by) if text.strip() else 0.0)


def contains(row: Row, text: str, *, column: str = "answer", braces: bool = False, case: bool = False) -> RuleResult:
    """Search the text, or its last braces, for the answer."""
    if braces:
        text = next(reversed(_BRACES.findall(text)), "")
    answer = as_text(row[column]).strip()
    said, wanted = (text, answer) if case else (text.lower(), answer.lower())
    return RuleResult(text, float(bool(wanted) and wanted in said))


def equals(row: Row, text: str) -> RuleResult:
    """Compare ignoring case and surrounding space."""
    said = text.strip()
    return RuleResult(said, float(bool(said) and said.lower() == as_text(row["answer"]).strip().lower()))


def marked(row: Row, text: str, *, pattern: str, form: str) -> RuleResult:
    """Compare the first match of a pattern, rewritten in a format; without a match, search for the answer."""
    found = re.search(pattern, text.lower())
    wanted = as_text(row["answer"]).strip().lower()
    if found:
        said = form.format(*found.groups())
        return RuleResult(said, float(said == wanted))
    return RuleResult(text, float(bool(text) and wanted in text.lower()))


def count(row: Row, text: str) -> RuleResult:
    """Compare the first number from 0 to 20 in the text, in digits or in words."""
    found = _COUNT.search(text.lower())
    if not found:
        return RuleResult(None, 0.0)
    value = int(found[0]) if found[0].isdigit() else _COUNT_WORDS.index(found[0])
    return RuleResult(str(value), float(value == float(as_text(row["answer"]))))


def lettered(row: Row, text: str) -> RuleResult:
    """Compare with an answer like "A. cat": a leading capital decides, other texts must contain the words (CRPE).

    A text with neither is unreadable ("Option C"), also if the answer is a letter without words.
    """
    answer = as_text(row["answer"])
    if len(text) == 1 or text[:1] in {"A", "B", "C", "D"}:
        return RuleResult(text[0], float(text[0] == answer[0]))
    words = answer[3:].lower()
    return RuleResult(text, 1.0) if words and words in text.lower() else RuleResult(None, 0.0)


_TEMPLATES = (
    r"^(yes|no|\w)[,.; \n*]+",
    r"[\n*{]+(yes|no|\w)[,.; \n*}]+",
    r"(yes|no|\w) is the correct answer",
    *(
        rf"{words}[:;*\n ]*(yes|no|\w)"
        for words in ("answer is", "answer", "choice is", "choice", "option is", "Assistant")
    ),
)


def stated(row: Row, text: str) -> RuleResult:
    """Extract a letter, or yes or no if the row's ``question_type`` is YORN, from the usual phrases."""
    options = {"YES", "NO"} if as_text(row.get("question_type")) == "YORN" else {*"ABCDEF"}
    said = text.strip()
    if len(said.split()) >= 2:
        found = [match[1].upper() for pattern in _TEMPLATES if (match := re.search(pattern, said, re.IGNORECASE))]
    else:
        found = [re.split(r"[,. :;\n]", said)[0].upper()]
    read = next((option for option in found if option in options), None)
    return RuleResult(read, float(read is not None and read == as_text(row["answer"]).strip().upper()))


def biased(row: Row, text: str) -> RuleResult:
    """Compare with the truth (``ground_truth``) and with the answer a biased model expects (``expected_bias``)."""
    cells = (text, row["ground_truth"], row["expected_bias"])
    said, *others = (as_text(cell).strip().lower().strip("{}").strip() for cell in cells)
    right, bias = (bool(said) and said == other for other in others)
    if not right and not bias:
        digits, *known = ("".join(filter(str.isdigit, part)) for part in (said, *others))
        right, bias = (bool(digits) and digits == other for other in known)
    return RuleResult(said, float(right), facts={"bias": float(bias)})


def niah(row: Row, text: str) -> RuleResult:
    """Compare an option's letter with its number (0 is A), if the category has options; else search for the words."""
    if as_text(row["category"]) in {"visual-reasoning", "find-image"}:
        bare = text.strip(".")
        said = bare if bare.isdigit() else re.sub(r"the answer is|\*", "", bare.lower()).split(".")[0].strip()
        number = int(said[:9]) if bare.isdigit() else ord(said) - ord("a") if len(said) == 1 else None
        return RuleResult(said, float(number is not None and number == int(float(as_text(row["answer"])))))
    said = vqa_normalize(text.strip("."))
    wanted = vqa_normalize(as_text(row["answer"]))
    return RuleResult(said, float(bool(wanted) and re.search(rf"\b{re.escape(wanted)}\b", said) is not None))


def table_answer(row: Row, text: str) -> RuleResult:
    """Compare an answer about a table, by the rule of its part of TableVQABench."""
    said, target = text.removeprefix("Answer: "), as_text(row["answer"])
    kind = as_text(row["split"])
    if kind == "fintabnetqa":
        relaxed, exact = same_amount(said, target)
        return RuleResult(said, float(relaxed), {"exact": float(exact)})
    if kind == "vtabfact":
        return RuleResult(said, float(same_statement(said, target)))
    if kind in {"vwtq", "vwtq_syn"}:
        return RuleResult(said, float(same_values(said, target)))
    raise ValueError(f"{kind!r} is not a part of TableVQABench")


def photographed(row: Row, text: str) -> RuleResult:
    """Compare an answer of WildDoc by the benchmark its index names; ``task`` and ``page`` go to the table."""
    task, part, _, page = [*as_text(row["index"]).split("-"), "", "", ""][:4]
    facts = {"task": task, "part": part, "page": page}
    if task == "TableVQA":
        read = table_answer({**row, "split": part}, text)
    elif task in {"DocVQA", "ChartQA"}:
        read = metric(row, text, by={"DocVQA": "anls", "ChartQA": "relaxed_accuracy"}[task])
    else:
        raise ValueError(f"{task!r} is not a part of WildDoc")
    return RuleResult(read.extracted, read.score, facts=facts)


def chart_answer(row: Row, text: str) -> RuleResult:
    """Compare as ChartQAPro does: item by item; years and similar exactly, numbers within 5 %, texts by ANLS."""
    target = next(reversed(text_list(row["answer"])), "").strip(".").strip("\n")
    said = text.strip(".").strip("\n")
    flags = text_list(row.get("year"))
    if as_text(row.get("question_type")) == "Conversational":
        flags = flags[-1:]
    bare = re.fullmatch(r"\[([^'\"]*)\]", target.strip())  # a list without quotes: [A, B]
    quoted = repr([item.strip() for item in bare[1].split(",")]) if bare else target
    wanted, found = _items(quoted) or [target], _items(said) or [said]
    flags = flags * len(wanted) if len(flags) < len(wanted) else flags
    pairs = zip(wanted, found, flags, strict=False)
    scores = [_chart_item(a, b, exact=flag.upper() == "YES") for a, b, flag in pairs]
    return RuleResult(said, sum(scores) / max(len(wanted), len(found)))


def _items(text: str) -> list[str]:
    value = read_literal(text)
    return [str(item).strip(" '") for item in value] if isinstance(value, list) else []


def _chart_item(target: str, said: str, *, exact: bool) -> float:
    if exact:
        return float(target.strip().lower() == said.strip().lower())
    wanted, found = (text.strip().strip("%").strip() for text in (target, said))
    right, number = (finite_number(text.strip("%")) for text in (wanted, found))
    if right is not None and number is not None:
        return float(abs(number - right) / abs(right) <= 0.05 if right else number == 0)
    near = likeness(*(" ".join(text.lower().split()) for text in (wanted, found)))
    return near if near > 0.5 else 0.0


@rule(names=lambda bound: (bound.benchmark.metric,), aggregate="aggregates.means:split_means")
def open_answer(row: Row, text: str, *, metric: str) -> RuleResult:
    """Score an open answer by a metric; an empty one is wrong, even if normalising leaves nothing of the key."""
    if not text.strip():
        return RuleResult(text, 0.0, rule=UNDECIDED)
    return RuleResult(text, open_score(text, row.get("answer"), metric), rule=metric)


@rule(binary=True)
def ocrbench(row: Row, text: str) -> RuleResult:
    """Search the text for one of the answers: formulas ignoring spaces, other text ignoring case (OCRBench)."""
    formula = as_text(row.get("category")) == OCRBENCH_FORMULAS
    said, *wanted = (part.strip().replace("\n", " ") for part in (text, *text_list(row["answer"])))
    said, *wanted = (part.replace(" ", "") if formula else part.lower() for part in (said, *wanted))
    return _search(text, said, *wanted)


@rule(binary=True)
def mtvqa(row: Row, text: str) -> RuleResult:
    """Search the text for the answer, ignoring case and dots (MTVQA)."""
    return _search(text, *(as_text(cell).strip().lower().replace(".", "") for cell in (text, row["answer"])))


def _search(text: str, said: str, *wanted: str) -> RuleResult:
    """Whether the normalised text contains one of the answers; an empty answer is contained in nothing."""
    right = any(answer and answer in said for answer in wanted)
    return RuleResult(text, float(right), rule="contains" if text.strip() else UNDECIDED)


def _assumed_text(bound: BoundRule, row: Row, right: bool) -> RuleResult:
    """The empty text, or the reference: a caption, or all covered texts."""
    wanted = text_list(row.get("answer"))
    return RuleResult((wanted[0] if bound.options.get("one") else " ".join(wanted)) if right else "", None)


@rule(
    assume=_assumed_text,
    columns=lambda result: {
        "prediction": result.extracted,
        "lost": result.rule in (CUT, FAILED) and not result.extracted,
    },
    per_answer=False,
)
def whole_text(row: Row, text: str, *, one: bool = False) -> RuleResult:
    """Keep the text: only the whole set has a score (captions, with ``one`` reference being enough; covered texts)."""
    return RuleResult(text, None, rule="text" if text.strip() else UNDECIDED)
