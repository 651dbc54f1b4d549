"""Captions, class names, answers and every other text of a result are shown as text, whatever is in them."""

from __future__ import annotations

import json
import re

import pytest

from eyechart.report.loader import load_results
from eyechart.report.page import make_page
from eyechart.report.page.overview import is_thumbnail
from eyechart.report.page.payload import make_payload
from eyechart.results import Result, write_result
from eyechart.types import MeanOf, Metric
from support.browser import expect

pytestmark = pytest.mark.slow  # a real browser

ATTACKS = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    '"><img src=x onerror=window.pwned=1>',
    "'-window.pwned=1-'",
    "javascript:window.pwned=1",
    "<!--<script>",
    "<svg onload=window.pwned=1>",
    "{{constructor.constructor('window.pwned=1')()}}",
    "\u202egnp.txt\u202d \u2066\u200f",
    "\ud800 half a character",
    "__proto__",
)
LONG = " " + "A" * 10_240
"""Ten kilobytes without a space, for the texts of which there is one."""


def evil(field: str) -> str:
    """A text that names its field and holds every attack."""
    return f"{field} " + " ".join(ATTACKS)


def hostile(model: str, dataset: str, task: str, values: dict[str, Metric], form: str, **parts) -> Result:
    """A result in which every text that somebody else could have written is an attack."""
    return Result(
        dataset=evil(dataset),
        model=evil(model),
        pretrained=evil("pretrained"),
        task=task,
        language="<b>xx</b>",
        values=values,
        counts={evil("count"): 3, "failed": 1},
        notices=({"kind": evil("kind"), "count": 1, "message": evil("notice") + LONG},),
        failures=({"id": evil("failed id"), "reason": evil("reason")},),
        model_card={"family": evil("family"), "precision": evil("precision"), "parameters": evil("parameters")},
        data={"split": evil("split"), "source": evil("source"), "fingerprint": evil("print"), "measures": evil("kind")},
        provenance={"command": evil("command") + LONG, "versions": {evil("library"): evil("version")}},
        job={"digest": evil("job")},
        record_info={"form": form},
        **parts,
    )


CLASSES = [evil("class a") + LONG, evil("class b"), "__proto__", "constructor", "</script>"]
DETAILS = {
    "classnames": CLASSES,
    "prompt_sensitivity": {"templates": [evil("template")], "acc1": [0.4], "ensemble": evil("number")},
    "calibration": {"bins": [evil("bin")], "ece": evil("ece")},
}
QUESTION = {key: evil(key) for key in ("question", "answer", "prediction", "extracted", "rule", "thinking", "category")}
SAID = {"role": "assistant", "content": [evil("said")], "reasoning": evil("reasoning"), "error": evil("error")}
TRANSCRIPT = {
    "version": 1,
    "messages": [
        {
            "role": evil("role"),
            "content": [evil("sent"), {"image": evil("digest"), "name": evil("image name")}, 7, None],
        },
        SAID | {"tokens": {"prompt": evil("tokens")}, "finish_reason": evil("finish"), "seconds": [], "retries": {}},
    ],
    "judges": [
        {
            "judge": evil("judge"),
            "question": evil("asked") + LONG,
            "replies": [SAID, "no object", None],
            "verdict": "1",
        },
        evil("no judge"),
        None,
    ],
}
SVG = "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+"


def write_results(folder, number, model):
    """Write results of all four forms; the numbers are those of the records, so that nothing is set aside."""
    rank = 1 + number
    acc1 = {
        "acc1": Metric(float(rank == 1), 0.2, 0.9, primary=True, mean_of=MeanOf("rank", 1)),
        evil("metric"): Metric(0.2),
    }
    records = [
        {"id": evil(f"s{i}"), "label": i % 5, "prediction": (i + number) % 5, "rank": rank, "top": [1, 0]}
        | {"scores": [0.3, 0.2], "thumbnail": SVG}
        for i in range(10)
    ]
    result = hostile(model, "labels", "zeroshot_classification", acc1, "label", details=DETAILS)
    write_result(result, records, folder / f"{model}-label.json")

    recall = {"image_retrieval_recall@1": Metric(0.0, primary=True, mean_of=MeanOf("rank", 1, {"query": "text"}))}
    found = [evil("caption id"), evil("unknown")]
    image = {"id": evil("image"), "query": "image", "rank": 4, "top": found, "thumbnail": evil("thumb")}
    text = {"id": evil("caption id"), "query": "text", "image": evil("image"), "text": evil("caption") + LONG}
    records = [image, text | {"rank": 3 + number, "top": [evil("image")]}]
    result = hostile(model, "ranking", "zeroshot_retrieval", recall, "ranking")
    write_result(result, records, folder / f"{model}-rank.json")

    accuracy = {"accuracy": Metric(0.0, primary=True, mean_of=MeanOf("correct"))}
    asked = QUESTION | {
        "id": evil("id"),
        "options": {evil("answer"): evil("option")},
        "correct": False,
        "transcript": TRANSCRIPT,
    }
    result = hostile(model, "questions", "questions", accuracy, "question")
    write_result(result, [asked | {"prediction": evil("prediction") + LONG}], folder / f"{model}-question.json")

    precision = {"mean_average_precision": Metric(0.25, primary=True, function="mean_average_precision")}
    records = [{"id": evil(f"m{i}"), "labels": [i % 5], "scores": [0.1, 0.2, 0.3, 0.4, 0.5]} for i in range(4)]
    result = hostile(model, "many", "zeroshot_classification", precision, "labels", details={"classnames": CLASSES})
    write_result(result, records, folder / f"{model}-many.json")


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for number, model in enumerate(("one", "two")):
        write_results(folder, number, model)
    loaded = load_results([folder])
    path = folder / "report.html"
    path.write_bytes(make_page(make_payload(loaded.found, skipped=loaded.skipped, title=evil("title"))))
    return path


