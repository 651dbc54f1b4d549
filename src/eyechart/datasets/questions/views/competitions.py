# ruff: noqa: RUF001 - Chinese punctuation
"""How a problem of a competition is introduced, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from eyechart.metrics.cells import Row, as_text, is_missing

_KINDS = {
    "Numerical": ("数值", "a numerical value"),
    "Expression": ("表达式", "an expression"),
    "Equation": ("方程", "an equation"),
    "Interval": ("区间", "an interval"),
}


def olympiad(row: Row) -> Mapping[str, object]:
    """Name a competition's language, subject and kinds of answers (OlympiadBench)."""
    source = as_text(row.get("source"))
    chinese, maths = "zh" in source, "maths" in source
    subject = ("数学" if maths else "物理") if chinese else ("Math" if maths else "Physics")
    several = as_text(row.get("is_multiple_answer")) in {"True", "1", "1.0"}
    context = "" if maths or is_missing(row.get("context")) else as_text(row["context"]) + "\n"
    box = ("用英文逗号连接的多个答案" if several else "答案") if chinese else ""
    box = box or ("multiple answers connected with commas" if several else "answer")
    unit = not is_missing(row.get("unit"))
    return {
        "form": ("zh" if chinese else "en") + ("_proof" if "TP" in source else ""),
        "subject": subject,
        "kinds": _kinds(as_text(row.get("answer_type")), several, chinese),
        "box": f"\\boxed{{{box}}}" + (("(单位)" if chinese else "(unit)") if unit else ""),
        "without_unit": _without_unit(chinese) if unit else "",
        "context": context,
    }


def _without_unit(chinese: bool) -> str:
    if chinese:
        return "，注意答案的单位不要放在\\boxed{}中"
    return ", note that the unit of the answer should not be included in \\boxed{}"


def _kinds(answer_type: str, several: bool, chinese: bool) -> str:
    if not answer_type or "Need_human_evaluate" in answer_type or "Tuple" in answer_type:
        return ""
    parts = answer_type.split(",") if several else [answer_type]
    names = [_KINDS[kind][not chinese] for part in parts for kind in _KINDS if kind in part]
    if not several:
        return f"，答案类型为{names[0]}" if chinese else f"The answer of The problem should be {names[0]}. "
    if len(set(names)) == 1:
        many = "The problem has multiple answers, each of them should be"
        return f"，题目有多个答案，答案类型均为{names[0]}" if chinese else f"{many} {names[0]}. "
    if chinese:
        return "，题目有多个答案，答案类型分别为" + "、".join(names)
    return f"The problem has multiple answers, with the answers in order being {', '.join(names)}. "
