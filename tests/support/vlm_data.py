"""Made-up benchmarks: small images in TSV files."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from eyechart.datasets.questions.rows import RowTable as Table
from eyechart.datasets.questions.tsv import write_tsv


def image_bytes(width: int = 8, height: int = 8, color: tuple[int, int, int] = (200, 30, 30)) -> bytes:
    from PIL import Image

    written = io.BytesIO()
    Image.new("RGB", (width, height), color).save(written, "PNG")
    return written.getvalue()


def image_cell(width: int = 8, height: int = 8, color: tuple[int, int, int] = (200, 30, 30)) -> str:
    return base64.b64encode(image_bytes(width, height, color)).decode()


def write_benchmark(path: Path, rows: list[dict]) -> Path:
    """Write rows as a TSV file; each gets an image of its own unless it has one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    full = [{"image": image_cell(color=(i % 256, i // 256 % 256, 9)), **row} for i, row in enumerate(rows)]
    write_tsv(path, Table(full))
    return path
