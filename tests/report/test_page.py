"""The page in a real browser: it is driven as a person would, and must neither complain nor ask for anything."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from eyechart.report.loader import LoadedResult, load_results
from eyechart.report.page import make_page
from eyechart.report.page.payload import make_payload
from eyechart.report.paired_records import RecordsCache
from eyechart.report.result_table import make_table
from eyechart.report.table_formats import FORMATS, matrix
from eyechart.report.verdict import make_verdict
from eyechart.results import Result
from eyechart.types import Metric
from support.browser import expect
from support.make_results import sit

pytestmark = pytest.mark.slow  # a real browser

POSTCARDS, MARKET, STRONG, WEAK = "postcards", "market", "Snellen-L", "Tumbling-E"


def first_column(page):
    return page.locator("#matrix tbody th.model a").all_inner_texts()


def record_copies(page):
    """Keep what is copied: a browser without a screen has no clipboard to look into."""
    page.evaluate("() => { window.copied = []; navigator.clipboard.writeText = (text) => { copied.push(text); }; }")


def open_benchmark(watched, report, name):
    page = watched.open(report)
    return watched.follow(page.locator("#matrix thead a.dataset", has_text=re.compile(f"^{name}$")).first)


def cells_of(page, column):
    """The cells of a benchmark's column of the matrix: its heading's place among those of benchmarks counts from 0."""
    before = page.locator("#matrix tbody tr").first.locator("td:not([title])").count()
    return page.locator(f"#matrix tbody td:nth-child({before + column + 2})")


def shown_numbers(page, column):
    """The numbers of a benchmark's column of the matrix, from the top."""
    return [float(text.strip("●○*")) for text in cells_of(page, column).locator(".number").all_inner_texts()]


def averages_of(page):
    """The averages from the top, without their intervals."""
    return [float(text.split()[0]) for text in page.locator("#matrix tbody td.average").all_inner_texts()]


def test_the_matrix_opens_sorted_by_rank_and_models_that_share_ranks_stand_by_name(watched, report, suite):
    page = watched.open(report)
    found = make_verdict(RecordsCache(make_table(load_results([suite]).found)))
    ranks = {m: (own.rank_low, own.rank_high) for m, own in found.averages.items()}

    shown = page.locator("#matrix tbody td.rank").all_inner_texts()
    names = page.locator("#matrix tbody th.model a").all_inner_texts()

    expected = [f"{low}\u2013{high}" if low < high else str(low) for low, high in sorted(ranks.values())]
    assert shown == expected
    assert len(set(shown)) > 1
    for rank in set(shown):
        sharing = [name for name, own in zip(names, shown, strict=True) if own == rank]
        assert sharing == sorted(sharing)
    page.get_by_role("button", name="Sort by Average").click()
    assert averages_of(page) == sorted(averages_of(page), reverse=True)


def test_an_average_has_the_interval_of_the_verdict_only_for_what_the_verdict_averages(watched, report, suite):
    page = watched.open(report)
    found = make_verdict(RecordsCache(make_table(load_results([suite]).found)))
    ends = page.locator("#matrix tbody td.average small")
    widths = [sum(float(part.strip("±+\u2212")) for part in text.split()) for text in ends.all_inner_texts()]

    assert len(widths) == 6
    exact = sorted(100 * (own.high - own.low) for own in found.averages.values())
    for width, own in zip(sorted(widths), exact, strict=True):
        assert width == pytest.approx(own, abs=0.11) or 2 * width == pytest.approx(own, abs=0.11)  # ± is one side

    page.get_by_label("Average", exact=True).select_option("kind")
    assert ends.count() == 0
    assert page.locator("#matrix td.rank").count() == 0
    page.get_by_label("Average", exact=True).select_option("plain")
    page.locator(".picker summary", has_text="Benchmarks").click()
    page.locator(".picker-list").last.locator("input").first.uncheck()
    assert ends.count() == 0
    assert page.locator("#matrix td.rank").count() == 0


