"""Datasets that are objects: of Hugging Face, of torch, and plain lists."""

import io

import numpy as np
import pytest
from PIL import Image

import eyechart
from eyechart.errors import EyechartError
from support.data import noise_image, png

MODEL = "eyechart-tiny"
NAMES = ["cat", "dog", "bird"]
IMAGES = [noise_image(seed) for seed in range(6)]
LABELS = [0, 1, 2, 0, 1, 2]
CLOSED = Image.open(io.BytesIO(png()))
CLOSED.close()
CAPTIONS = [[f"a photo of thing {i}", f"picture number {i}"] for i in range(6)]


def records(dataset, **settings):
    """Return what a run found, without where it found it."""
    (result,) = eyechart.evaluate(MODEL, dataset, output=None, **settings)
    return [{key: record[key] for key in ("id", "label", "scores")} for record in result.iter_records()]


@pytest.fixture
def expected():
    return records({"images": IMAGES, "labels": LABELS, "classnames": NAMES})


@pytest.fixture
def hugging_face():
    from datasets import ClassLabel, Dataset, Features, Value
    from datasets import Image as ImageFeature

    features = Features({"picture": ImageFeature(), "kind": ClassLabel(names=NAMES), "region": Value("string")})
    rows = {"picture": IMAGES, "kind": LABELS, "region": ["north", "south"] * 3}
    return Dataset.from_dict(rows, features=features)


