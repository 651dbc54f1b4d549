"""Answers that are a measure, a count, a list or a field, with partial scores for close ones."""

import json
import re
from itertools import combinations

from eyechart.metrics.benchmark_letters import mean_relative_accuracy, spatial_letter, spatial_number
from eyechart.metrics.captions import common_length
from eyechart.metrics.cell_values import (
    SMALL,
    Row,
    as_text,
    finite_number,
    numbers,
    only_number,
    read_literal,
    text_list,
)
from eyechart.metrics.math_expressions import boxed
from eyechart.scorers.rule import RuleResult

_VSI = tuple(1 - (0.5 + 0.05 * i) for i in range(10))
"""Tolerances as OST-Bench computes them: in floating point the largest is 0.5 and the smallest slightly above 0.05."""
_OMNI = (0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05)
_WORDS = {name: i for i, name in enumerate(SMALL[:11])}
_MAX_LENGTH = 400


def near(said: float, wanted: float, tolerances: tuple[float, ...] = _VSI) -> float:
    """Return the share of ten relative tolerances, 50 % to 5 %, that a measure is within."""
    if not wanted:
        return float(said == wanted)
    off = abs(said - wanted) / abs(wanted)
    return sum(off < tolerance for tolerance in tolerances) / len(tolerances)


def observed(row: Row, text: str) -> RuleResult:
    """Compare by the row's ``type``: an option, a measure, or a count (OST-Bench)."""
    kind, target = as_text(row["type"]), as_text(row["answer"])
    said = _field(text)
    if "(float)" in kind:
        number = finite_number(said)
        return RuleResult(said, near(number, float(target)) if number is not None else 0.0)
    if "(option" in kind:
        options, start = text_list(row.get("option")), said.strip().lower()[:_MAX_LENGTH]
        if not options or not said:
            return RuleResult(None, 0.0)
        read = max(options, key=lambda option: common_length(start, option.strip().lower()[:_MAX_LENGTH]))
        return RuleResult(read, float(read == target.replace('"', "")))
    count = next((str(value) for word, value in _WORDS.items() if word in said.lower()), said.strip())
    return RuleResult(said, float(re.fullmatch(r"[-+]?\d{1,12}", count) is not None and int(count) == float(target)))


def _field(text: str) -> str:
    """Return the field "answer" of a JSON object that also has a reason, or the text."""
    if "answer" not in text or "reason" not in text:
        return text
    try:
        found = json.loads(text)
        return str(found["answer"]) if isinstance(found, dict) and "answer" in found else ""
    except (ValueError, RecursionError):
        part = re.search(r"[\"']?answer[\"']?\s*:\s*(.*?)\s*,?\s*(?:[\"']?reason|\n|$)", text)
        return part[1].strip("\"'") if part else ""


_STATED = (
    "the final answer is", "final answer is", "the answer is", "answer is", "the correct answer is",
    "correct answer is", "final answer:", "final:", "answer:", "ans:",
)  # fmt: skip
_YES, _NO = {"yes", "y", "true", "t", "1"}, {"no", "n", "false", "f", "0"}
WEIGHTS = {"easy": 1.0, "middle": 1.5, "hard": 2.0}


def travelled(row: Row, text: str) -> RuleResult:
    """Compare by the row's ``type``: yes or no, a letter, a count or words; harder rows weigh more (ReasonMap-Plus)."""
    kind, target = as_text(row["type"]).lower(), as_text(row["answer"]).strip()
    whole = text.strip()
    inside = boxed(whole) or re.findall(r"boxed\{([^}]*)\}", whole)
    low, part = whole.lower(), whole
    if inside:
        part = " ".join(re.findall(r"\\text\{([^}]*)\}", inside[-1])) or inside[-1]
    elif phrase := next((phrase for phrase in _STATED if phrase in low), ""):
        part = re.split(r"\n|\. |\.$", whole[low.rfind(phrase) + len(phrase) :].strip(), maxsplit=1)[0].strip()
    read = next((found for said in (part, whole) if (found := _typed(kind, said)) is not None), None)
    if "torf" in kind:
        target = "yes" if int(float(target)) == 1 else "no"
    elif kind:
        target = str(int(float(target))) if kind.startswith("counting") else target.lower()
    right = bool(whole) and read is not None and read == target
    return RuleResult(read, float(right), facts={"weight": WEIGHTS[as_text(row["difficulty_city"])]})


def _typed(kind: str, text: str) -> str | None:
    if "torf" in kind:
        said = text.strip().lower()
        return "yes" if said in _YES else "no" if said in _NO else None
    if "counting1" in kind:
        letter = re.search(r"\b([ABCD])\b", text, re.IGNORECASE)
        return str("ABCD".index(letter[1].upper())) if letter else None
    if kind.startswith("counting"):
        number = re.search(r"[-+]?\d{1,12}", text)
        return str(int(number[0])) if number else None
    return text.strip().lower()


