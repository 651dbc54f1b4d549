"""The site is built as `make docs` builds it, and read as a visitor reads it."""

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

import eyechart
from eyechart.cli import COMMANDS
from support.browser import Watched, chromium, find_chromium

pytest.importorskip("mkdocs", reason="the site needs eyechart[docs]")

ROOT = Path(__file__).parents[2]
GENERAL = re.search(r"^site_description: (.+)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)[1]
"""What describes a page that does not describe itself."""
LOADED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "form": "action",
}
"""What a browser fetches by itself, by tag."""


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder without a word."""

    def log_message(self, *_):
        pass


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.ids = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get(LOADED.get(tag)):
            self.loaded.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build once, without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, env=environment)
    # Not --quiet: with it mkdocs neither shows nor counts warnings.
    assert done.returncode == 0, done.stderr
    assert [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("INFO ")] == []
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


@pytest.fixture(scope="module")
def index(site):
    return json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]


def test_every_link_leads_to_a_page_and_a_place_on_it(site, pages):
    assert len(pages) > 25
    for name, page in pages.items():
        for link in page.links + page.loaded:
            address, place = urldefrag(urljoin(f"http://site/{name}", link))
            if urlsplit(address).netloc != "site":
                continue
            target = unquote(urlsplit(address).path).lstrip("/")
            target = f"{target}index.html" if not target or target.endswith("/") else target
            assert (site / target).is_file(), f"{name} links to {link}"
            if place and target in pages:
                assert unquote(place) in pages[target].ids | {"__top"}, f"{name} links to {link}"


def test_nothing_is_loaded_from_another_host(site, pages):
    loaded = [(name, link) for name, page in pages.items() for link in page.loaded]

    assert len(loaded) > 100
    assert [(name, link) for name, link in loaded if urlsplit(link).netloc] == []
    styles = [path for path in site.rglob("*.css") if "url(http" in path.read_text(encoding="utf-8")]
    assert styles == []


def test_every_page_can_be_reached_from_the_first_one(pages):
    """mkdocs warns, so the build fails, if a page is in no navigation; here the links themselves are followed."""
    reached, ahead = set(), ["index.html"]
    while ahead:
        name = ahead.pop()
        if name in reached:
            continue
        reached.add(name)
        for link in pages[name].links:
            parts = urlsplit(urljoin(f"http://site/{name}", link))
            target = parts.path.lstrip("/")
            target = f"{target}index.html" if not target or target.endswith("/") else target
            if parts.netloc == "site" and target in pages:
                ahead.append(target)

    assert set(pages) - reached == {"404.html"}


def test_the_language_switch_leads_to_the_same_page(site, pages):
    switched = 0
    for name in pages:
        text = (site / name).read_text(encoding="utf-8")
        links = dict(re.findall(r'<a href="([^"]+)" hreflang="(\w+)" class="md-select__link"', text))
        targets = {
            language: urlsplit(urljoin(f"http://site/{name}", link)).path.lstrip("/") + "index.html"
            for link, language in links.items()
        }
        here = "zh" if name.startswith("zh/") else "en"
        there, counterpart = ("en", name.removeprefix("zh/")) if here == "zh" else ("zh", f"zh/{name}")
        assert re.search(rf'<html lang="{here}"', text), name
        if name != "404.html":
            assert targets[here] == name
            assert targets[there] == (counterpart if counterpart in pages else "zh/index.html")
            switched += counterpart in pages
    assert switched >= 28


def test_every_page_describes_itself_to_search_engines(site, pages):
    named = [name for name in pages if name != "404.html"]
    texts = [(site / name).read_text(encoding="utf-8") for name in named]

    for part in (r'<meta name="description" content="([^"]+)"', r"<title>([^<]+)</title>"):
        found = [re.findall(part, text)[0] for text in texts]
        assert len(set(found)) == len(named)
        assert GENERAL not in found


def test_the_reference_has_every_command_and_every_public_name(pages):
    assert {f"eyechart-{name}" for name in COMMANDS} <= pages["reference/cli/index.html"].ids
    here = {place.rpartition(".")[2] for place in pages["reference/python/index.html"].ids}
    assert set(eyechart.__all__) <= here


def test_the_index_of_the_search_has_every_page(index, pages):
    found = {entry["location"].partition("#")[0] for entry in index}

    assert found == {name.removesuffix("index.html") for name in pages} - {"404.html"}


@pytest.mark.skipif(find_chromium() is None and not os.environ.get("CI_BROWSER"), reason="no chromium here")
@pytest.mark.parametrize(("word", "page"), [("torchrun", "cluster"), ("零样本", "zh/tasks")])
def test_a_visitor_finds_a_page_by_a_word(site, word, page):
    from playwright.sync_api import TimeoutError as NotYetError

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"http://127.0.0.1:{server.server_port}/"
    try:
        with chromium() as browser:
            watched = Watched(browser)
            watched.page.goto(place)
            watched.page.click("input.md-search__input")  # the search opens, and fetches its index
            found = watched.page.locator(f"a.md-search-result__link[href*='{page}']").first
            for _ in range(12):  # what is typed while the index is still being built may go unheard
                watched.page.fill("input.md-search__input", "")
                watched.page.keyboard.type(word)
                watched.page.keyboard.press("End")  # the search listens to keys, and no key types a Chinese character
                with suppress(NotYetError):
                    found.wait_for(timeout=5_000)
                    break
            assert found.is_visible()
            watched.context.close()
    finally:
        server.shutdown()
        server.server_close()

    assert watched.problems == []
    assert [address for address in watched.requests if not address.startswith((place, "blob:", "data:"))] == []