class TestLists:
    def test_images_of_every_form_give_the_same_vectors(self, expected, tmp_path):
        paths = []
        for i, image in enumerate(IMAGES):
            image.save(tmp_path / f"{i}.png")
            paths.append(tmp_path / f"{i}.png")
        forms = {
            "arrays": [np.asarray(image) for image in IMAGES],
            "one array": np.stack([np.asarray(image) for image in IMAGES]),
            "paths": paths,
            "texts": list(map(str, paths)),
            "bytes": [path.read_bytes() for path in paths],
        }

        for form, images in forms.items():
            assert records({"images": images, "labels": LABELS, "classnames": NAMES}) == expected, form

    def test_labels_of_every_form(self, expected):
        import torch

        for labels in (tuple(LABELS), np.array(LABELS), torch.tensor(LABELS), [NAMES[label] for label in LABELS]):
            assert records({"images": IMAGES, "labels": labels, "classnames": NAMES}) == expected

    def test_names_as_labels_make_the_classes(self):
        data = {"images": IMAGES, "labels": ["dog", "cat", "dog", "cat", "dog", "cat"]}

        (result,) = eyechart.evaluate(MODEL, data, dump_classnames=True)
        assert result.extra["classnames"] == ["cat", "dog"]
        assert [record["label"] for record in result.iter_records()] == [1, 0, 1, 0, 1, 0]

    def test_several_labels_captions_ids_groups_and_templates(self):
        labels = [["cat"], ["cat", "dog"], ["bird"], ["dog"], ["cat"], ["bird", "dog"]]
        (many,) = eyechart.evaluate(MODEL, {"images": IMAGES, "labels": labels})
        (found,) = eyechart.evaluate(MODEL, {"name": "things", "images": IMAGES, "captions": CAPTIONS}, recall_k=1)
        data = {"images": IMAGES, "labels": LABELS, "classnames": NAMES, "ids": list("abcdef")}
        data |= {"templates": "an image of a {c}", "meta": {"side": ["left", "right"] * 3}}
        (grouped,) = eyechart.evaluate(MODEL, data, group_by="side", dump_templates=True)

        assert "mean_average_precision" in many.metrics
        assert (found.dataset, found.details["captions"]) == ("things", 12)
        assert [record["id"] for record in grouped.iter_records()] == list("abcdef")
        assert grouped.extra["templates"] == ["an image of a {c}"]
        assert set(grouped.details["groups"]["side"]) >= {"left", "right"}

    def test_splits_for_tasks_that_learn(self):
        train = {"images": [noise_image(seed) for seed in range(20, 26)], "labels": LABELS, "classnames": NAMES}
        test = {"images": IMAGES, "labels": LABELS, "classnames": NAMES}

        (result,) = eyechart.evaluate(MODEL, {"name": "both", "train": train, "test": test}, task="knn", knn_k=1)
        assert (result.dataset, result.counts["scored"]) == ("both", 6)
        with pytest.raises(EyechartError, match="6 of the 6 test images are also in the training data"):
            eyechart.evaluate(MODEL, {"train": test, "test": test}, task="knn", knn_k=1)
        with pytest.raises(EyechartError, match="is a single object and has no split 'train'"):
            eyechart.evaluate(MODEL, test, task="knn")

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            ({"images": IMAGES, "labels": LABELS[:5], "classnames": NAMES}, "6 images, but 5 labels"),
            ({"images": IMAGES, "labels": LABELS, "classname": NAMES}, "classnames"),
            ({"images": IMAGES, "labels": LABELS, "captions": CAPTIONS}, "either labels or captions"),
            ({"images": IMAGES}, "either labels or captions"),
            ({"images": IMAGES, "labels": [*LABELS[:5], 3], "classnames": NAMES}, "has label 3"),
            ({"images": IMAGES, "labels": [*LABELS[:5], 1.5], "classnames": NAMES}, "is not a label"),
            ({"images": IMAGES, "labels": [*NAMES, *NAMES[:2], "cow"], "classnames": NAMES}, "unknown class 'cow'"),
            ({"images": [*IMAGES[:5], 7], "labels": LABELS, "classnames": NAMES}, "a int is not an image"),
            ({"images": [*IMAGES[:5], "no/such.png"], "labels": LABELS, "classnames": NAMES}, "no/such.png"),
            ({"images": [*IMAGES[:5], b"no image"], "labels": LABELS, "classnames": NAMES}, "decode"),
            ({"images": [np.zeros((9, 9, 3))], "labels": [0], "classnames": NAMES}, "value range of a float64 image"),
            ({"images": [np.zeros((9, 9, 5), np.uint8)], "labels": [0], "classnames": NAMES}, "is not an image"),
            ({"images": IMAGES, "captions": [["a"]] * 5 + [[3]]}, "are not texts"),
            ({"images": IMAGES, "captions": ["a"] * 5 + [[" "]]}, "has no caption"),
            ({"images": IMAGES, "captions": ["a"] * 5 + [None]}, "are not texts"),
            ({"images": IMAGES, "captions": "sixsix"}, "6 images, but 1 captions"),
            (
                {"images": IMAGES, "labels": np.eye(3, dtype=int)[LABELS], "classnames": NAMES},
                "has the shape (6, 3)",
            ),
            ({"images": IMAGES, "labels": np.eye(3, dtype=int)[LABELS].tolist(), "classnames": NAMES}, "a class twice"),
            ({"images": IMAGES, "labels": list(np.eye(3, dtype=int)[LABELS]), "classnames": NAMES}, "is not a label"),
            ({"images": IMAGES, "labels": [[0], *LABELS[1:]], "classnames": NAMES}, "others a single label"),
            ({"images": IMAGES, "labels": LABELS, "classnames": dict(enumerate(NAMES))}, "must be a list, not a dict"),
            ({"images": IMAGES, "labels": LABELS, "classnames": set(NAMES)}, "must be a list, not a set"),
            ({"images": IMAGES, "labels": LABELS, "classnames": ["cat", " ", "bird"]}, "class 1 has no name"),
            (
                {"images": [Image.new("F", (9, 9), 200)], "labels": [0], "classnames": NAMES},
                "value of white is unknown",
            ),
            (
                {"images": [Image.new("I", (9, 9), 200)], "labels": [0], "classnames": NAMES},
                "value of white is unknown",
            ),
            ({"images": [CLOSED], "labels": [0], "classnames": NAMES}, "images[0]: cannot read the image"),
            ({"images": [Image.new("RGB", (0, 9))], "labels": [0], "classnames": NAMES}, "0 x 9 pixels"),
            ([], "dataset is an empty list"),
            ({"images": [], "labels": [], "classnames": NAMES}, "no samples"),
            (3, "is not a dataset"),
            ({}, "no split 'test'"),
        ],
    )
    def test_what_does_not_fit_is_said(self, data, words):
        with pytest.raises(EyechartError) as caught:
            eyechart.evaluate(MODEL, data)
        assert words in f"{caught.value.message} {caught.value.advice}"


