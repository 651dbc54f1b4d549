"""What is known of the judges of a result, in words: their own numbers, how far they agree, what they have taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eyechart.io.cells import one_line
from eyechart.io.untrusted import DAMAGED
from eyechart.results import Result
from eyechart.results.numbers import level, with_unit
from eyechart.results.spent import spent_lines


def judge_lines(result: Result) -> list[str]:
    """Say what the judges' own numbers are, how far they agree, and what model and judges have taken."""
    try:
        return [one_line(line) for line in (*_audit_lines(result), *spent_lines(result.details))]
    except DAMAGED:  # a file may say anything
        return ["what it says of its judges cannot be read"]


@dataclass(frozen=True)
class JudgeTable:
    """The judges of a result side by side, as text."""

    judged: int
    """Answers that they were asked about; rules read the others."""
    prompt: str
    """Whose words they were asked in."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """A judge each: its name, the primary metric by its verdicts alone, what could not be read, how far it agrees."""
    together: tuple[str, ...]
    """How far all of them agree, and each pair."""


def judge_table(result: Result) -> JudgeTable | None:
    """Lay out the audit of a result's judges; None where nobody judged, or a file tells something else."""
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
        together = [f"all: alpha {_agreement(audit['alpha'])}"] if "alpha" in audit else []
        together += [
            one_line(f"{' and '.join(pair['judges'])}: kappa {_agreement(pair)}") for pair in audit.get("kappa", ())
        ]
        header = ("judge", metric, "unreadable", "self-consistency (alpha)", "with people (kappa)")
        source = one_line(str(audit.get("prompt", {}).get("source", "")))
        return JudgeTable(int(audit["judged"]), source, header, tuple(rows), tuple(together))
    except DAMAGED:
        return None


def _audit_lines(result: Result) -> list[str]:
    audit, people = result.details.get("judge", {}), result.details.get("people", {})
    judges = audit.get("judges", {})
    lines = []
    for name, judge in judges.items():
        metric = next((metric for metric in result.primary if metric in judge["numbers"]), "")
        own = [with_unit(result.values[metric], judge["numbers"][metric])] if len(judges) > 1 and metric else []
        own += [f"self-consistency {_agreement(judge['self_consistency'])}"] if "self_consistency" in judge else []
        own += [f"agreement with people {_agreement(people[name]['kappa'])}"] if name in people else []
        lines += [f"judge {name}: {', '.join(own)}"] if own else []
    lines += [f"judges agree: alpha {_agreement(audit['alpha'])}"] if "alpha" in audit else []
    return lines


def _agreement(found: Mapping[str, Any]) -> str:
    if found["value"] is None:
        return "unknown (all verdicts are the same)"
    interval = "" if found["low"] is None else f" ({found['low']:.2f} - {found['high']:.2f})"
    return f"{found['value']:.2f}{interval}, n {found['n']}"
