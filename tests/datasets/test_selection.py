"""Folders with candidates to choose from, in our own form and in those of ARO and ImageCoDe."""

import json

import pytest
from PIL import Image

from eyechart.datasets.resolve import resolve_dataset
from eyechart.datasets.selection import open_aro, open_imagecode, open_selection
from eyechart.errors import DataError
from eyechart.types import DatasetSpec


def save(path, size=(8, 8), colour="#102030"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def spec(root, name="selection/x", **parts):
    return DatasetSpec(name, "selection", str(root), **parts)


def rows(dataset):
    return [(sample.id, sample.texts, dict(sample.meta)) for shard in dataset.shards() for sample in shard]


def write_questions(root, *lines):
    root.mkdir(exist_ok=True)
    for name in ("a", "b"):
        save(root / f"{name}.png")
    (root / "questions.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    return root


class TestOurOwnForm:
    def test_image_i_belongs_to_text_i(self, tmp_path):
        root = write_questions(tmp_path, {"id": 7, "images": ["a.png", "b.png"], "texts": ["x", "y"], "tag": "swap"})

        assert rows(open_selection(spec(root))) == [
            ("7/0", ("x",), {"tag": "swap", "question": "7", "images": 2, "text": 0}),
            ("7/1", ("y",), {"tag": "swap", "question": "7", "images": 2, "text": 1}),
        ]

    def test_texts_of_no_image_are_wrong_candidates_behind_a_right_one(self, tmp_path):
        root = write_questions(tmp_path, {"images": ["a.png", "b.png"], "texts": ["w", "x"], "right": [[1, 1]]})

        assert [texts for _, texts, _ in rows(open_selection(spec(root)))] == [(), ("x", "w")]

    def test_two_questions_of_one_id_are_not_read_as_one(self, tmp_path):
        one = {"id": "a", "images": ["a.png", "b.png"], "texts": ["x", "y"]}
        root = write_questions(tmp_path, one, {"id": "a", "images": ["a.png"], "texts": ["x", "z"]})

        with pytest.raises(DataError, match="line 2: the id 'a' occurs twice"):
            open_selection(spec(root))

    def test_a_text_that_is_null_is_no_candidate(self, tmp_path):
        root = write_questions(tmp_path, {"images": ["a.png"], "texts": ["x", None]})

        with pytest.raises(DataError, match="None is neither a text nor a number"):
            open_selection(spec(root))

    def test_the_folder_is_recognised(self, tmp_path):
        root = write_questions(tmp_path, {"images": ["a.png"], "texts": ["x", "y"]})

        assert resolve_dataset(str(root), "root").reader == "selection"

    def test_another_language_has_a_file_of_its_own(self, tmp_path):
        root = write_questions(tmp_path, {"images": ["a.png"], "texts": ["x", "y"]})
        (root / "questions.de.jsonl").write_text('{"images": ["a.png"], "texts": ["ex", "ypsilon"]}')

        assert rows(open_selection(spec(root, language="de")))[0][1] == ("ex", "ypsilon")
        with pytest.raises(DataError, match=r"questions\.fr\.jsonl"):
            open_selection(spec(root, language="fr"))

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ({"images": ["a.png"], "texts": ["x"]}, "there is only one candidate"),
            ({"images": ["a.png"], "texts": ["x", "y"], "right": [[0, 2]]}, r"the pair \[0, 2\] is invalid"),
            ({"images": ["a.png"], "texts": ["x", "y"], "right": [[0, 0], [0, 1]]}, r"the pair \[0, 1\] is invalid"),
            ({"images": ["a.png"], "texts": ["x", "y"], "right": []}, "no image is paired with a text"),
            ({"images": ["a.png"]}, "KeyError"),
            ({"images": ["a.png"], "texts": "a dog"}, "'a dog' is not a list"),
            ({"images": ["../a.png"], "texts": ["x", "y"]}, "is outside"),
            (["not", "an", "object"], "not in the expected form"),
        ],
    )
    def test_a_bad_line_is_named(self, tmp_path, line, reason):
        good = {"images": ["a.png"], "texts": ["x", "y"]}

        with pytest.raises(DataError, match=rf"line 2: .*{reason}"):
            open_selection(spec(write_questions(tmp_path, good, line)))

    def test_missing_images_are_listed(self, tmp_path):
        root = write_questions(tmp_path, {"images": ["gone.png"], "texts": ["x", "y"]})

        with pytest.raises(DataError, match=r"1 image that is not in .*gone\.png"):
            open_selection(spec(root))


class TestAro:
    def write(self, root, *content):
        save(root / "images" / "1.png", size=(40, 30))
        (root / "relation.json").write_text(json.dumps(content))
        return root

    def test_a_true_and_a_false_caption(self, tmp_path):
        row = {"image_path": "1.png", "true_caption": "a on b", "false_caption": "b on a", "relation_name": "on"}

        ((name, texts, meta),) = rows(open_aro(spec(self.write(tmp_path, row), "aro/relation")))

        assert (name, texts) == ("0", ("a on b", "b on a"))
        assert meta["relation_name"] == "on"

    def test_options_have_the_right_one_first(self, tmp_path):
        root = self.write(tmp_path, {"image": "1.png", "caption_options": ["a b", "b a", "a a b"]})

        assert rows(open_aro(spec(root, "aro/relation")))[0][1] == ("a b", "b a", "a a b")

    def test_a_box_is_cut_out_and_has_a_digest_of_its_own(self, tmp_path):
        row = {"image_path": "1.png", "true_caption": "a", "false_caption": "b"}
        box = {"bbox_x": 5, "bbox_y": 10, "bbox_w": 20, "bbox_h": 8}
        (whole, part) = (
            sample
            for shard in open_aro(spec(self.write(tmp_path, row, row | box), "aro/relation")).shards()
            for sample in shard
        )

        assert whole.image.decode().size == (40, 30)
        assert part.image.decode().size == (20, 8)
        assert whole.image.digest() != part.image.digest()

    def test_an_empty_box_is_refused(self, tmp_path):
        row = {"image_path": "1.png", "true_caption": "a", "false_caption": "b"}
        box = {"bbox_x": 5, "bbox_y": 10, "bbox_w": 0, "bbox_h": 8}

        with pytest.raises(DataError, match="empty or outside"):
            open_aro(spec(self.write(tmp_path, row | box), "aro/relation"))

    def test_several_files_need_a_name(self, tmp_path):
        self.write(tmp_path)
        (tmp_path / "other.json").write_text("[]")

        with pytest.raises(DataError, match=r"2 JSON files, none of them named x\.json"):
            open_aro(spec(tmp_path, "aro/x"))


def test_imagecode_has_sets_of_ten_images(tmp_path):
    for i in range(10):
        save(tmp_path / "image-sets" / "video-1" / f"img{i}.jpg", colour=f"#00{i:02x}00")
    (tmp_path / "valid_data.json").write_text(json.dumps({"video-1": {"3": "the hand is lower"}}))

    found = rows(open_imagecode(spec(tmp_path, split="valid")))

    assert [texts for _, texts, _ in found] == [()] * 3 + [("the hand is lower",)] + [()] * 6
    assert found[3][2] == {"video": True, "question": "video-1/3", "images": 10, "text": 0}


@pytest.mark.parametrize("content", ["[]", '{"video-1": ["a text without a number"]}'])
def test_imagecode_in_another_form_is_refused(tmp_path, content):
    (tmp_path / "valid_data.json").write_text(content)

    with pytest.raises(DataError, match="not have the format of its benchmark"):
        open_imagecode(spec(tmp_path, split="valid"))
