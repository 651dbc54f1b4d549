"""Audit of a result's judges as text: their individual scores, their agreement and their usage."""

from collections.abc import Mapping
from typing import Any

from eyechart.io.safe_parse import DAMAGED
from eyechart.io.text_tables import one_line
from eyechart.messages import UserMessage, join
from eyechart.results import Result
from eyechart.results.views import level, spent_lines, with_unit


def judge_lines(result: Result) -> list[str]:
    """Describe the judges' individual scores, their agreement, and the usage of model and judges."""
    audit, people = result.details.get("judge", {}), result.details.get("people", {})
    lines: list[str] = []
    try:
        judges = audit.get("judges", {})
        for name, judge in judges.items():
            metric = next((metric for metric in result.primary if metric in judge["numbers"]), "")
            own: list[str] = []
            if len(judges) > 1 and metric:
                own.append(with_unit(result.values[metric], judge["numbers"][metric]))
            if "self_consistency" in judge:
                own.append(UserMessage("self-consistency {value}", value=_agreement(judge["self_consistency"])))
            if name in people:
                own.append(UserMessage("agreement with people {value}", value=_agreement(people[name]["kappa"])))
            if own:
                lines.append(UserMessage("judge {name}: {numbers}", name=one_line(name), numbers=join(own, ", ")))
        if "alpha" in audit:
            lines.append(UserMessage("judges agree: alpha {value}", value=_agreement(audit["alpha"])))
        return [*lines, *spent_lines(result.details)]
    except DAMAGED:
        return ["the judge details are damaged"]


def judge_table(result: Result) -> dict[str, Any] | None:
    """Lay out the audit of a result's judges as text; None without judges, or if the file is damaged.

    ``judged`` is the number of answers sent to the judges, as rules decided the others. A row holds a judge's name, the
    primary metric by its verdicts alone, its unreadable verdicts and its agreement with itself and with people;
    ``together`` is the agreement of all judges and of each pair.
    """
    audit, people = result.details.get("judge"), result.details.get("people", {})
    if not audit:
        return None
    try:
        metric = next((name for name in result.primary if name in next(iter(audit["judges"].values()))["numbers"]), "")
        rows = [
            (
                one_line(name),
                level(result.values[metric], judge["numbers"][metric]) if metric else "",
                str(judge["unreadable"]),
                _agreement(judge["self_consistency"]) if "self_consistency" in judge else "",
                _agreement(people[name]["kappa"]) if name in people else "",
            )
            for name, judge in audit["judges"].items()
        ]
        together: list[str] = []
        if "alpha" in audit:
            together.append(UserMessage("all: alpha {value}", value=_agreement(audit["alpha"])))
        for pair in audit.get("kappa", ()):
            first, second = map(one_line, pair["judges"])
            text = "{first} and {second}: kappa {value}"
            together.append(UserMessage(text, first=first, second=second, value=_agreement(pair)))
        return {
            "judged": int(audit["judged"]),
            "prompt": one_line(str(audit.get("prompt", {}).get("source", ""))),
            "header": ["judge", metric, "unreadable", "self-consistency (alpha)", "with people (kappa)"],
            "rows": rows,
            "together": together,
        }
    except DAMAGED:
        return None


def _agreement(found: Mapping[str, Any]) -> str:
    if found["value"] is None:
        return "unknown (all verdicts are the same)"
    interval = "" if found["low"] is None else f" ({found['low']:.2f} - {found['high']:.2f})"
    return f"{found['value']:.2f}{interval}, n {found['n']}"