def tagged_value(row: Row, text: str) -> RuleResult:
    """Compare the content of <ans> tags by the row's ``answer_type``: int, str or float (Omni3D-Bench).

    A count must be an integer: "3.0" is wrong for 3, as in VLMEvalKit.
    """
    inside = re.search(r"<ans>(.*?)(?:</ans>|$)", text, re.DOTALL)
    said, target = (inside[1] if inside else text), as_text(row["answer"])
    kind, low, number = as_text(row["answer_type"]), said.lower(), finite_number(said)
    if kind == "float":
        part, score = "other", near(number, float(target), _OMNI) if number is not None else 0.0
    elif kind == "int":
        whole = re.fullmatch(r"\s*([-+]?\d{1,18})\s*", said)
        part, score = "count", float(whole is not None and int(whole[1]) == int(float(target)))
    elif target in {"yes", "no"}:
        part, score = "yes_no", float(target in low or {"yes": "true", "no": "false"}[target] in low)
    else:
        part, score = "choice", float(low == target)
    return RuleResult(said, score, facts={"part": part})


def spar(row: Row, text: str) -> RuleResult:
    """Compare by the row's ``task``: a measure, a change of view, or a letter (SPAR-Bench)."""
    task, target = as_text(row["task"]), as_text(row["answer"])
    if task.startswith(("depth_prediction", "distance_prediction")):
        number = spatial_number(text)
        score = mean_relative_accuracy(number, float(target)) if number is not None else 0.0
        return RuleResult(text, score, facts={"metric": "MRA:.5:.95:.05"})
    if task == "view_change_infer":
        said, wanted = _moves(text), _moves(target)
        accuracies = [
            mean_relative_accuracy(said.get(a, 0.0) - said.get(b, 0.0), wanted.get(a, 0.0) - wanted.get(b, 0.0))
            for a, b in _OPPOSITES
        ]
        return RuleResult(text, sum(accuracies) / len(accuracies), facts={"metric": "vci_metric"})
    letter = spatial_letter(text)
    return RuleResult(letter, float(letter == target.strip().upper()), facts={"metric": "accuracy"})


_OPPOSITES = (
    ("move_right", "move_left"), ("move_up", "move_down"), ("move_forward", "move_backward"),
    ("rotate_right", "rotate_left"), ("rotate_up", "rotate_down"),
)  # fmt: skip


def _moves(text: str) -> dict[str, float]:
    parts = (part.partition(":") for part in text.split(","))
    return {name.strip(): value for name, _, number in parts if (value := finite_number(number.strip())) is not None}


def ranking(row: Row, text: str) -> RuleResult:
    """Compare the last list of numbers with the right order: as a whole, and pair by pair (SSI-Bench)."""
    wanted = numbers(read_literal(as_text(row["answer"])))
    lists = [found for part in re.findall(r"\[[^\[\]]{0,400}\]", text) if (found := numbers(read_literal(part)))]
    said = lists[-1] if lists and not re.search(r"\[\s*\[", text) else []
    share = 0.0
    if sorted(wanted) == sorted(said) and len({*said}) == len(said):
        pairs = list(combinations(wanted, 2))
        share = sum(said.index(a) < said.index(b) for a, b in pairs) / len(pairs) if pairs else 1.0
    return RuleResult(str(said) if said else None, float(bool(said) and said == wanted), {"pairs": share})


def steps(row: Row, text: str) -> RuleResult:
    """Read a verdict of 0 or 1 for each step, a yes or no, or two scores, by the row's category (VLRMBench)."""
    kind = as_text(row["category"])
    found = [int(digits[:9]) for digits in re.findall(r"\d+", text)]
    if kind == "multi_solution":
        scores = [*found[-2:], 0, 0][:2] if len(found) < 2 else found[-2:]
        return RuleResult(str(scores), 0.0, facts={"scores": scores})
    if kind == "foresight":
        wanted = r"\b(yes|true)\b" if as_text(row["task_gt"]).lower() in {"true", "1"} else r"\b(no|false)\b"
        return RuleResult(text, float(re.search(wanted, text, re.IGNORECASE) is not None))
    gold = [int(value) for value in numbers(read_literal(as_text(row["answer"])))]
    said = [min(value, 1) for value in found][: len(gold)]
    said += [0] * (len(gold) - len(said))
    right = sum(a == b for a, b in zip(said, gold, strict=True)) / len(gold) if gold else 0.0
    return RuleResult(str(said), right, facts={"said": said, "gold": gold})


_GIVEN = {
    "reality": r"Reality Assessment Score:\s*([\d.]+)",
    "aesthetics": r"Aesthetics Rating:\s*([\d.]+)",
    "consistency": r"Instruction Consistency Rating:\s*([\d.]+)",
}
_SAID = {
    "reality": r"Total Score(?: for Reality Assessment)?:[\s*]*([\d.]+)",
    "aesthetics": r"Aesthetics Rating\D*([\d.]+)",
    "consistency": r"Instruction Consistency Rating\D*([\d.]+)",
}


