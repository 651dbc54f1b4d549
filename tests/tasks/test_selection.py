"""Selection on small folders whose scores are worked out by hand: an image is a colour, a caption three numbers."""

import json

import pytest
from PIL import Image

from eyechart.errors import DataError
from support.encoders import constant_encoder, literal_encoder
from support.tasks import make_context, run_task, values

RED, GREEN, BLUE, YELLOW = "#ff0000", "#00ff00", "#0000ff", "#ffff00"
CAPTIONS = {RED: "red 1 0 0", GREEN: "green 0 1 0", BLUE: "blue 0 0 1", YELLOW: "yellow 1 1 0"}


def image(folder, colour):
    """Save an image of one colour and return its name."""
    name = f"{colour[1:]}.png"
    (folder / "images").mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), colour).save(folder / "images" / name)
    return name


def write(folder, *rows):
    """Write questions: colours of the images, texts, and optionally which belong together."""
    lines = []
    for images, texts, *rest in rows:
        row = {"images": [image(folder, colour) for colour in images], "texts": texts}
        lines.append(json.dumps(row | (rest[0] if rest else {})))
    (folder / "questions.jsonl").write_text("\n".join(lines))
    return folder


def select(folder, tmp_path, encoder=None):
    return run_task(
        "image_caption_selection", make_context(folder, encoder or literal_encoder(), tmp_path, reader="selection")
    )


RIGHT = ([RED, GREEN], ["1 0 0", "0 1 0"])
SWAPPED = ([RED, GREEN], ["0 1 0", "1 0 0"])
TEXTS_TIE = ([RED, GREEN], ["1 1 0", "1 1 0"])
"""Both captions lie between the two colours: every score is the same."""
BETWEEN = ([RED, YELLOW], ["1 0 0", "1 2 0"])
"""Red: 1 > 0.45, yellow: 0.95 > 0.71. First caption: red 1 > yellow 0.71, second: yellow 0.95 > red 0.45. All right."""
BESIDE = ([RED, YELLOW], ["1 1 0", "1 2 0"])
"""Yellow is 1.0 for the first caption and 0.95 for its own; the first caption is 0.71 for red: wrong both ways."""


class TestWinoground:
    def test_scores_equal_those_worked_out_by_hand(self, tmp_path):
        folder = write(tmp_path / "data", RIGHT, SWAPPED, TEXTS_TIE, BETWEEN, BESIDE)

        outcome = select(folder, tmp_path)

        assert values(outcome) == {"image_acc": 2 / 5, "text_acc": 2 / 5, "acc": 2 / 5}
        assert [record["correct"] for record in outcome.records] == [True, False, False, True, False]
        assert outcome.details["ties"] == 1

    def test_directions_are_judged_apart(self, tmp_path):
        # Red lies at 0 degrees, yellow at 45, the captions at 30 and 50: each image is nearer to its own caption,
        # but the first caption is nearer to yellow than to red.
        folder = write(tmp_path / "data", ([RED, YELLOW], ["0.866 0.5 0", "0.643 0.766 0"]))

        assert values(select(folder, tmp_path)) == {"image_acc": 0.0, "text_acc": 1.0, "acc": 0.0}

    def test_chance_is_a_quarter_a_quarter_and_a_sixth(self, tmp_path):
        outcome = select(write(tmp_path / "data", RIGHT), tmp_path)

        assert {name: metric.chance for name, metric in outcome.metrics.items()} == {
            "image_acc": 0.25,
            "text_acc": 0.25,
            "acc": pytest.approx(1 / 6),
        }

    def test_a_constant_scorer_gets_nothing(self, tmp_path):
        outcome = select(write(tmp_path / "data", RIGHT, SWAPPED), tmp_path, constant_encoder())

        assert values(outcome) == {"image_acc": 0.0, "text_acc": 0.0, "acc": 0.0}
        assert [(notice.kind, notice.count) for notice in outcome.notices] == [("ties", 2)]