def test_a_column_sorts_both_ways_and_says_so(watched, report):
    page = watched.open(report)
    head = page.locator("#matrix th", has=page.get_by_role("button", name="Sort by digits acc1"))

    page.get_by_role("button", name="Sort by digits acc1").click()
    down = shown_numbers(page, 0)
    assert head.get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Sort by digits acc1").click()

    assert down == sorted(down, reverse=True)
    assert shown_numbers(page, 0) == sorted(down)
    assert head.get_attribute("aria-sort") == "ascending"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Sort by digits acc1"


def test_where_lower_is_better_the_smallest_number_is_best_and_comes_first(watched, report):
    page = watched.open(report)
    page.get_by_label("Metric").select_option("ece")
    averages = averages_of(page)
    head = page.locator("#matrix th", has=page.get_by_role("button", name="Sort by digits ece"))

    page.get_by_role("button", name="Sort by digits ece").click()

    numbers = shown_numbers(page, 0)
    assert averages == sorted(averages)
    assert numbers == sorted(numbers)
    assert head.get_attribute("aria-sort") == "ascending"
    cells = cells_of(page, 0)
    assert cells.first.get_attribute("class") == "best"
    shades = cells.evaluate_all("nodes => nodes.map((node) => Number(node.style.getPropertyValue('--t')))")
    assert shades[0] == 1
    assert shades == sorted(shades, reverse=True)
    assert "↓ lower is better" in page.locator(".legend").inner_text()
    watched.follow(page.locator("#matrix thead a.dataset").first)
    page.locator("main .toolbar").first.get_by_label("Metric").select_option(label="ece")
    page.locator(".chart .value").first.wait_for()
    plotted = [float(text) for text in page.locator(".chart").first.locator(".value").all_text_contents()]
    assert plotted == sorted(plotted)


def test_models_can_be_filtered_and_hidden(watched, report):
    page = watched.open(report)

    page.get_by_label("Filter models").fill("snellen")
    expect(page.locator("#matrix tbody tr")).to_have_count(3)
    page.locator("summary", has_text="Models").click()
    page.get_by_label("Snellen-S").uncheck()

    assert first_column(page) == ["Snellen-L", "Snellen-B"]


def test_another_metric_changes_the_columns(watched, report):
    page = watched.open(report)

    page.get_by_label("Metric").select_option("image_retrieval_recall@10")

    assert page.locator("#matrix thead a.dataset").all_inner_texts() == [POSTCARDS]


@pytest.mark.parametrize(
    ("how", "metric"), [("plain", ""), ("kind", ""), ("rank", ""), ("chance", ""), ("plain", "ece"), ("rank", "ece")]
)
def test_the_copied_table_is_the_one_that_build_writes(watched, report, suite, how, metric):
    """One source: Markdown, LaTeX and CSV of the page equal those of the command, cell by cell."""
    page = watched.open(report)
    record_copies(page)
    page.get_by_label("Average", exact=True).select_option(how)
    page.get_by_label("Metric").select_option(metric)
    page.get_by_role("button", name="Sort by model").click()

    for name in ("Markdown", "LaTeX", "CSV"):
        page.get_by_role("button", name=f"Copy as {name}").click()

    table = make_table(load_results([suite]).found)
    columns = table.columns(metric or None)
    grid = matrix(table, columns, how=how, verdict=make_verdict(RecordsCache(table), metric or None))
    best, tied = ({place for place in places if place[1] <= len(columns)} for places in (grid.best, grid.tied))
    grid = replace(grid, best=best, tied=tied, caption="")  # the page has no caption, and marks no averages
    written = [FORMATS[kind](grid).decode() for kind in ("markdown", "latex", "csv")]
    assert page.evaluate("copied") == written


def test_numbers_half_way_between_two_digits_are_rounded_alike(watched, tmp_path):
    values = [0.1225, 0.0625, 0.81249999, 0.8125, 0.0005, 1.0, 0.0]
    metrics = [{"acc1": Metric(value, primary=True)} for value in values]
    found = [
        LoadedResult(Result(f"d{i}", "m", "", "zeroshot_classification", "en", metric))
        for i, metric in enumerate(metrics)
    ]
    path = tmp_path / "report.html"
    path.write_bytes(make_page(make_payload(found)))
    page = watched.open(path)
    record_copies(page)

    page.get_by_role("button", name="Copy as CSV").click()

    table = make_table(found)
    assert page.evaluate("copied") == [FORMATS["csv"](matrix(table, table.columns())).decode()]


