"""``eyechart doctor``: check the installation and say what to do."""

from __future__ import annotations

import argparse
import sys

from eyechart.io.layout import columns_of, lay_out
from eyechart.io.terminal import make_console, width_of
from eyechart.io.translate import translate

STYLES = {"ok": "green", "missing": "yellow", "problem": "bold red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no flags: it looks at everything."""


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - there is nothing to choose
    """Print one line per check; the exit code is 1 if something is broken."""
    from rich.text import Text

    from eyechart.doctor import examine

    findings = examine()
    rows = [
        (translate(one.state), translate(one.what), ": ".join(filter(None, map(translate, (one.detail, one.advice)))))
        for one in findings
    ]
    console = make_console(soft_wrap=True)
    laid_out = lay_out(columns_of("", "", "", wraps=True), rows, width_of(sys.stdout))[1:]
    for finding, lines in zip(findings, laid_out, strict=True):
        text = Text("\n".join(lines))
        text.stylize(STYLES[finding.state], 0, len(translate(finding.state)))
        console.print(text)
    return int(any(finding.state == "problem" for finding in findings))
