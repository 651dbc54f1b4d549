"""What the commands that read results have in common."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.errors import ResultError, UsageError
from eyechart.io.files import write_atomic
from eyechart.io.terminal import write_message

if TYPE_CHECKING:
    from eyechart.report.load import Found, Loaded
    from eyechart.report.table import ResultTable

SHOWN = 5
FOLDER = "results/"
"""Where `eyechart.outputs` puts results; its import would take the whole of the datasets along."""
REFERENCES = ("clip_benchmark", "internvl", "open_clip")
"""Published numbers that ship with the package, for the help; reading them is what checks a name."""


def named_or_default(files: Sequence[str]) -> list[str]:
    """Return the files and folders that were named; if none were, the folder where `eval` puts results."""
    if files or not Path(FOLDER).is_dir():
        return list(files)
    write_message(f"reading {FOLDER}\n", sys.stderr)
    return [FOLDER]


def load(arguments: Sequence[str]) -> Loaded:
    """Read results and say on the error stream which files were left out."""
    from eyechart.report.load import load_results

    if not arguments:
        raise UsageError(
            f"No results are named, and there is no folder {FOLDER} here.", advice="Name files or folders."
        )
    loaded = load_results(arguments)
    for skipped in loaded.skipped[:SHOWN]:
        write_message(f"left out: {skipped.reason}\n", sys.stderr)
    more = len(loaded.skipped) - SHOWN
    if more > 0:
        write_message(f"left out: {more} more files that are not results\n", sys.stderr)
    return loaded


def arrange(found: Sequence[Found]) -> ResultTable:
    """Put results into a table and say on the error stream which of them are not in it."""
    from eyechart.report.table import make_table

    table = make_table(found)
    for line in table.notices:
        write_message(f"{line}\n", sys.stderr)
    return table


def save(output: str, data: bytes) -> None:
    """Write a file that was asked for."""
    try:
        write_atomic(Path(output), data)
    except OSError as error:
        raise UsageError(f"Cannot write {output} ({error.strerror}).", advice="Choose another --output.") from error


def say_what_is_missing(found: Sequence[Found]) -> None:
    """Say on the error stream which numbers are with lost samples, and which files were changed."""
    from eyechart.report.means import read_checked
    from eyechart.report.table import lost_samples

    for item in found:
        fewer = ", ".join(lost_samples(item.result))
        if fewer:
            write_message(f"lost samples: {item.result.path}: {fewer}\n", sys.stderr)
        try:
            read_checked(item.result)
        except ResultError as error:
            write_message(f"changed: {error.message}\n", sys.stderr)
