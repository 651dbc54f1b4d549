"""The first view in a real browser: intervals, images, names of points, a phone, and who draws last."""

from __future__ import annotations

import re

import pytest

from eyechart.report.loader import LoadedResult, load_results
from eyechart.report.page import make_page
from eyechart.report.page.payload import make_payload
from eyechart.results import Result
from eyechart.results.views import spread
from eyechart.types import Metric
from support.browser import expect, place_of
from support.make_results import sit

pytestmark = pytest.mark.slow  # a real browser

MINUS = "\u2212"
SLOW = """() => {
  const real = Response.prototype.json;
  window.held = [];
  Response.prototype.json = async function () {
    const value = await real.call(this);
    await new Promise((go) => held.push(go));
    return value;
  };
}"""


def write(tmp_path, found):
    path = tmp_path / "report.html"
    path.write_bytes(make_page(make_payload(found)))
    return path


def of_size(name, parameters, value):
    """A result of a model of some size."""
    card = {"parameters": parameters}
    return LoadedResult(
        Result(
            "birds", name, "", "zeroshot_classification", "en", {"acc1": Metric(value, primary=True)}, model_card=card
        )
    )


def test_a_view_that_was_slow_to_unpack_does_not_draw_over_a_later_one(watched, report):
    page = watched.open(report)
    page.evaluate(SLOW)

    page.evaluate("() => { location.hash = '#/compare'; }")
    page.wait_for_function("() => held.length === 1")
    page.evaluate("() => { location.hash = '#/results'; }")
    watched.drawn()
    page.evaluate("() => { held.forEach((go) => go()); }")
    page.evaluate("() => new Promise((go) => setTimeout(go))")

    assert page.locator("main h1").inner_text() == "Results"


def test_a_result_that_was_slow_to_unpack_does_not_open_over_another_view(watched, report):
    page = watched.open(report)
    page.evaluate("() => { document.querySelector('.mistakes')?.remove(); }")
    page.evaluate(SLOW)
    page.locator("#matrix td[title]").last.click()
    page.wait_for_function("() => held.length > 0")

    page.evaluate("() => { location.hash = '#/results'; }")
    watched.drawn()
    page.evaluate("() => { held.forEach((go) => go()); }")
    page.evaluate("() => new Promise((go) => setTimeout(go))")

    assert page.locator("dialog[open]").count() == 0


def test_an_interval_shows_both_sides_where_they_differ(watched, exam_data, tmp_path):
    perfect = sit(exam_data, tmp_path / "perfect.json", "perfect")
    half = sit(exam_data, tmp_path / "half.json", "half", range(50))
    page = watched.open(write(tmp_path, load_results([tmp_path / "perfect.json", tmp_path / "half.json"]).found))

    shown = dict(
        zip(
            page.locator("#matrix tbody th.model a").all_inner_texts(),
            page.locator("#matrix tbody td.best small, #matrix tbody td:nth-child(3) small").all_inner_texts(),
            strict=True,
        )
    )

    assert shown["perfect"] == spread(perfect.values["acc1"]).replace("-", MINUS)
    assert re.fullmatch(rf"{MINUS}\d\.\d \+0\.0", shown["perfect"])
    assert shown["half"] == spread(half.values["acc1"])
    assert shown["half"].startswith("±")


def test_the_overview_shows_the_most_confident_mistakes_and_each_leads_to_its_sample(watched, report, suite):
    page = watched.open(report)
    b = place_of(report, "digits")
    strip = page.locator(f".mistake-strip[data-benchmark='{b}']")
    strip.scroll_into_view_if_needed()
    expect(strip.locator("li").first).to_be_visible()
    (leader,) = {
        link.split("model=")[1].split("&")[0]
        for link in strip.locator("li a").evaluate_all("n => n.map((a) => a.hash)")
    }
    told = strip.locator("li").first.inner_text().split("\n")

    watched.follow(strip.locator("li a").first)

    dialog = page.locator("dialog[open]")
    assert told[0] in dialog.inner_text()
    assert page.locator("dialog .verdict.bad").count() >= 1
    assert page.locator("main select").nth(1).input_value() == leader


def test_mistakes_come_by_confidence(watched, report, suite):
    """The first image is of the mistake whose wrong class is furthest ahead, among those that have an image."""
    page = watched.open(report)
    b = place_of(report, "digits")
    strip = page.locator(f".mistake-strip[data-benchmark='{b}']")
    strip.scroll_into_view_if_needed()
    expect(strip.locator("li").first).to_be_visible()
    label = strip.locator("h3 .hint").inner_text().strip()
    (found,) = load_results([suite / f"digits_{label}_en_zeroshot_classification.json"]).found
    records = list(found.result.iter_records())
    with_image = {record["id"] for record in records if "thumbnail" in record}
    wrong = [record for record in records if record["rank"] > 1 and record["id"] in with_image]
    worst = max(wrong, key=lambda record: record["scores"][0] - record["label_score"])

    watched.follow(strip.locator("li a").first)

    assert worst["id"] in page.locator("dialog[open] h2").inner_text()


