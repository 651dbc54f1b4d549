import csv
import json

import pytest

from eyechart.datasets.annotation_files import open_jsonl
from eyechart.datasets.image_folder import open_folder
from eyechart.datasets.image_table import open_table
from eyechart.errors import DataError
from eyechart.manifest import iter_samples, read_manifest
from eyechart.types import DatasetSpec
from support.data import png


def spec(root, **options):
    return DatasetSpec("mine", "x", str(root), **options)


def images(folder, *names):
    for i, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(i))


def write_lines(path, *rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


class TestImageQueries:
    def test_paths_are_relative_to_the_file_or_to_the_working_directory(self, tmp_path, monkeypatch):
        images(tmp_path / "data", "near.png")
        images(tmp_path / "here", "images/far.png")
        write_lines(
            tmp_path / "data" / "image_queries.jsonl",
            {"image_path": "near.png", "query": ["dog"]},
            {"image_path": "images/far.png", "query": ["city", "tokyo"]},
        )
        monkeypatch.chdir(tmp_path / "here")

        found = list(iter_samples(open_jsonl(spec(tmp_path / "data"))))

        assert [sample.texts for sample in found] == [("dog",), ("city", "tokyo")]
        assert [sample.image.read() for sample in found] == [png(0), png(0)]

    def test_extra_fields_are_kept(self, tmp_path):
        images(tmp_path, "a.png")
        write_lines(tmp_path / "image_queries.jsonl", {"image_path": "a.png", "query": ["x"], "source": "web"})

        (sample,) = iter_samples(open_jsonl(spec(tmp_path)))

        assert sample.meta == {"source": "web"}

    def test_all_bad_lines_are_listed_with_their_numbers(self, tmp_path):
        images(tmp_path, "a.png")
        write_lines(
            tmp_path / "image_queries.jsonl",
            {"image_path": "a.png", "query": ["fine"]},
            "{broken",
            {"image_path": "gone.png", "query": ["x"]},
            {"image_path": "a.png", "query": []},
            {"image_path": "a.png", "query": [1]},
            {"query": ["x"]},
            "[1]",
        )

        with pytest.raises(DataError) as caught:
            open_jsonl(spec(tmp_path))

        message = str(caught.value)
        assert "6 bad lines" in message
        for part in (
            "line 2: not valid JSON",
            "line 3: the image 'gone.png' does not exist",
            "line 4: query is empty",
            "line 5: query must be a list of texts",
            "line 6: image_path is missing",
            "line 7: not a JSON object",
        ):
            assert part in message

    def test_a_missing_file_is_an_error(self, tmp_path):
        with pytest.raises(DataError, match=r"There is no .*image_queries\.jsonl"):
            open_jsonl(spec(tmp_path))


class TestFolder:
    def test_classes_are_the_sorted_folders(self, tmp_path):
        images(tmp_path, "tabby_cat/1.png", "dog/2.png", "dog/1.jpg")
        (tmp_path / "dog" / "notes.txt").write_text("not an image")

        dataset = open_folder(spec(tmp_path))

        assert dataset.info.classnames == ("dog", "tabby cat")
        found = [(sample.id, sample.label) for sample in iter_samples(dataset)]
        assert found == [("dog/1.jpg", 0), ("dog/2.png", 0), ("tabby_cat/1.png", 1)]

    def test_a_folder_named_like_the_split_is_preferred(self, tmp_path):
        images(tmp_path, "val/cat/1.png", "train/dog/1.png")

        assert open_folder(spec(tmp_path, split="val")).info.classnames == ("cat",)

    @pytest.mark.parametrize("extension", ["JPG", "jfif", "avif", "jp2", "pbm"])
    def test_images_of_every_format_that_is_decoded_are_listed(self, tmp_path, extension):
        images(tmp_path, "cat/1.png", f"cat/2.{extension}")

        assert len(list(iter_samples(open_folder(spec(tmp_path))))) == 2

    def test_an_image_that_is_a_dead_link_is_missing_and_not_left_out(self, tmp_path):
        images(tmp_path, "cat/1.png")
        (tmp_path / "cat" / "2.png").symlink_to(tmp_path / "gone.png")

        with pytest.raises(DataError, match=r"2\.png: cannot read the image"):
            read_manifest(open_folder(spec(tmp_path)))
        manifest = read_manifest(open_folder(spec(tmp_path)), on_error="skip")
        assert (len(manifest), [failure.id for failure in manifest.failures]) == (1, ["cat/2.png"])

    def test_the_default_template_is_noted(self, tmp_path):
        images(tmp_path, "cat/1.png")

        assert [note.kind for note in open_folder(spec(tmp_path)).info.notes] == ["default_templates"]

    def test_a_folder_without_images_is_an_error(self, tmp_path):
        with pytest.raises(DataError, match="no folders with images"):
            open_folder(spec(tmp_path))

    def test_a_name_list_of_another_length_is_an_error(self, tmp_path):
        images(tmp_path, "cat/1.png", "dog/1.png")
        (tmp_path / "classnames.txt").write_text("only one\n")

        with pytest.raises(DataError, match="1 class name for 2 folders"):
            open_folder(spec(tmp_path))

    def test_the_folders_names_in_another_order_would_swap_labels(self, tmp_path):
        images(tmp_path, "cat/1.png", "tabby_dog/1.png")
        (tmp_path / "classnames.txt").write_text("tabby dog\ncat\n")

        with pytest.raises(DataError, match="in a different order"):
            open_folder(spec(tmp_path))
        (tmp_path / "classnames.txt").write_text("cat\ntabby dog\n")
        assert open_folder(spec(tmp_path)).info.classnames == ("cat", "tabby dog")

    def test_images_that_lie_too_deep_are_noted(self, tmp_path):
        images(tmp_path, "cat/1.png", "cat/more/2.png", "mouse/deep/1.png", "dog/1.png")

        (note,) = (note for note in open_folder(spec(tmp_path)).info.notes if note.kind == "unread_folders")

        assert note.count == 2
        assert "mouse/deep" in note.message

    def test_what_is_not_read_among_the_classes_is_noted(self, tmp_path):
        images(tmp_path, "cat/1.png", "dog/1.png", ".cache/1.png", "dog/2.heic", "dog/Thumbs.db", "loose.png")
        (tmp_path / "mouse").mkdir()

        info = open_folder(spec(tmp_path)).info

        assert info.classnames == ("cat", "dog")
        found = {note.kind: (note.count, note.message) for note in info.notes if note.kind != "default_templates"}
        assert found.keys() == {"unread_images", "folders_without_images", "unread_files"}
        assert found["unread_images"][0] == 1
        assert "loose.png" in found["unread_images"][1]
        assert found["folders_without_images"][0] == 2
        assert ".cache" in found["folders_without_images"][1]
        assert found["unread_files"][0] == 1
        assert "dog/2.heic" in found["unread_files"][1]

    @pytest.mark.parametrize("listed", ["Tabby-Dog\nCat\n", "cat\nfish\nTABBY_DOG"])
    def test_a_name_that_stands_where_another_class_is_would_swap_labels(self, tmp_path, listed):
        images(tmp_path, *(f"{name}/1.png" for name in ("cat", "tabby_dog", "wolf")[: len(listed.split())]))
        (tmp_path / "classnames.txt").write_text(listed)

        with pytest.raises(DataError, match="in a different order"):
            open_folder(spec(tmp_path))

    def test_names_that_differ_in_signs_alone_are_in_order(self, tmp_path):
        images(tmp_path, "C/1.png", "C#/1.png", "C++/1.png")
        (tmp_path / "classnames.txt").write_text("c\nc#\nc++\n")

        assert open_folder(spec(tmp_path)).info.classnames == ("c", "c#", "c++")

    def test_numbers_of_several_lengths_have_two_orders_and_need_no_list(self, tmp_path):
        images(tmp_path, *(f"{i}/1.png" for i in range(11)))
        assert open_folder(spec(tmp_path)).info.classnames[:3] == ("0", "1", "10")
        (tmp_path / "classnames.txt").write_text("".join(f"name {i}\n" for i in range(11)))

        with pytest.raises(DataError, match="0, 1, 10, 2"):
            open_folder(spec(tmp_path))


class TestTable:
    def write_csv(self, path, header, *rows):
        with path.open("w", newline="") as stream:
            csv.writer(stream).writerows([header, *rows])
        return path

    def test_labels_by_name(self, tmp_path):
        images(tmp_path, "1.png", "2.png")
        path = self.write_csv(
            tmp_path / "t.csv", ["image", "label", "site"], ["1.png", "dog", "A"], ["2.png", "cat", "B"]
        )

        dataset = open_table(spec(path))

        assert dataset.info.classnames == ("cat", "dog")
        assert [(s.label, s.meta) for s in iter_samples(dataset)] == [(1, {"site": "A"}), (0, {"site": "B"})]

    def test_labels_by_number_need_class_names(self, tmp_path):
        images(tmp_path, "1.png")
        path = self.write_csv(tmp_path / "t.csv", ["image", "label"], ["1.png", "0"])

        with pytest.raises(DataError, match="no class names"):
            open_table(spec(path))
        (tmp_path / "classnames.txt").write_text("cat\n")
        assert open_table(spec(path)).info.classnames == ("cat",)

    def test_names_of_the_class_list_mean_their_places_in_it(self, tmp_path):
        images(tmp_path, "1.png", "2.png")
        path = self.write_csv(tmp_path / "t.csv", ["image", "label"], ["1.png", "cat"], ["2.png", "dog"])
        for names, labels in [("dog cat", [1, 0]), ("ant cat dog", [1, 2]), ("Hund Katze", [0, 1])]:
            (tmp_path / "classnames.txt").write_text("\n".join(names.split()))
            assert [sample.label for sample in iter_samples(open_table(spec(path)))] == labels

        (tmp_path / "classnames.txt").write_text("Hund\nKatze\nMaus\n")
        with pytest.raises(DataError, match="3 class names for 2 labels"):
            open_table(spec(path))

    @pytest.mark.parametrize("labels", [["0.0", "1.0"], ["-1", "0"]])
    def test_numbers_that_are_no_class_numbers_are_no_names(self, tmp_path, labels):
        images(tmp_path, "1.png")
        (tmp_path / "classnames.txt").write_text("cat\ndog\n")
        path = self.write_csv(tmp_path / "t.csv", ["image", "label"], *(["1.png", label] for label in labels))

        with pytest.raises(DataError, match="not class indices, such as"):
            open_table(spec(path))

    def test_a_label_is_one_text_or_number(self, tmp_path):
        images(tmp_path, "1.png")
        path = write_lines(tmp_path / "t.jsonl", {"image": "1.png", "label": [0, 1]})

        with pytest.raises(DataError, match=r"line 1: the label \[0, 1\] is neither"):
            open_table(spec(path))

    @pytest.mark.parametrize("column", ["label", "caption"])
    @pytest.mark.parametrize("value", [float("nan"), {"en": "a dog"}, ["a dog", None], ["a dog", float("nan")]])
    def test_what_is_no_text_does_not_become_one(self, tmp_path, column, value):
        images(tmp_path, "1.png", "2.png")
        path = write_lines(tmp_path / "t.jsonl", {"image": "1.png", column: "a cat"}, {"image": "2.png", column: value})

        with pytest.raises(DataError, match=f"line 2: the {column} .*neither a text nor a number"):
            open_table(spec(path))

    @pytest.mark.parametrize("cell", ["['a dog', 'a pet']", '["a dog", "a pet"]'])
    def test_a_list_in_a_cell_is_not_one_caption(self, tmp_path, cell):
        images(tmp_path, "1.png")
        path = self.write_csv(tmp_path / "t.csv", ["image", "caption"], ["1.png", "[a dog]"], ["1.png", cell])

        with pytest.raises(DataError, match="1 bad line:\n  line 3: the caption is a list"):
            open_table(spec(path))

    def test_labels_that_the_class_list_has_in_another_order_and_spelling_are_refused(self, tmp_path):
        images(tmp_path, "1.png", "2.png")
        path = self.write_csv(tmp_path / "t.csv", ["image", "label"], ["1.png", "cat"], ["2.png", "dog"])
        (tmp_path / "classnames.txt").write_text("Dog\nCat\n")

        with pytest.raises(DataError, match="in a different order: 'Dog' is at the position of 'cat'"):
            open_table(spec(path))

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ('image,caption\n1.png,"a dog\n2.png,a cat\n', "invalid table"),
            ('image,caption\n1.png,"a" dog\n2.png,a cat\n', "invalid table"),
            ("image,label,label\n1.png,a,b\n", "the column 'label' occurs more than once"),
            ("image,label\n1.png,a,b\n", "line 2: more cells than columns"),
        ],
    )
    def test_no_row_is_swallowed_and_no_cell_is_lost(self, tmp_path, text, reason):
        images(tmp_path, "1.png", "2.png")
        (tmp_path / "t.csv").write_text(text)

        with pytest.raises(DataError, match=reason):
            open_table(spec(tmp_path / "t.csv"))

    def test_captions_of_the_same_image_are_put_together(self, tmp_path):
        images(tmp_path, "1.png", "2.png")
        path = self.write_csv(
            tmp_path / "t.csv", ["path", "caption"], ["1.png", "a dog"], ["2.png", "a, cat"], ["1.png", "a pet"]
        )

        found = list(iter_samples(open_table(spec(path))))

        assert [(s.id, s.texts) for s in found] == [("1.png", ("a dog", "a pet")), ("2.png", ("a, cat",))]

    def test_json_lines_work_alike(self, tmp_path):
        images(tmp_path, "1.png")
        path = write_lines(tmp_path / "t.jsonl", {"image": "1.png", "captions": ["a", "b"]})

        assert next(iter_samples(open_table(spec(path)))).texts == ("a", "b")

    def test_bad_rows_are_listed_with_their_lines(self, tmp_path):
        images(tmp_path, "1.png")
        path = self.write_csv(
            tmp_path / "t.csv", ["image", "label"], ["1.png", "dog"], ["gone.png", "cat"], ["1.png", ""]
        )

        with pytest.raises(DataError, match=r"(?s)line 3: the image 'gone\.png'.*line 4: no label"):
            open_table(spec(path))

    @pytest.mark.parametrize(
        ("header", "message"), [(["x", "label"], "image paths"), (["image", "x"], "labels or captions")]
    )
    def test_missing_columns_are_named(self, tmp_path, header, message):
        path = self.write_csv(tmp_path / "t.csv", header, ["1.png", "a"])

        with pytest.raises(DataError, match=f"no column with {message}"):
            open_table(spec(path))
