"""The docs use one word per idea: those of the table in CONTRIBUTING.md."""

import re

import pytest

from support.doc_pages import FENCE, PAGES, ROOT

ORDINARY = {"rating", "reading", "writer", "main metric"}
"""Words of the table that are also ordinary English, or names in other tools: a person has to judge them."""
TABLE = re.search(r"## Words\n(.*?)\n## ", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)[1]
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", TABLE, re.MULTILINE)[1:]
NEVER = {word for _, words in ROWS for word in words.split(", ")} - ORDINARY - {"question and answer", "for retrieval"}


def test_the_table_is_read():
    assert {"picture", "listing", "headline", "model that writes"} <= NEVER


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_uses_a_word_that_we_do_not_say(page):
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", FENCE.sub("", page.read_text(encoding="utf-8")))

    assert [word for word in sorted(NEVER) if re.search(rf"\b{word}s?\b", prose, re.IGNORECASE)] == []


ITS_FLAGS = "from-clip-benchmark.md"
"""The page that compares CLIP_benchmark's spelling with ours."""


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != ITS_FLAGS], ids=lambda page: str(page.relative_to(ROOT))
)
def test_pages_show_flags_with_hyphens_as_the_help_does(page):
    text = page.read_text(encoding="utf-8").replace("`--dataset_root` are\nthe same", "")
    ours = re.sub(r"^\$ clip_benchmark(.*\\\n)*.*", "", text, flags=re.MULTILINE)

    assert re.findall(r"(?<![\w-])--[a-z]+_\w+", ours) == []
