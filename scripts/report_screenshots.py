"""Take the screenshots of docs/report.md: every view, both themes, phone and screen width.

Needs Chromium and the dev environment. The results are made up (models named after eye charts), except for the
demo's, which are real. Use: python scripts/report_screenshots.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "img"
sys.path.insert(0, str(ROOT / "tests"))
TALLEST = 1500
VIEWS = {
    "overview": ("suite", "#/", ""),
    "classification": ("suite", "#/benchmark/4?model=4", ""),
    "retrieval": ("suite", "#/benchmark/8?model=5", ""),
    "questions": ("suite", "#/benchmark/9", ""),
    "sample": ("demo", "#/benchmark/0", ".card button"),
    "result": ("suite", "#/", "#matrix td[title]"),
    "compare": ("suite", "#/compare?a=2&b=3", ""),
    "results": ("suite", "#/results?model=1", ""),
    "published": ("published", "#/published", ""),
    "demo": ("demo", "#/benchmark/0", ""),
}
"""Name -> which report, which view, what to click first."""


def make_reports(folder: Path) -> dict[str, Path]:
    """Make the reports to photograph."""
    from support.make_results import make_suite

    make_suite(folder / "suite")
    commands = {
        "suite": ["report", str(folder / "suite"), "--title", "Six made-up models"],
        "published": ["report", "--reference", "internvl", "--title", "InternVL, as published"],
        "demo": ["demo", "--quiet", "--output", str(folder / "demo")],
    }
    reports = {name: folder / name / "report.html" for name in commands}
    for name, words in commands.items():
        output = [] if name == "demo" else ["--output", str(reports[name])]
        command = [sys.executable, "-m", "eyechart", *words, *output]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own program
    return reports


def take(browser: Browser, reports: dict[str, Path], scheme: str, width: int) -> None:
    """Photograph every view in one theme and width."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    for name, (report, view, opener) in VIEWS.items():
        page.goto(f"file://{reports[report]}{view}")
        page.reload()
        page.wait_for_selector("main h1")
        page.wait_for_timeout(400)
        if opener:
            page.locator(opener).first.click()
            page.wait_for_selector("dialog[open]")
        path = IMAGES / f"report-{name}-{scheme}-{width}.png"
        page.screenshot(path=path, full_page=not opener)
        shrink(path)
    context.close()


def shrink(path: Path) -> None:
    """Cut long pages and reduce the colours: under 150 kB each."""
    with Image.open(path) as image:
        cut = image.convert("RGB").crop((0, 0, image.width, min(image.height, TALLEST)))
    cut.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1000} kB")


def main() -> None:
    """Make the reports and photograph them."""
    from support.browser import chromium

    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        reports = make_reports(Path(folder))
        for scheme in ("light", "dark"):
            for width in (400, 1400):
                take(browser, reports, scheme, width)


if __name__ == "__main__":
    main()
