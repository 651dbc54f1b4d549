"""The first view in a real browser: intervals, images, names of points, a phone, and who draws last."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from eyechart.report.loader import LoadedResult, load_results
from eyechart.report.page import make_page
from eyechart.report.page.payload import make_payload
from eyechart.results import Result
from eyechart.results.views import spread
from eyechart.types import Metric
from support.browser import expect, place_of
from support.make_results import exam, make_answers, sit, write_lists

pytestmark = pytest.mark.slow  # a real browser

MINUS = "\u2212"
DASH = "\u2013"
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
            page.locator("#matrix tbody td[title] small").all_inner_texts(),
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


def test_on_a_phone_the_verdict_and_the_table_come_first_and_the_controls_unfold(watched, report):
    watched.page.set_viewport_size({"width": 400, "height": 800})
    page = watched.open(report)

    assert page.locator("#verdict").bounding_box()["y"] < 200
    assert page.locator("#matrix table").bounding_box()["y"] < 450
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


# The verdict on the first screen.


def guessing(exam_data, folder, names=("guess-a", "guess-b", "guess-c")):
    """Results of models that get half of two classes right, which is chance."""
    for seed, name in enumerate(names):
        sit(exam_data, folder / f"{name}.json", name, range(25 * seed, 25 * seed + 50))
    return load_results([folder]).found


def tones(page):
    return page.locator("#matrix tbody td[title]").evaluate_all("n => n.map((td) => td.style.getPropertyValue('--t'))")


def test_among_models_that_guess_nobody_is_first(watched, exam_data, tmp_path):
    page = watched.open(write(tmp_path, guessing(exam_data, tmp_path / "results")))

    assert page.locator("#verdict").inner_text() == "No model is above chance on exam."
    assert page.locator("#matrix tbody td.at-chance[title]").count() == 3
    assert page.locator("#matrix .best, #matrix .ahead").count() == 0
    assert set(tones(page)) == {"0.000"}
    assert page.locator("#matrix tbody td.rank").all_inner_texts() == [f"1{DASH}3"] * 3
    assert page.locator("#matrix tbody th.model a").all_inner_texts() == ["guess-a", "guess-b", "guess-c"]
    assert page.locator("#matrix tfoot tr").inner_text().split() == ["Chance", "50.0", "50.0"]


def test_what_is_not_separable_from_the_best_looks_like_it(watched, exam_data, tmp_path):
    for name, misses in {"a": range(2), "b": range(1), "c": range(40)}.items():
        sit(exam_data, tmp_path / f"results/{name}.json", name, misses)
    page = watched.open(write(tmp_path, load_results([tmp_path / "results"]).found))

    tied, best, behind = map(float, tones(page))

    assert (tied, best) == (1, 1)
    assert behind == pytest.approx((0.6 - 0.5) / (0.99 - 0.5), abs=1e-3)  # from chance to the best
    assert page.locator("#matrix .ahead").count() == 0
    assert page.locator("#matrix tbody td.rank").all_inner_texts() == [f"1{DASH}2", f"1{DASH}2", "3"]


def test_the_sentence_says_what_it_is_about_where_only_a_part_is_shown(watched, exam_data, tmp_path):
    page = watched.open(write(tmp_path, guessing(exam_data, tmp_path / "results")))
    scope = "Over all models and benchmarks, by primary metrics:"
    assert scope not in page.locator("#verdict").inner_text()

    page.get_by_label("Filter models").fill("guess-a")
    expect(page.locator("#matrix tbody tr")).to_have_count(1)

    assert page.locator("#verdict").inner_text().split("\n") == [scope, "", "No model is above chance on exam."]
    page.get_by_label("Filter models").fill("")
    expect(page.locator("#matrix tbody tr")).to_have_count(3)
    page.get_by_label("Metric").select_option("mean_per_class_recall")
    assert scope in page.locator("#verdict").inner_text()


def costing(name, parameters, value, **provenance):
    return LoadedResult(replace(of_size(name, parameters, value).result, provenance=provenance))


def test_cost_columns_appear_if_a_result_knows_the_cost(watched, tmp_path):
    known = costing("a", 2 * 10**6, 0.5, throughput=120.0, throughput_unit="answers/s", peak_memory=3_200_000_000)
    page = watched.open(write(tmp_path, [known, costing("b", None, 0.4)]))

    heads = page.locator("#matrix thead th").all_inner_texts()
    rows = [row.locator("td.cost").all_inner_texts() for row in page.locator("#matrix tbody tr").all()]

    assert [head.split("\n")[0] for head in heads[2:5]] == ["Parameters", "Throughput", "Peak memory"]
    assert "answers/s" in heads[3]
    assert rows == [["2M", "120", "3.2 GB"], [DASH] * 3]
    (tmp_path / "unknown").mkdir()
    watched.open(write(tmp_path / "unknown", [costing("b", None, 0.4)]))
    assert page.locator("#matrix td.cost").count() == 0


def test_the_scatter_shows_chance_and_the_interval_of_averages(watched, exam_data, tmp_path):
    found = guessing(exam_data, tmp_path / "results")
    sized = [
        replace(item, result=replace(item.result, model_card={"parameters": 10 ** (6 + i)}))
        for i, item in enumerate(found)
    ]
    page = watched.open(write(tmp_path, sized))

    page.locator("#scatter circle").first.wait_for()

    assert page.locator("#scatter .whisker").count() == 3
    assert page.locator("#scatter line.chance").count() == 1


def test_warnings_are_grouped_by_cause(watched, tmp_path):
    notice = {"kind": "default_templates", "count": 1, "message": "birds has no templates: using 'a photo of a {c}.'."}
    found = [of_size(f"model-{i}", None, 0.5) for i in range(5)]
    noted = [LoadedResult(replace(item.result, notices=(notice,))) for item in found]
    page = watched.open(write(tmp_path, noted))
    assert page.locator(".notices summary").inner_text() == "1 warning"

    page.locator(".notices summary").click()

    assert page.locator(".notices li").all_inner_texts() == [f"{notice['message']} 5 results"]


# Mistakes as images.


def test_no_confusion_fills_the_strip(watched, exam_data, tmp_path):
    """Of 21 equally confident mistakes 20 are one confusion, and the other one comes last in the data."""
    sit(exam_data, tmp_path / "m.json", "m", [*range(0, 40, 2), 99], thumbnails=30)
    page = watched.open(write(tmp_path, load_results([tmp_path / "m.json"]).found))
    page.locator(".mistakes").scroll_into_view_if_needed()
    expect(page.locator(".mistake-strip li").first).to_be_visible()

    shown = [text.split("\n") for text in page.locator(".mistake-strip li").all_inner_texts()]

    assert shown == [["zero", "→ one"], ["one", "→ zero"], *[["zero", "→ one"]] * 10]
    assert "the most confident of each confusion first" in page.locator(".how").inner_text()


def test_answers_have_no_confidence_and_show_what_was_right(watched, tmp_path):
    folder = make_answers(tmp_path / "answers", n=12)
    page = watched.open(write(tmp_path, load_results([folder]).found))
    strip = page.locator(".mistake-strip", has_text="flags").first
    page.locator(".mistakes").scroll_into_view_if_needed()
    expect(strip.locator("li").first).to_be_visible()

    assert strip.locator(".how").inner_text() == "one of each confusion in turn"
    assert all(re.fullmatch(r"[A-D] → ([A-D]|nothing)", text) for text in strip.locator(".bad-text").all_inner_texts())


@pytest.mark.parametrize(("missed", "said"), [(6, "the same mistakes as exam"), (8, "without those of exam")])
def test_a_second_language_shows_only_what_it_gets_wrong_in_addition(watched, tmp_path, missed, said):
    data = exam(tmp_path / "exam")
    write_lists(data, ["null", "einer (one)"], "de")
    sit(data, tmp_path / "results/en.json", "m", range(6), thumbnails=20)
    sit(data, tmp_path / "results/de.json", "m", range(missed), thumbnails=20, language=["de"])
    page = watched.open(write(tmp_path, load_results([tmp_path / "results"]).found))
    page.locator(".mistakes").scroll_into_view_if_needed()
    expect(page.locator(".mistake-strip h3")).to_have_count(2)

    english, german = page.locator(".mistake-strip").all()

    assert english.locator("li").count() == 6
    assert german.locator("li").count() == missed - 6
    assert said in german.locator(".how").inner_text()
