"""Thumbnails of the worst mistakes travel in the records."""

from __future__ import annotations

import base64
import io

from PIL import Image

from eyechart.io.media import ImageRef
from eyechart.report.page.limits import is_thumbnail
from eyechart.results.thumbnails import SIDE, choose, with_thumbnails
from eyechart.types import Sample


def image(colour, size=(300, 200)):
    stream = io.BytesIO()
    Image.new("RGB", size, colour).save(stream, "PNG")
    return ImageRef("memory", stream.getvalue())


def samples(*names):
    for name in names:
        yield Sample(name, image("red"), label=0)


def label(name, rank):
    return {"id": name, "label": 0, "rank": rank, "correct": rank == 1}


def test_the_worst_mistakes_are_chosen_and_nothing_that_is_right():
    assert choose([label("a", 1), label("b", 3), label("c", 9), label("d", 2)], 2) == ["c", "b"]
    assert choose([label("a", 1)], 5) == []


def test_a_caption_brings_its_image_and_those_found_instead():
    records = [{"id": "a#0", "query": "text", "image": "a", "rank": 3, "top": ["b", "c", "a"]}]

    assert choose(records, 10) == ["a", "b", "c"]


def test_an_unread_answer_is_no_mistake_but_a_wrong_one_is():
    assert choose([{"id": "a", "correct": None}, {"id": "b", "correct": False}], 5) == ["b"]


def test_they_are_small_images_that_the_report_accepts():
    (record,) = with_thumbnails([label("a", 2)], samples("a"), 5)

    assert is_thumbnail(record["thumbnail"])
    shrunk = Image.open(io.BytesIO(base64.b64decode(record["thumbnail"].partition(",")[2])))
    assert max(shrunk.size) == SIDE


def test_reading_stops_at_the_last_image_that_is_wanted():
    read = []

    def stream():
        for sample in samples("a", "b", "c"):
            read.append(sample.id)
            yield sample

    with_thumbnails([label("a", 1), label("b", 2), label("c", 1)], stream(), 5)

    assert read == ["a", "b"]


def test_a_broken_image_is_left_out():
    records = with_thumbnails([label("a", 2)], iter([Sample("a", ImageRef("x", b"no image"), label=0)]), 5)

    assert records == [label("a", 2)]


def test_none_are_made_unless_asked_for():
    records = [label("a", 2)]

    assert with_thumbnails(records, iter(()), 0) is records
