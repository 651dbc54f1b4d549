"""Loading and saving for the commands that read results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.errors import ResultError, UsageError
from eyechart.io.files import write_atomic
from eyechart.io.terminal import write_message
from eyechart.messages import join

if TYPE_CHECKING:
    from eyechart.report.loader import LoadedResult, LoadedResults
    from eyechart.report.result_table import ResultTable


SHOWN = 5
FOLDER = "results/"
"""Default folder of `eyechart.outputs`, whose import would pull in all of datasets."""
REFERENCES = ("clip_benchmark", "internvl", "open_clip")
"""Embedded published results, for the help; names are validated when they are loaded."""


def named_or_default(files: Sequence[str]) -> list[str]:
    """Return the given files and folders, else the default output folder of `eval`."""
    if files or not Path(FOLDER).is_dir():
        return list(files)
    write_message("reading {name}\n", sys.stderr, name=FOLDER)
    return [FOLDER]


def load(arguments: Sequence[str]) -> LoadedResults:
    """Load results and report skipped files on stderr."""
    from eyechart.report.loader import load_results

    if not arguments:
        raise UsageError(
            "No results given, and there is no folder {path} here.", advice="Give files or folders.", path=FOLDER
        )
    loaded = load_results(arguments)
    for skipped in loaded.skipped[:SHOWN]:
        write_message("skipped: {reason}\n", sys.stderr, reason=skipped.reason)
    more = len(loaded.skipped) - SHOWN
    if more > 0:
        write_message("skipped: {n} more files without results\n", sys.stderr, n=more)
    return loaded


def arrange(found: Sequence[LoadedResult]) -> ResultTable:
    """Build a table of results and report its notices on stderr."""
    from eyechart.report.result_table import make_table

    table = make_table(found)
    for line in table.notices:
        write_message("{line}\n", sys.stderr, line=line)
    return table


def save(output: str, data: bytes) -> None:
    """Write an output file."""
    try:
        write_atomic(Path(output), data)
    except OSError as error:
        raise UsageError(
            "Cannot write {path} ({reason}).", advice="Choose another {--output}.", path=output, reason=error.strerror
        ) from error


def report_defects(found: Sequence[LoadedResult]) -> None:
    """Report results with lost samples and modified records on stderr."""
    from eyechart.report.paired_records import read_checked
    from eyechart.report.result_table import lost_samples

    for item in found:
        fewer = join(lost_samples(item.result), ", ")
        if fewer:
            write_message("lost samples: {path}: {list}\n", sys.stderr, path=item.result.path, list=fewer)
        try:
            read_checked(item.result)
        except ResultError as error:
            write_message("modified: {reason}\n", sys.stderr, reason=error.message)