def test_what_a_spreadsheet_would_compute_is_copied_as_a_text(watched, tmp_path):
    metric = Metric(0.5, primary=True)
    found = [
        LoadedResult(Result("=d", name, "", "zeroshot_classification", "en", {"acc1": metric}))
        for name in ("=1+1", "-2", "'@x", 'a"b,c', "-1|<b>\n")
    ]
    path = tmp_path / "report.html"
    path.write_bytes(make_page(make_payload(found)))
    page = watched.open(path)
    record_copies(page)
    page.get_by_role("button", name="Sort by model").click()

    for name in ("CSV", "Markdown"):
        page.get_by_role("button", name=f"Copy as {name}").click()

    table = make_table(found)
    grid = replace(matrix(table, table.columns()), caption="")
    assert page.evaluate("copied") == [FORMATS[kind](grid).decode() for kind in ("csv", "markdown")]


def test_points_are_copied_as_they_are_shown(watched, answers_report):
    page = watched.open(answers_report, "#/compare")
    record_copies(page)
    shown = page.locator("tbody tr", has_text="CIDEr").locator("td").all_inner_texts()

    page.get_by_role("button", name="Copy as CSV").click()

    (copied,) = [line.split(",") for line in page.evaluate("copied")[0].splitlines() if "CIDEr" in line]
    assert [float(cell) for cell in copied[1:3]] == pytest.approx([float(cell) for cell in shown[:2]], abs=0.06)


def test_what_a_model_has_not_seen_is_neither_right_nor_taken_for_anything(watched, exam_data, tmp_path):
    sit(exam_data, tmp_path / "whole.json", "whole", misses=[1])
    sit(exam_data, tmp_path / "blind.json", "blind", blind=[1], on_error="skip")
    path = tmp_path / "report.html"
    path.write_bytes(make_page(make_payload(load_results([tmp_path]).found)))
    page = open_benchmark(watched, path, "exam")
    page.locator("#model-detail").get_by_label("Model").select_option(label="whole")

    page.locator(".cards .card button").first.click()

    cells = page.locator("dialog tbody tr", has_text="blind").locator("td")
    expect(cells).to_have_text(["\u2013", "not judged"])


def test_copying_works_without_the_clipboard_interface(watched, report):
    page = watched.open(report)
    page.evaluate(
        "window.copied = ''; Object.defineProperty(navigator, 'clipboard', {value: undefined});"
        "document.addEventListener('copy', () => { copied = document.activeElement.value; })"
    )

    page.get_by_role("button", name="Copy as CSV").click()

    assert page.evaluate("copied").startswith("model,")


def test_a_cell_opens_its_metrics_settings_and_command(watched, report):
    page = watched.open(report)

    page.locator("#matrix tbody td[title]").first.click()

    dialog = page.locator("dialog")
    assert dialog.locator("code.command").inner_text()
    assert "mean_per_class_recall" in dialog.inner_text()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)


def test_a_benchmark_shows_classes_curves_prompts_and_calibration(watched, report):
    page = open_benchmark(watched, report, "stamps")

    titles = page.locator("main h2").all_inner_texts()

    expected = ["Accuracy at k", "Classes by recall", "Confusions", "Prompt sensitivity", "Calibration", "Samples"]
    assert titles == expected


def test_a_confusion_shows_its_samples(watched, report):
    page = open_benchmark(watched, report, "digits")
    page.locator("#model-detail").get_by_label("Model").select_option(label=WEAK)
    most = page.locator(".top-confusions button").first
    label, prediction, times = re.fullmatch(r"(.+) taken for (.+) (\d+)\W", most.inner_text()).groups()

    most.click()

    assert page.locator(".samples .note").inner_text() == f"{times} sample{'' if times == '1' else 's'}."
    cards = page.locator(".cards .card")
    assert cards.count() == int(times)
    assert all(card.startswith(f"{label}\ntaken for {prediction}") for card in cards.all_inner_texts())


