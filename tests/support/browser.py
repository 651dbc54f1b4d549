"""A real Chromium for the tests of the page."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """Return the browser's path; Debian calls it chromium."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


def place_of(report: Path, dataset: str, task: str = "zeroshot_classification") -> int:
    """Return the number of a benchmark on a page: its address there is ``#/benchmark/number``."""
    overview = re.search(r'id="overview">(.*?)</script>', report.read_text(encoding="utf-8"))
    benchmarks = json.loads(overview[1])["benchmarks"]
    names = [(Path(part["dataset"]).name, part["task"], part["language"]) for part in benchmarks]
    return names.index((dataset, task, "en"))


@contextmanager
def chromium():
    """Start the browser that is installed on this machine; Playwright downloads nothing."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page that remembers every console message, error and request, so that a test can insist on none."""

    def __init__(self, browser, *, width=1400, scheme="light", height=900) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)  # as for `expect`: a busy machine is no fault
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.problems.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _dialog(self, dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: Path, view: str = "#/"):
        """Open a file at one of its views and wait until it is drawn."""
        self.page.goto(f"file://{path}{view}")
        return self.drawn()

    def follow(self, link):
        """Click a link to another view and wait until that view is drawn."""
        link.click()
        return self.drawn()

    def drawn(self):
        """Wait until the page shows the view that its address names: reading before is a matter of luck."""
        view = json.dumps(self.page.evaluate("location.hash"))
        self.page.wait_for_selector(f"main[data-view={view}]")
        return self.page

    def fresh(self) -> None:
        """Forget everything that a test before this one has done."""
        if self.page.url.startswith(("file:", "http:")):
            self.page.evaluate("() => sessionStorage.clear()")
        self.page.goto("about:blank")
        self.page.set_viewport_size({"width": 1400, "height": 900})
        self.page.emulate_media(color_scheme="light")
        self.problems.clear()
        self.requests.clear()

    def check(self) -> None:
        """See that the page neither complained nor asked for anything."""
        outside = [url for url in self.requests if not url.startswith(("file:", "data:", "blob:", "about:"))]
        assert outside == []
        assert self.problems == []

    def close(self) -> None:
        """Close the page, after making sure that it neither complained nor asked for anything."""
        self.context.close()
        self.check()


def expect(locator: Any) -> Any:
    """Assert something of a page, with playwright's patience; it is imported only where there is a browser."""
    from playwright import sync_api

    return sync_api.expect(locator)