def test_no_attack_is_in_the_file_as_markup(hostile_report):
    text = hostile_report.read_text()

    assert "<script>window.pwned" not in text
    assert "<img src=x" not in text
    assert text.count("<script") == text.count("</script>")
    assert "data:image/svg" not in text


SHOWN = (
    *("title", "one", "pretrained", "class a", "notice", "reason", "command", "library", "source", "template"),
    *("caption", "question", "option", "prediction", "extracted", "rule", "category"),
    *("role", "sent", "said", "reasoning", "error", "judge", "asked"),
)
"""Fields that must be found on some view, as they are."""
LOOSE = """
() => {
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const text = walker.currentNode.data;
    const wrapped = walker.currentNode.parentElement.closest("bdi") || /\\u2068[^\\u2069]*\\u202e/.test(text);
    if (text.includes("\\u202e") && !wrapped) found.push(text.slice(0, 80));
  }
  return found;
}
"""
"""Find texts in which a right-to-left mark could turn round what stands beside it."""
TEXT = "node => node.textContent"


def look(page, shown, loose):
    """Take down what the view shows, and which texts could turn round their surroundings."""
    shown.append(page.locator("main").evaluate(TEXT))
    loose += page.evaluate(LOOSE)


def read_dialog(page, shown):
    """Take down what the open dialog shows, and close it."""
    shown.append(page.locator("dialog").evaluate(TEXT))
    page.keyboard.press("Escape")


def go(watched, view):
    watched.page.evaluate("view => { location.hash = view; }", view)
    watched.drawn()


def test_no_field_runs_and_every_field_is_shown_as_text_that_turns_nothing_round(watched, hostile_report):
    page = watched.open(hostile_report)
    shown, loose = [page.locator("header").evaluate(TEXT)], []
    look(page, shown, loose)
    page.locator("#matrix td[title]").first.click()
    read_dialog(page, shown)
    for number in range(4):
        go(watched, f"#/benchmark/{number}")
        page.locator(".samples").get_by_label("Show").select_option("all")
        look(page, shown, loose)
        page.locator(".cards .card button").first.click()
        read_dialog(page, shown)
        go(watched, "#/results")
    look(page, shown, loose)
    go(watched, "#/compare")
    look(page, shown, loose)

    assert page.evaluate("window.pwned") is None
    assert page.locator("iframe, object, embed, main script, dialog script, svg[onload], img[onerror]").count() == 0
    assert loose == []
    everything = "\n".join(shown)
    missing = [field for field in SHOWN if f"{field} <script>window.pwned=1</script>" not in everything]
    assert missing == []


@pytest.mark.parametrize(
    ("address", "heading"),
    [
        *((f"#/{name}/0", "title") for name in ("__proto__", "__defineGetter__", "constructor", "%E0%A4%A")),
        *((f"#/benchmark/{place}", "title") for place in ("-1", "99", "__proto__")),
        *((f"#/benchmark/0?sample={place}", "") for place in ("1.5", "-5", "1e9", "length")),
        *((f"#/results?model={model}&only=constructor", "Results") for model in ("99", "-1", "x", "length")),
        ("#/compare?a=x&b=__proto__", "Compare"),
    ],
)
def test_no_address_breaks_the_page(watched, hostile_report, address, heading):
    page = watched.open(hostile_report, address)

    expect(page.locator("h1")).to_contain_text(heading)
    expect(page.locator("h1")).not_to_contain_text("cannot be shown")
    expect(page.locator("dialog")).to_have_count(0)


def test_an_address_of_a_sample_that_is_not_listed_says_so(watched, hostile_report):
    page = watched.open(hostile_report, "#/benchmark/0?model=0&id=absent")

    expect(page.get_by_text("The page does not list this sample.")).to_be_visible()


LEFT_EDGE = "node => node.getContext('2d').getImageData(0, 0, 2, node.height).data.some((value) => value > 0)"


def test_long_class_names_are_shortened_to_the_margin_of_the_confusion_matrix(watched, hostile_report):
    watched.open(hostile_report)
    canvas = watched.page.locator(".confusion canvas")
    place = 0
    while not canvas.count():  # one of the benchmarks has classes
        go(watched, f"#/benchmark/{place}?model=1")
        place += 1
    expect(canvas).to_have_attribute("style", re.compile("width"))

    assert not canvas.evaluate(LEFT_EDGE)


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "x.png",
        "https://example.org/a.png",
        "data:text/html;base64,PGI+",
        "data:image/svg+xml;base64,PHN2Zz4=",
        'data:image/png;base64,AAAA" onerror="x',
        "data:image/png;base64," + "A" * 40_000,
    ],
)
def test_only_small_raster_images_are_thumbnails(value):
    assert not is_thumbnail(value)


def test_a_small_raster_image_is_a_thumbnail():
    assert is_thumbnail("data:image/png;base64,iVBORw0KGgo=")


def test_a_file_that_carries_infinities_gives_a_readable_page(watched, tmp_path):
    body = {"dataset": "labels", "model": "m", "pretrained": "", "task": "knn", "metrics": {"knn_acc1": 0.5}}
    text = json.dumps(body | {"details": {"calibration": {"ece": float("nan"), "bins": []}}})
    (tmp_path / "r.json").write_text(text)
    path = tmp_path / "report.html"
    path.write_bytes(make_page(make_payload(load_results([tmp_path / "r.json"]).found)))

    page = watched.open(path, "#/benchmark/0")

    assert page.locator("h1").inner_text() == "labels"
