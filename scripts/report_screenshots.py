"""Take the screenshots of docs/report.md: every view, both themes, phone and screen width.

Needs Chromium and the dev environment. The results come from small models that detect two colours and are named after
eye charts, on synthetic images; the demo's come from the model that ships with the package. Use: python
scripts/report_screenshots.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import chdir
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "img"
sys.path.insert(0, str(ROOT / "tests"))
TALLEST = 1500
VIEWS = {
    "overview": ("suite", "#/", ""),
    "classification": ("suite", "stamps zeroshot_classification", ""),
    "retrieval": ("suite", "postcards zeroshot_retrieval", ""),
    "questions": ("answers", "flags questions", ""),
    "sample": ("demo", "#/benchmark/0", ".card button"),
    "result": ("suite", "#/", "#matrix td[title]"),
    "compare": ("suite", "#/compare?a=1&b=3", ""),
    "results": ("suite", "#/results?model=1", ""),
    "published": ("published", "#/published", ""),
    "demo": ("demo", "#/benchmark/0", ""),
    "first": ("demo", "#/", ""),
}
"""By name: report, view or benchmark, and what to click first."""
CHINESE = ("overview", "sample")
"""Views that are also taken in Chinese, light and at screen width, for docs/zh; needs a Chinese font."""

REFERENCES = ("open_clip", "clip_benchmark", "internvl")


def make_reports(folder: Path) -> dict[str, Path]:
    """Create the reports for the screenshots."""
    from support.make_results import make_answers, make_suite

    with chdir(folder):  # so that the page shows short paths
        suite, answers = make_suite(Path("suite"), n=300, thumbnails=60), make_answers(Path("answers"))
    commands = {
        "suite": ["report", str(folder / suite), "--title", "Six small models"],
        "answers": ["report", str(folder / answers), "--title", "Two small generators"],
        "published": ["report", "--title", "Published models", "--reference", *REFERENCES],
        "demo": ["demo", "--quiet", "--output", str(folder / "demo")],
    }
    reports = {name: folder / name / "report.html" for name in commands}
    for name, words in commands.items():
        output = [] if name == "demo" else ["--output", str(reports[name])]
        command = [sys.executable, "-m", "eyechart", *words, *output]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own program
    return reports


def take(
    browser: Browser, reports: dict[str, Path], scheme: str, width: int, views: Iterable[str] = VIEWS, code: str = ""
) -> None:
    """Take screenshots of views in one theme and width; ``code`` is ``zh`` for Chinese."""
    from support.browser import place_of

    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    for name in views:
        report, place, opener = VIEWS[name]
        view = place if place.startswith("#") else f"#/benchmark/{place_of(reports[report], *place.split())}"
        page.goto(f"file://{reports[report]}{view}")
        page.reload()
        page.wait_for_selector("main h1")
        if code == "zh" and page.get_attribute("html", "lang") == "en":  # the page remembers the choice
            page.get_by_role("button", name="中文").click()
        page.wait_for_timeout(400)
        if opener:
            page.locator(opener).first.click()
            page.wait_for_selector("dialog[open]")
        path = IMAGES / f"report-{name}-{scheme}-{width}{f'-{code}' if code else ''}.png"
        page.screenshot(path=path, full_page=not opener)
        shrink(path)
    context.close()


def shrink(path: Path) -> None:
    """Crop long pages and reduce the colours: under 200 kB each."""
    with Image.open(path) as image:
        cut = image.convert("RGB").crop((0, 0, image.width, min(image.height, TALLEST)))
    cut.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1000} kB")


def main() -> None:
    """Create the reports and take their screenshots."""
    from support.browser import chromium

    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        reports = make_reports(Path(folder))
        for scheme in ("light", "dark"):
            for width in (400, 1400):
                take(browser, reports, scheme, width)
        take(browser, reports, "light", 1400, CHINESE, "zh")


if __name__ == "__main__":
    main()
