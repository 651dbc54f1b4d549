"""Every example on a documentation page runs and prints what the page shows (support.doc_outputs has the syntax)."""

import re

import pytest

from support.doc_outputs import fitted, on_screen, page_with_outputs, same
from support.doc_pages import CHINESE, FENCE, PAGES, ROOT, blocks, original_of

RUN = [page for page in PAGES if any("skip" not in options for _, options, _ in blocks(page))]
WIDEST = 88
"""Columns of a code block that GitHub and the site show without scrolling."""


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_on_the_page_print_what_it_shows(page, tmp_path):
    shown = page.read_text(encoding="utf-8")

    # Line breaks may depend on how long a run took, so words are compared.
    assert page_with_outputs(page, tmp_path, words_only=True) == shown, "run: python scripts/docs_outputs.py"


def test_a_page_shows_an_output_or_parts_of_it():
    printed = ["reading: 60 in 0.8 s", "acc1   86.67 %", "acc5  100.00 %", "-> report.html, 0.5 MB"]

    assert same(["reading: 60 in 12 s", *printed[1:]], printed)
    assert same([printed[0], "...", printed[3]], printed)
    assert same(["...", "acc1  86.67 %", "..."], printed)
    assert same(["..."], printed)
    assert same(["...", "acc1", "86.67 % acc5", "..."], printed, words_only=True)
    assert not same(["...", "acc1", "86.67 % acc5", "..."], printed)
    assert not same(["...", "acc1  86.6", "..."], printed, words_only=True)
    assert not same(["...", "acc1  86.68 %", "..."], printed)
    assert not same(printed[:3], printed)
    assert not same([printed[1], "..."], printed)


def test_an_update_shows_as_many_lines_of_each_part_as_before():
    printed = ["a", "b", "acc1 90 %", "c", "d", "e"]

    assert fitted(["A", "...", "acc1 80 %", "...", "E"], printed) == ["a", "...", "acc1 90 %", "...", "e"]
    assert fitted(["a", "...", "e"], printed) == ["a", "...", "e"]
    assert fitted(["A"], printed) == printed
    assert fitted([], [str(line) for line in range(99)])[14:17] == ["14", "...", "94"]


def test_a_screen_shows_what_was_written_last():
    assert on_screen("50 %\r\x1b[2K100 %\r\n\x1b[1mbold\x1b[0m\r\nold\r\n\x1b[1A\x1b[2Knew\r\n\r\n") == [
        "100 %",
        "bold",
        "new",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_fit_the_page(page):
    lines = [line for _, _, body in blocks(page) for line in body.splitlines()]

    assert [line for line in lines if len(line) > WIDEST] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_of_the_project_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_chinese_page_and_its_original_know_each_other(page):
    assert re.search(rf"\[English\]\([./]*{original_of(page).name}\)", page.read_text(encoding="utf-8"))
    assert original_of(page).is_file()


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_chinese_page_links_to_chinese_pages(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\[(?!(?:English|英文)\])[^]]*\]\(([^)#\s]+\.md)\)", text)
    targets = {(page.parent / link).resolve() for link in links if "://" not in link}

    assert targets.isdisjoint({original_of(other) for other in CHINESE})