class TestHuggingFace:
    def test_features_say_what_is_what(self, hugging_face, expected):
        assert records(hugging_face) == expected
        assert records(hugging_face.to_iterable_dataset()) == expected
        assert records(hugging_face.with_format("torch")) == expected
        assert records({"test": hugging_face}) == expected

    @pytest.mark.parametrize("name", ["png", "objects"])
    def test_other_columns_may_hold_bytes_or_structs_of_lists(self, hugging_face, expected, name):
        from datasets import List, Value

        boxes = {"box": List(Value("float32")), "kind": List(Value("int64"))}
        content, feature = {
            "png": (b"a thumbnail", Value("binary")),
            "objects": ({"box": [0.0, 1.0], "kind": [2]}, boxes),
        }[name]
        assert records(hugging_face.add_column(name, [content] * 6, feature=feature)) == expected

    def test_a_dict_of_splits_as_load_dataset_gives_it(self, hugging_face):
        from datasets import DatasetDict

        both = DatasetDict(train=hugging_face.select(range(4)), test=hugging_face.select([4, 5]))
        (result,) = eyechart.evaluate(MODEL, both, task="knn", knn_k=1)
        assert [record["label"] for record in result.iter_records()] == [1, 2]

    def test_the_bytes_of_a_file_stay_as_they_are(self):
        """So its vector is the one that is stored for the same file in a folder."""
        from datasets import Dataset, Features, Value
        from datasets import Image as ImageFeature

        stream = io.BytesIO()
        noise_image(1).save(stream, "JPEG", quality=30)
        rows = {"image": [{"bytes": stream.getvalue(), "path": None}], "caption": ["noise"]}
        data = Dataset.from_dict(rows, features=Features({"image": ImageFeature(), "caption": Value("string")}))

        (own,) = eyechart.evaluate(MODEL, data, recall_k=1)
        (plain,) = eyechart.evaluate(MODEL, {"images": [stream.getvalue()], "captions": ["noise"]}, recall_k=1)
        assert own.data["fingerprint"] == plain.data["fingerprint"]

    def test_columns_by_argument(self, hugging_face):
        (grouped,) = eyechart.evaluate(MODEL, hugging_face, group_by="region")
        assert set(grouped.details["groups"]["region"]) >= {"north", "south"}

        (by_region,) = eyechart.evaluate(MODEL, hugging_face, label_column="region", dump_classnames=True)
        assert by_region.extra["classnames"] == ["north", "south"]

        (captions,) = eyechart.evaluate(MODEL, hugging_face, caption_column="region", recall_k=1)
        assert captions.task == "zeroshot_retrieval"

        (read,) = eyechart.evaluate(MODEL, hugging_face, task="zeroshot_retrieval", recall_k=1)
        assert read.details["captions"] == 6

        (named,) = eyechart.evaluate(MODEL, hugging_face.add_column("key", list("abcdef")), id_column="key")
        assert [record["id"] for record in named.iter_records()] == list("abcdef")

        more = hugging_face.add_column("title", [f"title {i}" for i in range(6)])
        (both,) = eyechart.evaluate(MODEL, more, caption_column=["region", "title"], recall_k=1)
        assert both.details["captions"] == 12
        with pytest.raises(EyechartError, match="label_column and caption_column cannot be combined"):
            eyechart.evaluate(MODEL, more, caption_column="title", label_column="kind")

        two = hugging_face.add_column("sort", LABELS).cast_column("sort", hugging_face.features["kind"])
        with pytest.raises(EyechartError, match="several columns of labels: kind, sort"):
            eyechart.evaluate(MODEL, two)
        with pytest.raises(EyechartError) as caught:
            eyechart.evaluate(MODEL, hugging_face, label_column="kinds")
        assert "kind" in caught.value.advice


class TestTorch:
    def test_items_with_a_label_and_classes(self, expected):
        from torch.utils.data import Dataset, Subset

        class Things(Dataset):
            classes = NAMES

            def __len__(self):
                return 6

            def __getitem__(self, i):
                return IMAGES[i], LABELS[i]

        assert records(Things()) == expected
        assert records(Subset(Things(), range(6))) == expected
        (result,) = eyechart.evaluate(MODEL, Things())
        assert (result.dataset, result.job["objects"]["dataset"].rpartition(".")[2]) == ("Things", "Things")

    def test_items_of_other_forms(self, expected):
        import pandas as pd
        import torch
        from torch.utils.data import IterableDataset

        class Stream(IterableDataset):
            def __iter__(self):
                for image, label in zip(IMAGES, LABELS, strict=True):
                    pixels = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)
                    yield {"image": pixels, "label": torch.tensor(label), "more": 1}

        assert records(Stream(), classnames=NAMES) == expected
        assert records(list(zip(IMAGES, LABELS, strict=True)), classnames=NAMES) == expected
        assert records([list(item) for item in zip(IMAGES, LABELS, strict=True)], classnames=NAMES) == expected
        dicts = [{"image": image, "label": label} for image, label in zip(IMAGES, LABELS, strict=True)]
        assert records(dicts, classnames=np.array(NAMES)) == expected
        assert records(pd.DataFrame(dicts, index=range(6, 0, -1)), classnames=NAMES) == expected

    def test_items_with_captions(self):
        (result,) = eyechart.evaluate(MODEL, list(zip(IMAGES, CAPTIONS, strict=True)), recall_k=1)
        assert (result.task, result.details["captions"]) == ("zeroshot_retrieval", 12)

    def test_a_dataset_without_names_or_with_a_random_transform_is_refused(self):
        from torch.utils.data import IterableDataset

        items = list(zip(IMAGES, LABELS, strict=True))
        with pytest.raises(EyechartError, match="has no class names"):
            eyechart.evaluate(MODEL, items)
        with pytest.raises(EyechartError, match="can be iterated only once"):
            eyechart.evaluate(MODEL, (item for item in items), classnames=NAMES)

        class Once(IterableDataset):
            def __iter__(self):
                return self.items

        class ByNumber(list):
            @property
            def classes(self):
                return dict(enumerate(NAMES))

        with pytest.raises(EyechartError, match="classes of ByNumber are a dict"):
            eyechart.evaluate(MODEL, [ByNumber(items)])

        once = Once()
        once.items = iter(items)
        with pytest.raises(EyechartError, match="can be iterated only once"):
            eyechart.evaluate(MODEL, once, classnames=NAMES)

        class Restless:
            classes = NAMES
            generator = np.random.default_rng(0)

            def __len__(self):
                return 4

            def __getitem__(self, i):
                return Image.fromarray(self.generator.integers(0, 255, (8, 8, 3), dtype=np.uint8)), 0

        with pytest.raises(EyechartError, match="the image changed after the dataset was read"):
            eyechart.evaluate(MODEL, Restless())