def ratings(row: Row, text: str) -> RuleResult:
    """Compare three ratings of an image with human ones: half a point off scores 0 (GO-Bench)."""
    wanted, said = _rated(_GIVEN, as_text(row["answer"])), _rated(_SAID, text)
    if not wanted or not said:
        return RuleResult(None, 0.0, dict.fromkeys(_GIVEN, 0.0), {"unread": 1.0})
    near = {name: max(0.0, (0.5 - abs(wanted[name] - said[name])) / 0.5) for name in _GIVEN}
    return RuleResult(str(said), sum(near.values()) / 3, near, {"unread": 0.0})


def _rated(patterns: dict[str, str], text: str) -> dict[str, float]:
    found = {name: match[1] for name, pattern in patterns.items() if (match := re.search(pattern, text, re.IGNORECASE))}
    try:
        return {name: float(number.rstrip(".")) for name, number in found.items()} if len(found) == 3 else {}
    except ValueError:
        return {}


_ANSWER_FIELD = re.compile(r'\{\s*"answer"\s*:\s*(.+?)\s*\}')
_WORD_TASKS = {"CS1", "CS2", "CS3"}
_NUMBER_TASKS = {"CF3": 2, "I3": 1, "MA1": 1, "SS3": 1}


def json_field(row: Row, text: str) -> RuleResult:
    """Compare the last field "answer" by the row's ``category_id``: true or false, words, numbers or a letter."""
    kind, target = as_text(row["category_id"]), as_text(row["answer"])
    fields = _ANSWER_FIELD.findall(text)
    said = fields[-1].strip().strip("\"'") if fields else ""
    if kind in _WORD_TASKS:
        return RuleResult(said, float(bool(said) and said.lower() in [word.lower() for word in target.split(",")]))
    if kind in _NUMBER_TASKS:
        count = _NUMBER_TASKS[kind]
        found = re.findall(r"\d+", said or text)[-count:]
        read = ("" if len(found) < count else found[0] if count == 1 else f"({', '.join(found)})") or None
        return RuleResult(read, float(read == target))
    if kind == "VZ3" and as_text(row.get("additional")).isdigit():
        read = next((letter for letter in reversed(said or text) if letter.isupper()), None)
        return RuleResult(read, float(read == target))
    read = "T" if said.lower() in _YES else "F" if said.lower() in _NO else None
    return RuleResult(read, float(read == target))


_SHAPES = {
    "car": "suv wagon minivan sedan truck addi car",
    "bus": "articulated regular double school bus",
    "motorbike": "chopper dirtbike scooter cruiser motorbike",
    "aeroplane": "jet fighter biplane airliner aeroplane",
    "bicycle": "road utility mountain tandem bicycle",
}
_SHAPE_OF = {name: shape for shape, names in _SHAPES.items() for name in names.split()}
_DIGITS = SMALL[:11]
_NAMED = (r"Answer': '(.*?)'", r'Answer": "(.*?)"', r"Answer': (\d)")
_REASONS = (r"Reasoning': '(.*?)'", r'Reasoning": "(.*?)"')


def named_answer(row: Row, text: str) -> RuleResult:
    """Compare the field Answer; a vehicle of the same shape is right (Spatial457).

    Without such a field the whole text is the answer (VLMEvalKit may guess at random).
    """
    said, reason = (
        next((found[1] for pattern in patterns if (found := re.search(pattern, text))), None)
        for patterns in (_NAMED, _REASONS)
    )
    read = text if said is None else said
    unread = "Format Error. All of the resposne as the answer."
    facts = {"format_error": float(said is None), "reasoning": unread if reason is None else reason}
    return RuleResult(read, float(bool(text) and _same_thing(read, as_text(row["answer"]))), facts=facts)


def _same_thing(said: str, target: str) -> bool:
    said = "no" if said.lower() == "none" else said
    first, other = (text.lower().split(" ")[0] for text in (said, target))
    return (
        said.lower() == target.lower()
        or (said == "0" and target == "No")
        or (said.lower() in _DIGITS and str(_DIGITS.index(said.lower())) == target)
        or (target.lower() == "yes" and said in {*"123456789"})
        or (first in _SHAPE_OF and _SHAPE_OF[first] == _SHAPE_OF.get(other))
    )


def pair_counts(row: Row, text: str) -> RuleResult:
    """Compare by the task (VLM2-Bench): T or F of a pair, a count with partial scores for close ones, or a letter."""
    kind, target = as_text(row["category"]), as_text(row["answer"]).strip()
    if kind.endswith("-cnt"):
        count, wanted = only_number(text), int(target)
        if count is None:
            return RuleResult(None, 0.0)
        penalty = 2 * (abs(count - wanted) / max(wanted - 1, 2 - wanted, 1)) ** 0.1
        return RuleResult(str(count), 1.0 if count == wanted else max(0.0, 1 - penalty))
    if kind.endswith("-grp"):
        if len(re.findall(r"\([A-Z]\)", text)) > 1:
            return RuleResult(None, 0.0)
        read = text.split(")", maxsplit=1)[0].strip()
        return RuleResult(read, float(read == target.split(")")[0].strip()))
    found = re.findall(r"\b(t|f|true|false)\b", text, re.IGNORECASE)
    read = found[0][0].upper() if len(found) == 1 else ""
    return RuleResult(read or None, float(read == target.upper()))
