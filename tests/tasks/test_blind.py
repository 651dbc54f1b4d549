"""Blind control: the same questions without their images, or with those of other questions, paired on the page."""

import base64
import hashlib
import json
import sys

import pytest

from eyechart import evaluate
from eyechart.config import make_config
from eyechart.errors import UsageError
from eyechart.io.images import ImageRef
from eyechart.plan import plan_jobs
from eyechart.report.loader import load_results
from eyechart.report.page.payload import make_payload
from eyechart.tasks.question_prompts import ImageSwap
from eyechart.types import Message
from support.make_results import chunks_of
from support.vlm_data import image_cell, write_benchmark

MODEL = """
import hashlib
import json
from pathlib import Path
from eyechart.vlm import BaseModel

HERE = Path(__file__).parent
COLOURS = json.loads((HERE / "colours.json").read_text())


class Looking(BaseModel):
    '''Reads the answer off the image; without one it knows only what the question says.'''

    def generate_inner(self, message, dataset=None):
        images = [item["value"] for item in message if item["type"] == "image"]
        seen = [COLOURS[hashlib.sha256(Path(image).read_bytes()).hexdigest()] for image in images]
        text = message[-1]["value"]
        with (HERE / "heard.jsonl").open("a") as stream:
            stream.write(json.dumps([seen, text]) + "\\n")
        return "A" if "grass" in text else seen[0] if seen else "I see no image."
"""


@pytest.fixture
def place(lmu_data, tmp_path, monkeypatch):
    """Write twenty questions, half of which anybody can answer, and a model that looks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    rows, colours = [], {}
    for i in range(20):
        cell = image_cell(color=(10 * i, 0, 0))
        letter = "A" if i % 2 else "BCD"[i % 3]
        colours[hashlib.sha256(base64.b64decode(cell)).hexdigest()] = letter
        question = f"What is the colour of grass? ({i})" if i % 2 else f"What is on image {i}?"
        rows.append(
            {"index": i, "image": cell, "question": question, "A": "green", "B": "red", "C": "blue", "D": "grey"}
            | {"answer": letter, "category": "knowledge" if i % 2 else "looking"}
        )
    write_benchmark(lmu_data / "Colours.tsv", rows)
    (tmp_path / "colours.json").write_text(json.dumps(colours))
    (tmp_path / "looking.py").write_text(MODEL)
    sys.modules.pop("looking", None)
    yield tmp_path
    sys.modules.pop("looking", None)


def run(place, blind, **more):
    return evaluate(
        dataset=["Colours"],
        model=["python:looking:Looking"],
        output=str(place / "out" / "{model}_{dataset}.json"),
        questions={"blind": blind, **more},
    )


def heard(place):
    return [json.loads(line) for line in (place / "heard.jsonl").read_text().splitlines()]


def test_without_images_every_question_is_asked_once_more_in_the_same_words(place):
    seeing, blind = run(place, "no_images")

    assert (seeing.model, blind.model) == ("looking:Looking", "looking:Looking (blind)")
    assert (seeing.path.name, blind.path.name) == ("looking:Looking_Colours.json", "looking:Looking_Colours_blind.json")
    assert seeing.metrics["accuracy"] == 1.0
    assert blind.metrics["accuracy"] == 0.5
    said = heard(place)
    assert len(said) == 40
    assert [text for seen, text in said if seen] == [text for seen, text in said if not seen]
    assert blind.job["settings"]["blind"] == "no_images"


def test_the_control_records_the_preset_like_the_run_itself(place):
    config = {"dataset": ["Colours"], "model": ["python:looking:Looking"], "questions": {"blind": "no_images"}}
    seeing, blind = plan_jobs(make_config({**config, "preset": "clip_benchmark"}), [].append)

    assert seeing.settings["like"] == blind.settings["like"] == "clip_benchmark"
    assert {**seeing.settings, "blind": "no_images"} == blind.settings


def test_swapped_images_are_those_of_another_question_each_once(place):
    seeing, swapped = run(place, "swapped")

    assert swapped.model == "looking:Looking (swapped)"
    shown = [seen for seen, _ in heard(place)]
    assert sorted(shown[:20]) == sorted(shown[20:])  # all images, in other places
    assert swapped.metrics["accuracy"] < seeing.metrics["accuracy"]


def shows(*numbers):
    """Make the prompt of a question with these images."""
    return (Message("user", (*(ImageRef(f"{n}", data=b"image %d" % n) for n in numbers), "What differs?")),)


def images_in(prompt):
    return [int(part.source) for message in prompt for part in message.parts if isinstance(part, ImageRef)]


def test_a_question_with_several_images_is_shown_none_of_its_own():
    prompts = [shows(0, 1), shows(2, 3), shows(0, 1), shows(3, 4, 3)]
    swap = ImageSwap(prompts)

    swapped = [images_in(swap(prompt)) for prompt in prompts]

    assert swapped == [[2, 3], [4, 0], [2, 3], [0, 1, 0]]


def test_a_question_that_shows_every_image_cannot_be_swapped():
    with pytest.raises(UsageError, match="all images"):
        ImageSwap([shows(0, 1), shows(0)])(shows(0, 1))


def test_a_run_without_the_switch_has_no_control(place):
    [only] = run(place, "")

    assert only.model == "looking:Looking"
    assert only.job["settings"]["blind"] == ""


def test_one_image_cannot_be_swapped(place, lmu_data):
    write_benchmark(
        lmu_data / "Colours.tsv", [{"index": 0, "question": "Green grass?", "A": "x", "B": "y", "answer": "A"}]
    )
    (place / "looking.py").write_text(
        MODEL.replace("COLOURS[hashlib.sha256(Path(image).read_bytes()).hexdigest()]", '"A"')
    )

    with pytest.raises(UsageError, match="there is only one"):
        run(place, "swapped")


def test_the_predictions_of_a_control_are_scored_again_without_the_model(place):
    run(place, "no_images", mode="infer")
    (place / "heard.jsonl").unlink()

    _, blind = run(place, "no_images", mode="eval")

    assert blind.metrics["accuracy"] == 0.5
    assert not (place / "heard.jsonl").exists()
    assert [notice["kind"] for notice in blind.notices if notice["kind"] == "other_images"] == []


def test_the_page_says_what_needs_the_image(place):
    run(place, "no_images")

    payload = make_payload(load_results([place / "out"]).found)

    [chunk] = chunks_of(payload)
    [control] = chunk["blind"]
    assert [payload.overview["models"][control[side]]["label"] for side in ("seeing", "blind")] == [
        "looking:Looking",
        "looking:Looking (blind)",
    ]
    assert (control["seeing_value"], control["blind_value"], control["gain"]) == (1.0, 0.5, 0.5)
    assert control["right"] == [10, 10, 0, 0]
    assert control["low"] > 0
    gains = {part["name"]: (part["gain"], part["n"]) for part in control["categories"]}
    assert gains == {"knowledge": (0.0, 10), "looking": (1.0, 10)}