class TestIdentity:
    def test_two_datasets_of_the_same_length_and_name(self):
        one = {"images": IMAGES, "labels": LABELS, "classnames": NAMES}
        others = {
            "other images": {**one, "images": [noise_image(seed) for seed in range(50, 56)]},
            "other labels": {**one, "labels": LABELS[::-1]},
            "other names": {**one, "classnames": ["cow", "horse", "pig"]},
        }
        (first,) = eyechart.evaluate(MODEL, one)
        (again,) = eyechart.evaluate(MODEL, one)
        assert list(first.iter_records()) == list(again.iter_records())

        for what, data in others.items():
            (result,) = eyechart.evaluate(MODEL, data)
            assert (result.dataset, result.counts) == (first.dataset, first.counts)
            assert list(result.iter_records()) != list(first.iter_records()), what
            same = result.data["fingerprint"] == first.data["fingerprint"]
            assert same == (what == "other names")

    def test_one_dataset_that_is_changed_in_place_between_two_calls(self):
        data = {"images": list(IMAGES), "labels": LABELS, "classnames": NAMES}
        (before,) = eyechart.evaluate(MODEL, data)
        data["images"][0] = noise_image(99)
        (after,) = eyechart.evaluate(MODEL, data)

        first, second = list(before.iter_records()), list(after.iter_records())
        assert first[0] != second[0]
        assert first[1:] == second[1:]

    def test_both_in_one_call_have_names_of_their_own(self):
        data = {"images": IMAGES, "labels": LABELS, "classnames": NAMES}
        results = eyechart.evaluate(MODEL, [data, {**data, "labels": LABELS[::-1]}])

        assert [result.dataset for result in results] == ["images", "images-2"]
        assert [[r["label"] for r in result.iter_records()] for result in results] == [LABELS, LABELS[::-1]]


def test_what_is_said_of_objects_is_refused_for_names():
    with pytest.raises(EyechartError, match="a dict of lists and has no columns kind"):
        eyechart.evaluate(MODEL, {"images": IMAGES, "labels": LABELS, "classnames": NAMES}, label_column="kind")
    with pytest.raises(EyechartError, match="require a dataset passed as an object"):
        eyechart.evaluate(MODEL, "demo/garments", classnames=["x"])
    with pytest.raises(EyechartError, match=r"demo/garments is not a table, so label_column does not apply"):
        eyechart.evaluate(MODEL, "demo/garments", label_column="x")
    with pytest.raises(EyechartError, match="require a model passed as an object"):
        eyechart.evaluate(MODEL, "demo/garments", tokenizer=len)


def test_nothing_is_left_in_the_folder_unless_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = {"images": [png(1), png(2)], "labels": [0, 1], "classnames": NAMES[:2]}
    before = set(tmp_path.iterdir())

    (result,) = eyechart.evaluate(MODEL, data)
    assert {path.name for path in set(tmp_path.iterdir()) - before} <= {"cache"}
    assert list(result.iter_records())

    eyechart.evaluate(MODEL, data, output="mine/{dataset}.json")
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["images.json", "images.records.jsonl"]
