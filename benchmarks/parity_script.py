"""One script in DataComp's manner, run with CLIP_benchmark and with Eyechart: every number must be the same.

It runs twice with the peer: with the webdataset library of today, and, for what only an older one can do (DataComp cuts
its pipeline at the fifth stage), with that of 2023. On a CPU the peer needs amp=False throughout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from peer import FOLDER, PEER

from support.datacomp_data import SCRIPT, write_all, write_model

OLD = "webdataset==0.2.48"


def compare_script(work: Path, tolerance: float) -> int:
    """Run the script three times; print one line per number and return the number of differences."""
    work.mkdir(parents=True)
    given = [str(SCRIPT), str(write_all(work / "data")), *map(str, write_model(work))]
    peer = [str(PEER / "bin" / "python")]
    ours = _run([sys.executable, "-m", "eyechart", "as", "clip_benchmark"], given, work / "ours.json", "--metadata")
    failures = 0
    for title, theirs in (
        ("script", _run(peer, given, work / "peer.json")),
        ("old webdataset", _run(peer, given, work / "old.json", "--metadata", PYTHONPATH=str(_old_library()))),
    ):
        for name, value in _numbers(theirs):
            own = dict(_numbers(ours))[name]
            good = own == value or abs(own - value) <= tolerance
            failures += not good
            print(f"{'ok ' if good else 'BAD'} {title:15} {name:36} peer {str(value)[:9]:9} eyechart {str(own)[:9]}")
    return failures


def _run(program: list[str], given: list[str], output: Path, *flags: str, **environment: str) -> dict:
    command = [*program, *given, str(output), "--no_amp", *flags]
    subprocess.run(command, check=True, env={**os.environ, **environment})
    return json.loads(output.read_text())


def _numbers(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield every number with its path; a list becomes one text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, f"{name} {key}".strip())
    else:
        yield name, str(value) if isinstance(value, list) else value


def _old_library() -> Path:
    folder = FOLDER / "old-webdataset"
    if not folder.exists():
        pip = [str(PEER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--target", str(folder), OLD], check=True)
    return folder
