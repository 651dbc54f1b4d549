"""Made-up benchmarks: small images in TSV files."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.datasets.questions.row_table import RowTable as Table
from eyechart.datasets.questions.table_files import write_tsv


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


KINDS = {
    "choice": {"rule": "rules.choices:letter"},
    "circular": {"rule": "rules.choices:letter", "aggregate": "aggregates.choices:mmbench"},
    "mmmu": {"rule": {"function": "rules.choices:letter", "close_open": True}},
    "open": {"rule": "rules.texts:open_answer"},
    "mmvet": {"rule": "rules.judged:graded", "aggregate": "aggregates.verdicts:mmvet"},
    "dialogue": {"rule": "rules.judged:dialogue"},
    **{
        name: {"rule": "rules.choices:letter", "aggregate": f"aggregates.choices:{name}"}
        for name in ("mmvp", "mmt", "hrbench")
    },
    **{
        name: {"rule": f"rules.texts:{name}", "aggregate": f"aggregates.documents:{name}"}
        for name in ("ocrbench", "mtvqa")
    },
    **{
        name: {"rule": f"rules.mathematics:{name}", "aggregate": f"aggregates.exercises:{name}"}
        for name in ("mathvista", "mathvision")
    },
    "yes_no": {"rule": "rules.yes_no:yes_no"},
    **{
        name: {"rule": "rules.yes_no:yes_no", "aggregate": f"aggregates.yes_no:{name}"}
        for name in ("mme", "pope", "hallusion", "vsr")
    },
    "amber": {"rule": {"function": "rules.yes_no:yes_no", "ignore_case": True}, "aggregate": "aggregates.yes_no:amber"},
    "naturalbench": {"rule": "rules.yes_no:first_word", "aggregate": "aggregates.yes_no:naturalbench_groups"},
    "caption": {
        "rule": {"function": "rules.texts:whole_text", "one": True},
        "aggregate": "aggregates.documents:captions",
    },
}
"""Rule and aggregate of kinds of benchmarks."""


def benchmark_of_kind(kind: str, judge: str = "optional", *, name: str = "X", **known) -> QuestionBenchmark:
    """Make a benchmark that is scored like others of its kind."""
    return QuestionBenchmark(**{"name": name, "dataset_class": "X", "judge": judge, **KINDS[kind], **known})
