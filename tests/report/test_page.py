"""The page in a real browser: it is driven as a person would, and must neither complain nor ask for anything."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from eyechart.report.formats import FORMATS, matrix
from eyechart.report.load import Found, load_results
from eyechart.report.page import make_page
from eyechart.report.payload import make_payload
from eyechart.report.table import make_table
from eyechart.results import Result
from support.browser import Watched

pytestmark = pytest.mark.slow  # a real browser

STAMPS, POSTCARDS, RIDDLES, MARKET = "stamps", "postcards", "riddles", "market"


@pytest.fixture(scope="module")
def report(suite, tmp_path_factory):
    """The page of the made-up suite, with published numbers beside."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(make_page(make_payload(load_results([suite]).found, references=["internvl"], version="0")))
    return path


@pytest.fixture(scope="module")
def own_report(suite, tmp_path_factory):
    """The page of the made-up suite alone."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(make_page(make_payload(load_results([suite]).found, version="0")))
    return path


@pytest.fixture
def watched(browser):
    """A page that fails the test if it logs, raises or loads anything."""
    watched = Watched(browser)
    yield watched
    watched.close()


def first_column(page):
    return page.locator("#matrix tbody th.model a").all_inner_texts()


def record_copies(page):
    """Keep what is copied: a browser without a screen has no clipboard to look into."""
    page.evaluate("() => { window.copied = []; navigator.clipboard.writeText = (text) => { copied.push(text); }; }")


def open_benchmark(watched, report, name):
    page = watched.open(report)
    page.locator("#matrix thead a.dataset", has_text=re.compile(f"^{name}$")).first.click()
    page.wait_for_selector("main .crumb")
    return page


def test_the_matrix_opens_sorted_by_the_average_best_first(watched, own_report):
    page = watched.open(own_report)

    averages = [float(text) for text in page.locator("#matrix tbody td.average").all_inner_texts()]

    assert averages == sorted(averages, reverse=True)
    assert page.locator("#matrix tbody tr").count() == 6


def test_a_column_sorts_both_ways_and_says_so(watched, own_report):
    page = watched.open(own_report)
    head = page.locator("#matrix th", has=page.get_by_role("button", name="Sort by digits acc1"))

    def values():
        cells = page.locator("#matrix tbody td:nth-child(3) .number").all_inner_texts()
        return [float(text.strip("●○")) for text in cells]

    page.get_by_role("button", name="Sort by digits acc1").click()
    down = values()
    assert head.get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Sort by digits acc1").click()

    assert down == sorted(down, reverse=True)
    assert values() == sorted(down)
    assert head.get_attribute("aria-sort") == "ascending"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Sort by digits acc1"


def test_models_can_be_filtered_and_hidden(watched, own_report):
    page = watched.open(own_report)

    page.get_by_label("Filter models").fill("snellen")
    expect(page.locator("#matrix tbody tr")).to_have_count(3)
    page.locator("summary", has_text="Models").click()
    page.get_by_label("Snellen-S chart2b").uncheck()

    assert first_column(page) == ["Snellen-L", "Snellen-B"]


def test_another_metric_changes_the_columns(watched, own_report):
    page = watched.open(own_report)

    page.get_by_label("Metric").select_option("image_retrieval_recall@10")

    assert page.locator("#matrix thead a.dataset").all_inner_texts() == [POSTCARDS]


@pytest.mark.parametrize("how", ["plain", "kind", "rank", "chance"])
def test_the_copied_table_is_the_one_that_build_writes(watched, own_report, suite, how):
    """One source: Markdown, LaTeX and CSV of the page equal those of the command, cell by cell."""
    page = watched.open(own_report)
    record_copies(page)
    page.get_by_label("Average", exact=True).select_option(how)
    page.get_by_role("button", name="Sort by model").click()

    for name in ("Markdown", "LaTeX", "CSV"):
        page.get_by_role("button", name=f"Copy as {name}").click()

    table = make_table(load_results([suite]).found)
    grid = matrix(table, table.columns(), how=how)
    written = [FORMATS[kind](grid).decode() for kind in ("markdown", "latex", "csv")]
    assert page.evaluate("copied") == written


def test_numbers_half_way_between_two_digits_are_rounded_alike(watched, tmp_path):
    values = [0.1225, 0.0625, 0.81249999, 0.8125, 0.0005, 1.0, 0.0]
    found = [Found(Result(f"d{i}", "m", "", "t", "en", {"acc": value})) for i, value in enumerate(values)]
    path = tmp_path / "report.html"
    path.write_bytes(make_page(make_payload(found)))
    page = watched.open(path)
    record_copies(page)

    page.get_by_role("button", name="Copy as CSV").click()

    table = make_table(found)
    assert page.evaluate("copied") == [FORMATS["csv"](matrix(table, table.columns())).decode()]


def test_copying_works_without_the_clipboard_interface(watched, own_report):
    page = watched.open(own_report)
    page.evaluate(
        "window.copied = ''; Object.defineProperty(navigator, 'clipboard', {value: undefined});"
        "document.addEventListener('copy', () => { copied = document.activeElement.value; })"
    )

    page.get_by_role("button", name="Copy as CSV").click()

    assert page.evaluate("copied").startswith("model,")


def test_a_cell_opens_its_metrics_settings_and_command(watched, own_report):
    page = watched.open(own_report)

    page.locator("#matrix tbody td[title]").first.click()

    dialog = page.locator("dialog")
    assert "eyechart eval --model" in dialog.locator("code.command").inner_text()
    assert "mean_per_class_recall" in dialog.inner_text()
    page.keyboard.press("Escape")
    assert page.locator("dialog").count() == 0


def test_a_benchmark_shows_classes_curves_prompts_and_calibration(watched, own_report):
    page = open_benchmark(watched, own_report, STAMPS)

    titles = page.locator("main h2").all_inner_texts()

    expected = ["Accuracy at k", "Classes by recall", "Confusions", "Prompt sensitivity", "Calibration", "Samples"]
    assert titles == expected


def test_a_confusion_shows_its_samples(watched, own_report):
    page = open_benchmark(watched, own_report, "digits")
    page.locator("#model-detail").get_by_label("Model").select_option(label="Tumbling-E")
    most = page.locator(".top-confusions button").first
    label, prediction, times = re.fullmatch(r"(.+) taken for (.+) (\d+)\W", most.inner_text()).groups()

    most.click()

    assert page.locator(".samples .note").inner_text() == f"{times} sample{'' if times == '1' else 's'}."
    cards = page.locator(".cards .card")
    assert cards.count() == int(times)
    assert all(card.startswith(f"{label}\ntaken for {prediction}") for card in cards.all_inner_texts())


def test_a_cell_of_the_confusion_image_can_be_clicked_and_reached_by_keys(watched, own_report):
    page = open_benchmark(watched, own_report, "digits")
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    canvas.focus()

    page.keyboard.press("ArrowDown")
    status = page.locator(".confusion .status").inner_text()
    page.keyboard.press("Enter")

    assert "taken for" in status
    assert "taken for" in page.locator(".cell-note").inner_text()
    side = canvas.bounding_box()["width"]
    canvas.click(position={"x": 0.19 * side, "y": 0.19 * side})  # the first cell: apples seen as apples
    expect(page.locator(".cell-note")).to_contain_text("apple recognised")


def test_the_confusion_image_zooms(watched, own_report):
    page = open_benchmark(watched, own_report, "digits")
    whole = page.locator("canvas").evaluate("node => node.toDataURL()")

    page.get_by_role("button", name="Zoom in").click()
    near = page.locator("canvas").evaluate("node => node.toDataURL()")
    page.get_by_role("button", name="Whole").click()

    assert near != whole
    assert page.locator("canvas").evaluate("node => node.toDataURL()") == whole


def test_a_sample_opens_with_what_every_model_said_and_steps_on(watched, own_report):
    page = open_benchmark(watched, own_report, "harbour")
    page.locator(".cards .card button").first.click()
    first = page.locator("dialog h2").inner_text()

    assert "True class" in page.locator("dialog").inner_text()
    assert page.locator("dialog tbody tr").count() == 6
    page.locator("dialog").get_by_role("button", name="Next").click()

    assert page.locator("dialog h2").inner_text() != first


def test_samples_can_be_searched_filtered_and_paged(watched, own_report):
    page = open_benchmark(watched, own_report, "harbour")
    page.locator(".samples").get_by_label("Show").select_option("all")
    assert page.locator(".samples .note").inner_text() == "120 samples."
    assert page.locator(".pager span").inner_text() == "Page 1 of 5"
    page.get_by_role("button", name="Next").click()
    assert page.locator(".pager span").inner_text() == "Page 2 of 5"

    page.get_by_label("Search samples").fill("s0000007")

    expect(page.locator(".cards .card")).to_have_count(1)


def test_what_another_model_gets_right_is_found(watched, own_report):
    page = open_benchmark(watched, own_report, "digits")
    page.locator("#model-detail").get_by_label("Model").select_option(label="Tumbling-E")

    page.locator(".samples").get_by_label("Against").select_option(label="Snellen-L chart2b")
    page.locator(".cards .card button").first.click()

    row = page.locator("dialog tbody tr", has_text="Snellen-L")
    assert row.locator(".verdict").inner_text() == "right"


def test_retrieval_shows_query_what_was_found_and_where_the_target_was(watched, own_report):
    page = open_benchmark(watched, own_report, POSTCARDS)
    page.locator("#model-detail").get_by_label("Model").select_option(label="Tumbling-E")
    page.locator(".samples").get_by_label("Query").select_option("text")

    page.locator(".cards .card button").first.click()

    dialog = page.locator("dialog")
    assert "The right image is at rank" in dialog.inner_text()
    assert dialog.locator("ol.found li").count() == 5


def test_questions_show_options_answer_and_the_rule_that_decided(watched, own_report):
    page = open_benchmark(watched, own_report, RIDDLES)

    page.locator(".cards .card button").first.click()

    text = page.locator("dialog").inner_text()
    assert "Rule that decided" in text
    assert "the right answer" in text


def test_several_labels_show_their_scores(watched, own_report):
    page = open_benchmark(watched, own_report, MARKET)

    page.locator(".cards .card button").first.click()

    assert "True classes" in page.locator("dialog").inner_text()
    assert page.locator("dialog ol.bars li").count() == 5


def test_two_models_are_compared_and_can_be_swapped(watched, own_report):
    page = watched.open(own_report, "#/compare")
    page.get_by_label("A", exact=True).select_option(label="Tumbling-E")
    page.get_by_label("B", exact=True).select_option(label="Snellen-L chart2b")
    expect(page.locator(".verdict-line")).to_contain_text("Snellen-L")
    before = page.locator(".verdict-line").inner_text()

    page.get_by_role("button", name="Swap").click()

    assert "better on 11, worse on 0" in before
    expect(page.locator(".verdict-line")).to_contain_text("better on 0, worse on 11")


def test_results_can_be_narrowed_to_those_with_failures(watched, own_report):
    page = watched.open(own_report, "#/results?only=failures")

    assert page.locator("tbody tr").count() == 6
    page.get_by_role("button", name=re.compile("Details of")).first.click()
    assert "truncated file" in page.locator("dialog").inner_text()


def test_published_tables_stand_in_their_own_form(watched, report):
    page = watched.open(report, "#/published")

    rows = page.locator("section", has_text="Multilingual ImageNet-1K").locator("tbody tr").all_inner_texts()

    assert [re.sub(r"\s+", " ", row) for row in rows] == ["InternVL-C 83.2 64.5 61.5 44.9 65.7 64.0"]


def test_the_theme_can_be_chosen_and_survives_a_reload(watched, own_report):
    page = watched.open(own_report)
    page.get_by_role("button", name="Theme: Auto").click()
    page.get_by_role("button", name="Theme: Light").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"

    page.reload()
    page.wait_for_selector("main h1")

    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_everything_can_be_reached_with_the_keyboard_alone(watched, own_report):
    page = watched.open(own_report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"

    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "dataset":
            break
    page.keyboard.press("Enter")

    page.wait_for_selector("main .crumb")


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("view", ["#/", "#/benchmark/0", "#/benchmark/8", "#/compare", "#/results", "#/published"])
def test_no_view_is_wider_than_the_window(browser, report, width, view):
    watched = Watched(browser, width=width)
    page = watched.open(report, view)

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    watched.close()
