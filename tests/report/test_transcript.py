"""Transcripts on the page: from a score to a reason in two clicks, filters, answers side by side, and limits."""

from __future__ import annotations

import csv
import io
import json

import pytest

from eyechart import evaluate
from eyechart.report.loader import load_results
from eyechart.report.page import make_page
from eyechart.report.page.originals import OriginalImages, write_samples
from eyechart.report.page.overview import Limits
from eyechart.report.page.payload import make_payload
from support.make_results import chunks_of
from support.openai_server import OpenAIServer
from support.vlm_data import write_benchmark

PETS = [
    {"index": i, "question": f"Which animal is number {i}?", "A": "cat", "B": "dog", "answer": "AB"[i % 2]}
    for i in range(8)
]
LARGE = {6: "some feline", 7: "hard to tell"}
"""What the large model says instead of a letter."""


def answer(body):
    """Play two models and their judge: the small model is wrong about every third animal."""
    content = body["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    if body["model"] == "judge":
        return "A" if "feline" in text else "no idea"
    i = next(row["index"] for row in PETS if row["question"] in text)
    letter = PETS[i]["answer"] if body["model"] == "large" or i % 3 else "BA"[i % 2]
    said = f"I see a {PETS[i][letter]} on the grass. Answer: {letter}"
    said = LARGE.get(i, said) if body["model"] == "large" else said
    return {"role": "assistant", "content": said, "reasoning_content": f"thinking about {i}"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transcripts")
    models = ("large", "small", "judge")
    with pytest.MonkeyPatch.context() as patch, OpenAIServer(answer=answer, models=models) as server:
        patch.setenv("EYECHART_CACHE", str(folder / "cache"))
        evaluate(
            dataset=[str(write_benchmark(folder / "Pets.tsv", PETS))],
            model=["large", "small"],
            model_type="api",
            output=str(folder / "out" / "{model}.json"),
            min_success=0,
            thumbnails=8,
            questions={"api_base": server.api_base, "judge": "judge", "system_prompt": "Be brief."},
        )
    return folder / "out"


@pytest.fixture(scope="module")
def page_of(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(make_page(make_payload(load_results([results]).found)))
    return path


def open_samples(watched, page_of, model, show, query=""):
    page = watched.open(page_of, "#/benchmark/0")
    page.locator("#model-detail").get_by_label("Model").select_option(label=model)
    page.locator(".samples").get_by_label("Show").select_option(show)
    page.get_by_label("Search samples").fill(query)
    page.wait_for_timeout(300)
    return page


@pytest.mark.slow
def test_from_a_score_to_its_reason_in_two_clicks(watched, page_of):
    page = watched.open(page_of)
    watched.follow(page.locator("#matrix thead a.dataset").first)  # the first
    page.locator(".cards .card button", has_text="number 7").first.click()  # the second
    dialog = page.locator("dialog")
    text = dialog.evaluate("node => node.textContent")

    for part in ("Be brief.", "Question: Which animal is number 7?", "hard to tell", "thinking about 7"):
        assert part in text
    assert "prompt tokens 10 · completion tokens 5" in text
    assert "finish reason stop · retries 0" in text
    assert "verdict could not be read" in text
    assert "Earlier replies that could not be read: 2" in text
    assert "no idea" in text
    assert not dialog.get_by_text("thinking about 7").is_visible()  # reasoning is collapsed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("show", "query", "found"),
    [("unjudged", "", ["7"]), ("flipped", "", ["0", "3", "6", "7"]), ("wrong", "", ["7"]), ("all", "feline", ["6"])],
)
def test_samples_are_filtered_and_answers_are_searched(watched, page_of, show, query, found):
    page = open_samples(watched, page_of, "large", show, query)

    cards = page.locator(".cards .card b").all_inner_texts()
    assert sorted(text.removeprefix("Which animal is number ").rstrip("?") for text in cards) == found


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 400])
def test_answers_stand_side_by_side_with_their_differences_marked(watched, page_of, width):
    watched.page.set_viewport_size({"width": width, "height": 900})
    page = open_samples(watched, page_of, "large", "flipped", "number 3?")
    page.locator(".cards .card button").first.click()

    chosen, other = page.locator("dialog .side").all()
    assert (chosen.locator("h4").inner_text(), chosen.locator("mark").count()) == ("large", 0)
    assert [text.strip() for text in other.locator("mark").all_inner_texts()] == ["cat", "A"]
    assert page.locator("dialog .message.answer mark").inner_text() == "B"  # the part that was read
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    watched.page.set_viewport_size({"width": 1400, "height": 900})


def test_transcripts_stay_within_their_limits_mistakes_first(results):
    def kept(**limits):
        [chunk] = chunks_of(make_payload(load_results([results]).found, limits=Limits(**limits)))
        details = chunk["samples"]["details"]
        ids = chunk["samples"]["ids"]
        return {ids[int(i)] for own in details.values() for i, one in own.items() if "transcript" in one}, details

    every, _ = kept()
    few, details = kept(transcripts=4)
    none, _ = kept(transcript_bytes=0)
    assert (len(every), few, none) == (8, {"0", "3", "6", "7"}, set())
    assert all("prediction" in one for own in details.values() for one in own.values())


def test_exported_transcripts_and_options_are_json(results, tmp_path):
    write_samples([item.result for item in load_results([results]).found], tmp_path, OriginalImages([]))

    for table in tmp_path.glob("*/samples.csv"):
        for row in csv.DictReader(io.StringIO(table.read_text())):
            assert json.loads(row["options"]) == {"A": "cat", "B": "dog"}
            assert json.loads(row["transcript"])["version"] == 1