def test_a_cell_of_the_confusion_image_can_be_clicked_and_reached_by_keys(watched, report):
    page = open_benchmark(watched, report, "digits")
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    canvas.focus()

    page.keyboard.press("ArrowDown")
    status = page.locator(".confusion .status").inner_text()
    page.keyboard.press("Enter")

    assert "taken for" in status
    assert "taken for" in page.locator(".cell-note").inner_text()
    side = canvas.bounding_box()["width"]
    canvas.click(position={"x": 0.19 * side, "y": 0.19 * side})  # the first cell: red seen as red
    expect(page.locator(".cell-note")).to_contain_text("red beside red recognised")


def test_the_confusion_image_zooms(watched, report):
    page = open_benchmark(watched, report, "digits")
    whole = page.locator("canvas").evaluate("node => node.toDataURL()")

    page.get_by_role("button", name="Zoom in").click()
    near = page.locator("canvas").evaluate("node => node.toDataURL()")
    page.get_by_role("button", name="Whole").click()

    assert near != whole
    assert page.locator("canvas").evaluate("node => node.toDataURL()") == whole


def test_a_sample_opens_with_what_every_model_said_and_steps_on(watched, report):
    page = open_benchmark(watched, report, "harbour")
    page.locator(".cards .card button").first.click()
    first = page.locator("dialog h2").inner_text()

    assert "True class" in page.locator("dialog").inner_text()
    expect(page.locator("dialog tbody tr")).to_have_count(6)
    page.locator("dialog").get_by_role("button", name="Next").click()

    assert page.locator("dialog h2").inner_text() != first


def test_samples_can_be_searched_filtered_and_paged(watched, report):
    page = open_benchmark(watched, report, "harbour")
    page.locator(".samples").get_by_label("Show").select_option("all")
    assert page.locator(".samples .note").inner_text() == "83 samples."
    assert page.locator(".pager span").inner_text() == "Page 1 of 4"
    page.get_by_role("button", name="Next").click()
    assert page.locator(".pager span").inner_text() == "Page 2 of 4"

    page.get_by_label("Search samples").fill("s00007")

    expect(page.locator(".cards .card")).to_have_count(1)


def test_what_another_model_gets_right_is_found(watched, report):
    page = open_benchmark(watched, report, "digits")
    page.locator("#model-detail").get_by_label("Model").select_option(label=WEAK)

    page.locator(".samples").get_by_label("Against").select_option(label=STRONG)
    page.locator(".cards .card button").first.click()

    row = page.locator("dialog tbody tr", has_text="Snellen-L")
    assert row.locator(".verdict").inner_text() == "right"


def test_retrieval_shows_query_what_was_found_and_where_the_target_was(watched, report):
    page = open_benchmark(watched, report, POSTCARDS)
    page.locator("#model-detail").get_by_label("Model").select_option(label=WEAK)
    page.locator(".samples").get_by_label("Query").select_option("text")

    page.locator(".cards .card button").first.click()

    dialog = page.locator("dialog")
    assert "The right image is at rank" in dialog.inner_text()
    expect(dialog.locator("ol.found li")).to_have_count(5)


def test_questions_show_options_answer_and_the_rule_that_decided(watched, answers_report):
    page = watched.open(answers_report)
    watched.follow(page.locator("#matrix thead a.dataset", has_text="flags"))
    page.locator(".samples").get_by_label("Show").select_option("all")

    page.locator(".cards .card button").first.click()

    text = page.locator("dialog").inner_text()
    assert "Rule that decided" in text
    assert "the right answer" in text


def test_an_answer_that_is_half_right_says_how_much(watched, answers_report):
    page = watched.open(answers_report)
    watched.follow(page.locator("#matrix thead a.dataset", has_text="descriptions"))
    page.locator("#model-detail").get_by_label("Model").select_option(label="support.chart_models:BlurredVLM")

    page.locator(".cards .card button").last.click()

    assert re.fullmatch(r"\d+ % right", page.locator("dialog .toolbar .verdict").inner_text())


def test_a_metric_that_a_page_does_not_have_is_not_kept_from_another_page(watched, report, answers_report):
    watched.open(report).get_by_label("Metric").select_option("ece")

    page = watched.open(answers_report)

    assert page.locator("#matrix thead a.dataset").count() == 3


def test_several_labels_show_their_scores(watched, report):
    page = open_benchmark(watched, report, MARKET)

    page.locator(".cards .card button").first.click()

    assert "True classes" in page.locator("dialog").inner_text()
    expect(page.locator("dialog ol.bars li")).to_have_count(5)