class TestSugarCrepe:
    ROWS = (
        ([RED], ["right 1 0 0", "wrong 0 1 0"]),
        ([RED], ["wrong 0 1 0", "right 1 0 0"]),
        ([RED], ["same 1 0 0", "same 1 0 0"]),
        ([RED], ["cut 1 0 0", "cut off later 2 0 0"]),
    )

    def test_scores_equal_those_worked_out_by_hand(self, tmp_path):
        outcome = select(write(tmp_path / "data", *self.ROWS), tmp_path)

        assert values(outcome) == {"text_acc": 0.25, "acc": 0.25}
        assert outcome.details["ties"] == 2

    def test_the_only_image_is_no_choice(self, tmp_path):
        outcome = select(write(tmp_path / "data", *self.ROWS), tmp_path)

        assert "image_acc" not in outcome.metrics
        assert outcome.facts == {"image_acc": 1.0}  # as CLIP_benchmark writes it
        assert "nothing_to_choose" in [notice.kind for notice in outcome.notices]

    def test_a_constant_scorer_gets_nothing_although_the_right_caption_stands_first(self, tmp_path):
        assert values(select(write(tmp_path / "data", *self.ROWS), tmp_path, constant_encoder()))["acc"] == 0


def test_imagecode_style_is_one_text_and_many_images(tmp_path):
    rows = [
        ([RED, GREEN, BLUE], [CAPTIONS[colour]], {"right": [[place, 0]]}) for place, colour in ((0, RED), (1, BLUE))
    ]

    outcome = select(write(tmp_path / "data", *rows), tmp_path)

    assert values(outcome) == {"image_acc": 0.5, "acc": 0.5}
    assert outcome.metrics["image_acc"].chance == pytest.approx(1 / 3)


class TestWinoGavil:
    def test_several_right_images_are_scored_by_jaccard(self, tmp_path):
        few = ([RED, YELLOW, GREEN, BLUE, "#00ffff"], ["warm 2 1 0"], {"right": [[0, 0], [1, 0]]})
        half = ([RED, YELLOW, GREEN, BLUE, "#00ffff"], ["warm 2 1 0"], {"right": [[0, 0], [3, 0]]})

        outcome = select(write(tmp_path / "data", few, half), tmp_path)

        assert values(outcome)["jaccard_score"] == pytest.approx((1 + 1 / 3) / 2)
        assert values(outcome)["jaccard_score_5-6"] == values(outcome)["jaccard_score"]
        assert "jaccard_score_10-12" not in outcome.metrics

    def test_ten_candidates_count_for_datacomps_main_metric(self, tmp_path):
        colours = [f"#{i:02x}0000" for i in range(10, 20)]
        row = (colours, ["1 0 0"], {"right": [[0, 0], [1, 0]]})

        outcome = select(write(tmp_path / "data", row), tmp_path)

        assert outcome.metrics["jaccard_score_10-12"].n == 1
        assert values(outcome)["jaccard_score"] == 0  # every red is the same red: ties choose the wrong ones


class TestIncompleteQuestions:
    def test_a_question_that_lost_an_image_is_counted_as_failed(self, tmp_path):
        folder = write(tmp_path / "data", RIGHT, ([BLUE, RED], ["0 0 1", "1 0 0"]))
        (folder / "images" / "0000ff.png").write_bytes(b"broken")
        context = make_context(folder, literal_encoder(), tmp_path, reader="selection", on_error="skip")

        from eyechart.tasks.image_caption_selection import ImageCaptionSelection

        prediction = ImageCaptionSelection().predict(context, ImageCaptionSelection.Settings())

        assert [entry.id for entry in prediction.entries] == ["1/0", "1/1"]
        assert [failure.id for failure in prediction.failures] == ["2/0", "2/1"]
        assert prediction.failures[1].reason == "question 2 lacks another image"

    def test_nothing_to_choose_is_refused(self, tmp_path):
        with pytest.raises(DataError, match="only one candidate"):
            select(write(tmp_path / "data", ([RED], ["1 0 0"])), tmp_path)