def test_without_images_there_is_no_strip(watched, tmp_path):
    page = watched.open(write(tmp_path, [of_size("m", 10**6, 0.1)]))

    assert page.locator(".mistakes").count() == 0


def test_no_point_of_the_scatter_is_without_its_name(watched, tmp_path):
    crowd = [of_size(f"model-with-a-long-name-{i}", 10**8 + i, 0.7 + 0.0001 * i) for i in range(30)]
    alone = of_size("far away", 10**6, 0.1)
    page = watched.open(write(tmp_path, [*crowd, alone]))
    page.locator("#scatter circle").first.wait_for()

    beside = page.locator("#scatter text.name:not(.number)").all_text_contents()
    numbers = page.locator("#scatter text.number").all_text_contents()
    listed = page.locator("#scatter .numbered li").all_inner_texts()

    assert "far away" in beside
    assert sorted([*beside, *listed]) == sorted(item.result.model for item in (*crowd, alone))
    assert [int(text) for text in numbers] == list(range(1, len(listed) + 1))
    assert len(beside) > 5  # some of the crowd find a place at the end of a line
    assert names_apart(page)


def test_wide_letters_get_the_room_they_need(watched, tmp_path):
    names = [
        f"{name}-{i}" for i, name in enumerate(["中文视觉语言模型大号", "日本語クリップ模型", "한국어모델이름"] * 8)
    ]
    grid = [of_size(name, 10**8 * (1 + i % 5), 0.5 + 0.03 * (i // 5)) for i, name in enumerate(names)]
    page = watched.open(write(tmp_path, grid))
    page.locator("#scatter circle").first.wait_for()

    assert names_apart(page)


def names_apart(page):
    boxes = page.locator("#scatter text.name:not(.number)").evaluate_all(
        "nodes => nodes.map((node) => node.getBBox()).map(({ x, y, width, height }) => [x, y, x + width, y + height])"
    )
    return all(
        right <= x0 + 3 or x1 <= left + 3 or bottom <= y0 + 4 or y1 <= top + 4
        for i, (left, top, right, bottom) in enumerate(boxes)
        for x0, y0, x1, y1 in boxes[i + 1 :]
    )


def test_on_a_phone_the_table_comes_first_and_the_controls_unfold(watched, report):
    watched.page.set_viewport_size({"width": 400, "height": 800})
    page = watched.open(report)

    assert page.locator("#matrix table").bounding_box()["y"] < 330
    assert not page.get_by_label("Metric").is_visible()
    page.locator(".controls > summary").click()
    page.get_by_label("Metric").select_option("ece")
    assert "ece" in page.locator("#matrix thead").inner_text()


def test_on_a_screen_the_controls_are_there(watched, report):
    page = watched.open(report)

    assert page.get_by_label("Metric").is_visible()
    assert not page.locator(".controls > summary").is_visible()


def test_what_is_right_stands_beside_what_retrieval_found(watched, report, suite):
    """An image shows its right caption, and a text its right image, also where it was not among the first."""
    b = place_of(report, "postcards", "zeroshot_retrieval")
    page = watched.open(report, f"#/benchmark/{b}")
    model = page.locator("#model-detail option:checked").inner_text()
    (found,) = load_results([suite / f"postcards_{model}_en_zeroshot_retrieval.json"]).found
    records = list(found.result.iter_records())
    texts = {record["id"]: record["text"] for record in records if record["query"] == "text"}
    of_image = {record["id"]: record["image"] for record in records if record["query"] == "text"}
    missed = [record for record in records if record["query"] == "image" and record["rank"] > 1]
    worst = max(missed, key=lambda record: record["rank"])
    right = {text for name, text in texts.items() if of_image[name] == worst["id"]}

    page.get_by_label("Query").select_option("image")
    card = page.locator(".card").first
    assert card.locator("q.good-text").inner_text().strip('"\u201c\u201d') in right
    assert texts[worst["top"][0]] in card.locator("small").inner_text()
    card.locator("button").click()
    assert set(page.locator("dialog .right-texts li").all_inner_texts()) == right
    page.keyboard.press("Escape")

    page.get_by_label("Query").select_option("text")
    pictured = page.locator(".card", has=page.locator("img.target"))
    assert pictured.count() > 0
    assert pictured.first.locator("img.target").count() == 1