def test_two_models_are_compared_and_can_be_swapped(watched, report):
    page = watched.open(report, "#/compare")
    page.get_by_label("A", exact=True).select_option(label=WEAK)
    page.get_by_label("B", exact=True).select_option(label=STRONG)
    expect(page.locator(".verdict-line")).to_contain_text("Snellen-L")
    before = page.locator(".verdict-line").inner_text()

    page.get_by_role("button", name="Swap").click()

    better = int(re.search(r"better on (\d+), worse on 0", before)[1])
    assert better > 6
    expect(page.locator(".verdict-line")).to_contain_text(f"better on 0, worse on {better}")


def test_a_number_over_fewer_samples_than_listed_says_so(watched, report):
    page = watched.open(report)
    column = page.locator("#matrix thead a.dataset").all_inner_texts().index("harbour")

    cell = cells_of(page, column).first

    assert cell.get_by_role("img", name="lost samples: 1 failed").inner_text() == "*"
    assert "lost samples: 1 failed" in cell.get_attribute("title")
    assert "6 results with lost samples" in page.locator(".notices summary").inner_text()
    assert page.locator(".footnotes").all_inner_texts() == ["* 6 models on harbour: 1 failed"]
    watched.open(report, "#/compare")
    row = page.locator("tbody tr", has_text="harbour")
    assert row.locator(".mark").all_inner_texts() == ["*", "*"]
    assert "failed" not in row.inner_text()
    assert "on harbour: 1 failed" in page.locator(".footnotes").inner_text()


def test_results_can_be_narrowed_to_those_over_fewer_samples(watched, report):
    page = watched.open(report, "#/results?only=fewer")

    assert page.locator("tbody tr").count() == 6
    page.get_by_role("button", name=re.compile("Details of")).first.click()
    assert "With lost samples: 1 failed." in page.locator("dialog").inner_text()
    assert "s00000.png: cannot decode the image" in page.locator("dialog").inner_text()


def test_published_tables_stand_in_their_own_form(watched, published_report):
    page = watched.open(published_report, "#/published")

    rows = page.locator("section", has_text="Multilingual ImageNet-1K").locator("tbody tr").all_inner_texts()

    assert [re.sub(r"\s+", " ", row) for row in rows] == ["InternVL-C 83.2 64.5 61.5 44.9 65.7 64.0"]


def test_the_theme_can_be_chosen_and_survives_a_reload(watched, report):
    page = watched.open(report)
    page.get_by_role("button", name="Theme: Auto").click()
    page.get_by_role("button", name="Theme: Light").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"

    page.reload()
    watched.drawn()

    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_everything_can_be_reached_with_the_keyboard_alone(watched, report):
    page = watched.open(report)
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


VIEWS = ["#/", "#/benchmark/0", "#/benchmark/4", "#/benchmark/9", "#/compare", "#/results"]


@pytest.mark.parametrize("width", [400, 1400])
def test_no_view_is_wider_than_the_window(watched, report, published_report, width):
    watched.page.set_viewport_size({"width": width, "height": 900})
    views = [*((report, view) for view in VIEWS), (published_report, "#/published")]

    widths = {view: watched.open(page, view).evaluate("document.documentElement.scrollWidth") for page, view in views}

    assert {view: found for view, found in widths.items() if found > width} == {}


def test_a_benchmark_with_a_control_says_what_the_images_add(watched, control_report):
    page = watched.open(control_report)
    watched.follow(page.locator("#matrix thead a.dataset").first)
    section = page.locator("section.blind")

    cells = section.locator("tbody tr").first.locator("td").all_inner_texts()
    seeing, other, gain = (float(text.replace("\u2212", "-")) for text in cells[:3])
    assert gain == pytest.approx(seeing - other, abs=0.11)
    assert gain > 0

    section.get_by_role("button", name="Show the questions answered with the image of another").click()
    right = page.locator("section.samples .note").inner_text()
    assert page.locator("#model-detail select").locator("option:checked").inner_text().endswith("(swapped)")
    assert right.split()[0] == str(round(other / 100 * int(cells[4])))
