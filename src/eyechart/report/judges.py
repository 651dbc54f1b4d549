"""What is known of the judges of a result, in words: their own numbers, how far they agree, what they have taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eyechart.io.cells import one_line
from eyechart.io.untrusted import DAMAGED
from eyechart.results import Result


def judge_lines(result: Result) -> list[str]:
    """Say what the judges' own numbers are, how far they agree, and what model and judges have taken."""
    try:
        return [one_line(line) for line in (*_audit_lines(result), *_spent_lines(result))]
    except DAMAGED:  # a file may say anything
        return ["what it says of its judges cannot be read"]


def _audit_lines(result: Result) -> list[str]:
    audit, people = result.details.get("judge", {}), result.details.get("people", {})
    judges = audit.get("judges", {})
    lines = []
    for name, judge in judges.items():
        number = next((judge["numbers"][metric] for metric in result.primary if metric in judge["numbers"]), None)
        own = [f"{number:.4f}"] if len(judges) > 1 and number is not None else []
        own += [f"self-consistency {_agreement(judge['self_consistency'])}"] if "self_consistency" in judge else []
        own += [f"agreement with people {_agreement(people[name]['kappa'])}"] if name in people else []
        lines += [f"judge {name}: {', '.join(own)}"] if own else []
    lines += [f"judges agree: alpha {_agreement(audit['alpha'])}"] if "alpha" in audit else []
    return lines


def _spent_lines(result: Result) -> list[str]:
    spent = result.details.get("spent", {})
    parts = {"model": spent.get("model", {}), **spent.get("judges", {})}
    return [f"{name}: {_spent(part)}" for name, part in parts.items() if _spent(part)]


def _agreement(found: Mapping[str, Any]) -> str:
    if found["value"] is None:
        return "unknown (all verdicts are the same)"
    interval = "" if found["low"] is None else f" ({found['low']:.2f} - {found['high']:.2f})"
    return f"{found['value']:.2f}{interval}, n {found['n']}"


def _spent(part: Mapping[str, Any]) -> str:
    """Write tokens and cost; nothing where neither is known."""
    tokens = part.get("tokens_of_answers", {})
    words = [
        f"{tokens[name]} {name.replace('_', ' ')}"
        for name in ("prompt_tokens", "completion_tokens")
        if tokens.get(name)
    ]
    cost = part.get("cost")
    return ", ".join([*words, *([f"cost {cost:.4f}"] if isinstance(cost, int | float) else [])])
