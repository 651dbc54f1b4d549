"""How large and how quick the page is for 50 models x 40 benchmarks and 50,000 samples.

Writes made-up results (2,000 files, 2.5 million records: every model has a record for each of the samples), makes the
page of them with the real command, opens it in Chromium and times what a person does. Use:

    python benchmarks/report_scale.py [FOLDER]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.results import Result, write_result
from eyechart.types import MeanOf, Metric

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
MODELS, BENCHMARKS, SAMPLES, CLASSES = 50, 40, 1_250, 100


def write_results(folder: Path, benchmarks: int = BENCHMARKS, samples: int = SAMPLES, first: int = 0) -> None:
    """Write results in the format of zero-shot classification, with random ranks."""
    for b in range(first, first + benchmarks):
        shared = np.random.default_rng(b)
        labels = shared.integers(0, CLASSES, samples)
        difficulty = shared.normal(0, 1.2, samples)
        for m in range(MODELS):
            own = np.random.default_rng([b, m])
            margin = 0.3 + m / 25 - difficulty + own.normal(0, 0.7, samples)
            ranks = np.where(margin > 0, 1, np.minimum(2 + np.floor(np.expm1(-margin)).astype(int), CLASSES))
            others = own.integers(0, CLASSES, (samples, 5))
            records = map(record, range(samples), labels.tolist(), ranks.tolist(), others.tolist())
            write_result(result(f"set{b:02d}", m, ranks), records, folder / f"set{b:02d}_model{m:02d}.json")


def record(i: int, label: int, rank: int, top: list[int]) -> dict[str, Any]:
    """Make the record of one sample."""
    if rank <= len(top):
        top[rank - 1] = label
    scores = {"top": top, "scores": [0.31, 0.3, 0.29, 0.28, 0.27], "label_score": 0.25}
    return {"id": f"s{i:07d}", "label": label, "prediction": top[0], "rank": rank, "correct": rank == 1, **scores}


def result(dataset: str, model: int, ranks: np.ndarray) -> Result:
    """Make a result with the metrics of the records."""
    first, fifth = (float((ranks <= k).mean()) for k in (1, 5))
    return Result(
        dataset=dataset,
        model=f"Snellen-{model:02d}",
        pretrained="chart2b",
        task="zeroshot_classification",
        language="en",
        values={
            "acc1": Metric(
                first, first - 0.02, first + 0.02, 1 / CLASSES, len(ranks), primary=True, mean_of=MeanOf("rank", 1)
            ),
            "acc5": Metric(fifth, chance=5 / CLASSES, n=len(ranks), mean_of=MeanOf("rank", 5)),
        },
        counts={"listed": len(ranks), "scored": len(ranks), "failed": 0},
        details={"classnames": [f"class {i}" for i in range(CLASSES)]},
        model_card={"family": "open_clip", "parameters": 10_000_000 * (model + 1), "image_size": 224},
        data={"fingerprint": dataset, "split": "test", "measures": "classification"},
        provenance={"command": f"eyechart eval --dataset {dataset}", "throughput": 100},
        job={"digest": "0" * 32, "limit": None},
        record_info={"form": "label"},
    )


def timed(what: str, action) -> None:
    """Run an action and print how long it took."""
    start = time.perf_counter()
    action()
    print(f"{what}: {time.perf_counter() - start:.2f} s")


def drive(page_file: Path) -> None:
    """Open the page in a real browser and time typical interactions."""
    from support.browser import chromium

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(120_000)

        def click(selector: str, then: str) -> None:
            page.locator(selector).first.click()
            page.wait_for_selector(then)

        timed(
            "open, until the matrix is drawn",
            lambda: (page.goto(f"file://{page_file}"), page.wait_for_selector("#matrix tbody tr")),
        )
        timed("sort by a column", lambda: click('[data-sort="3/0"]', '[aria-sort] [data-sort="3/0"]'))
        timed("open a benchmark (1,250 samples of 50 models)", lambda: click("#matrix thead a.dataset", ".cards .card"))
        timed("next page of samples", lambda: click(".pager button:last-child", ".cards .card"))
        timed("open a sample", lambda: click(".cards .card button", "dialog[open]"))
        page.keyboard.press("Escape")
        timed(
            "open the comparison",
            lambda: (page.evaluate("() => { location.hash = '#/compare'; }"), page.wait_for_selector(".verdict-line")),
        )


def main() -> None:
    """Create the results if missing, then the page, then drive it."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob("*.json")):
        timed(
            f"write {MODELS * BENCHMARKS} results with {MODELS * BENCHMARKS * SAMPLES:,} records",
            lambda: write_results(folder),
        )
    output = folder / "report.html"
    command = [sys.executable, "-m", "eyechart", "report", str(folder), "--output", str(output)]
    timed("eyechart report", lambda: subprocess.run(command, check=True))
    print(f"size of the page: {output.stat().st_size / 1e6:.1f} MB")
    drive(output)


if __name__ == "__main__":
    main()
