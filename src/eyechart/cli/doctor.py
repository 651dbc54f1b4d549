"""``eyechart doctor``: check the installation and say what to do."""

from __future__ import annotations

import argparse

from eyechart.io.terminal import make_console
from eyechart.io.translate import translate

STYLES = {"ok": "green", "missing": "yellow", "problem": "bold red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no flags: it looks at everything."""


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - there is nothing to choose
    """Print one line per check; the exit code is 1 if something is broken."""
    from rich.table import Table
    from rich.text import Text

    from eyechart.doctor import examine

    findings = examine()
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        detail = f"{translate(finding.detail)}  {translate(finding.advice)}".strip()
        table.add_row(Text(translate(finding.state), style=STYLES[finding.state]), finding.what, Text(detail))
    make_console().print(table)
    return int(any(finding.state == "problem" for finding in findings))
