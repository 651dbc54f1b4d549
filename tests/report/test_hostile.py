"""Captions, class names, answers and every other text of a result are shown as text, whatever is in them."""

from __future__ import annotations

import json

import pytest

from eyechart.report.load import load_results
from eyechart.report.page import make_page
from eyechart.report.payload import make_payload
from eyechart.report.samples import is_thumbnail
from support.browser import Watched

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
    "A" * 10_240,
)


def evil(field: str) -> str:
    """A text that names its field and holds every attack."""
    return f"{field} " + " ".join(ATTACKS)


def base(model: str, dataset: str, task: str, metrics: dict[str, float]) -> dict:
    return {
        "dataset": evil(dataset),
        "model": evil(model),
        "pretrained": evil("pretrained"),
        "task": task,
        "language": "<b>xx</b>",
        "metrics": metrics,
        "intervals": {name: [value - 0.1, value + 0.1] for name, value in metrics.items()},
        "chance": {},
        "counts": {evil("count"): 3},
        "notices": [{"kind": evil("kind"), "count": 1, "message": evil("notice")}],
        "failures": [{"id": evil("failed id"), "reason": evil("reason")}],
        "model_card": {"family": evil("family"), "precision": evil("precision"), "parameters": evil("parameters")},
        "data": {"split": evil("split"), "source": evil("source"), "fingerprint": evil("fingerprint")},
        "provenance": {"command": evil("command"), "versions": {evil("library"): evil("version")}},
        "job": {"digest": evil("job")},
        "schema": 1,
    }


CLASSES = [evil("class a"), evil("class b"), "__proto__", "constructor", "</script>"]
DETAILS = {
    "classnames": CLASSES,
    "prompt_sensitivity": {"templates": [evil("template")], "acc1": [0.4], "ensemble": evil("number")},
    "calibration": {"bins": [evil("bin")], "ece": evil("ece")},
}
QUESTION = {
    key: evil(key) for key in ("id", "question", "answer", "prediction", "extracted", "rule", "thinking", "category")
}


def hostile_results(folder):
    """Write results of all four forms in which every text is an attack."""
    svg = "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+"
    for number, model in enumerate(("one", "two")):
        body = base(model, "labels", "zeroshot_classification", {"acc1": 0.5, evil("metric"): 0.2})
        right = {"rank": 1 + number, "top": [1, 0], "scores": [0.3, 0.2], "thumbnail": svg}
        records = [{"id": evil(f"s{i}"), "label": i % 5, "prediction": (i + number) % 5} | right for i in range(10)]
        write(folder / f"{model}-label.json", body | {"details": DETAILS}, records)

        body = base(model, "ranking", "zeroshot_retrieval", {"image_retrieval_recall@1": 0.5})
        found = [evil("caption id"), evil("unknown")]
        image = {"id": evil("image"), "query": "image", "rank": 4, "top": found, "thumbnail": evil("thumb")}
        text = {"id": evil("caption id"), "query": "text", "image": evil("image"), "text": evil("caption")}
        write(folder / f"{model}-rank.json", body, [image, text | {"rank": 3, "top": [evil("image")]}])

        body = base(model, "questions", evil("task"), {"acc": 0.5})
        asked = QUESTION | {"options": {evil("answer"): evil("option")}, "correct": False}
        write(folder / f"{model}-question.json", body, [asked])

        body = base(model, "many", "zeroshot_classification", {"mean_average_precision": 0.5})
        records = [{"id": evil(f"m{i}"), "labels": [i % 5], "scores": [0.1, 0.2, 0.3, 0.4, 0.5]} for i in range(4)]
        write(folder / f"{model}-many.json", body | {"details": {"classnames": CLASSES}}, records)
    return folder


def write(path, body, records):
    file = path.with_suffix(".records.jsonl")
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    path.write_text(json.dumps(body | {"records": {"file": file.name, "count": len(records)}}))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    loaded = load_results([hostile_results(folder)])
    path = folder / "report.html"
    path.write_bytes(make_page(make_payload(loaded.found, skipped=loaded.skipped, title=evil("title"))))
    return path


def test_no_attack_is_in_the_file_as_markup(report):
    text = report.read_text()

    assert "<script>window.pwned" not in text
    assert "<img src=x" not in text
    assert text.count("<script") == text.count("</script>")
    assert "data:image/svg" not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_field_runs_and_every_field_is_shown_as_text(browser, report, scheme):
    watched = Watched(browser, scheme=scheme)
    page = watched.open(report)
    shown = [page.locator("body").inner_text()]
    benchmarks = page.locator("#matrix thead a.dataset").count()
    page.locator("#matrix td[title]").first.click()
    shown.append(page.locator("dialog").inner_text())
    page.keyboard.press("Escape")
    for number in range(benchmarks):
        if not page.evaluate("n => document.getElementById(`chunk-${n}`) !== null", number):
            break
        page.evaluate("n => { location.hash = `#/benchmark/${n}`; }", number)
        page.wait_for_timeout(150)
        shown.append(page.locator("main").inner_text())
        page.locator(".samples").get_by_label("Show").select_option("all")
        for card in page.locator(".cards .card button").all()[:2]:
            card.click()
            for reasoning in page.locator("dialog summary").all():
                reasoning.click()
            shown.append(page.locator("dialog").inner_text())
            page.keyboard.press("Escape")
    for view in ("#/compare", "#/results", "#/published"):
        page.evaluate("view => { location.hash = view; }", view)
        page.wait_for_timeout(150)
        shown.append(page.locator("main").inner_text())

    assert page.evaluate("window.pwned") is None
    assert page.locator("iframe, object, embed, main script, dialog script, svg[onload], img[onerror]").count() == 0
    everything = "\n".join(shown)
    for field in SHOWN:
        assert f"{field} <script>window.pwned=1</script>" in everything, field
    watched.close()


SHOWN = (
    *("title", "one", "pretrained", "class a", "notice", "reason", "command", "library", "source", "template"),
    *("caption", "question", "option", "prediction", "extracted", "rule", "thinking", "category"),
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


@pytest.mark.parametrize("view", ["#/", "#/benchmark/0", "#/benchmark/1", "#/benchmark/2", "#/compare", "#/results"])
def test_right_to_left_marks_are_kept_to_their_own_text(browser, report, view):
    watched = Watched(browser)
    page = watched.open(report, view)

    assert page.evaluate(LOOSE) == []
    watched.close()


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


def test_a_file_that_carries_infinities_gives_a_readable_page(browser, tmp_path):
    body = base("one", "labels", "zeroshot_classification", {"acc1": 0.5})
    text = json.dumps(body | {"details": {"calibration": {"ece": float("nan"), "bins": []}}})
    (tmp_path / "r.json").write_text(text)
    path = tmp_path / "report.html"
    path.write_bytes(make_page(make_payload(load_results([tmp_path / "r.json"]).found)))

    watched = Watched(browser)
    page = watched.open(path, "#/benchmark/0")

    assert page.locator("h1").inner_text().startswith("\u2068labels <script>")
    watched.close()
