"""A split that is not there is an error: never the whole set, for then a probe would learn from its own test images."""

import csv
import json

import pytest

from eyechart import evaluate
from eyechart.datasets.image_folder import open_imagenet
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.text_collection import read_collection
from eyechart.errors import EyechartError, UsageError
from eyechart.manifest import iter_samples
from eyechart.types import DatasetSpec
from support.data import png


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def opened(reader, root, split="test", **options):
    return open_dataset(DatasetSpec("mine", reader, str(root), split, options=options))


def ids(dataset):
    return [sample.id for sample in iter_samples(dataset)]


@pytest.fixture
def undivided(tmp_path):
    """Write data of every form that knows no splits, all in one folder."""
    for name in ("cat/1.png", "dog/1.png", "images/1.png", "images/2.png"):
        put(tmp_path / name, png())
    put(tmp_path / "t.csv", "image,label\ncat/1.png,cat\ndog/1.png,dog\n")
    put(tmp_path / "captions.jsonl", lines({"image": "cat/1.png", "caption": "a cat"}))
    put(tmp_path / "image_queries.jsonl", lines({"image_path": "cat/1.png", "query": ["a cat"]}))
    put(tmp_path / "pairs.jsonl", lines({"image_1": "1.png", "image_2": "2.png", "score": 3}))
    put(tmp_path / "questions.jsonl", lines({"images": ["1.png", "2.png"], "texts": ["a", "b"]}))
    put(tmp_path / "aro.json", json.dumps([{"image": "1.png", "true_caption": "a", "false_caption": "b"}]))
    put(tmp_path / "sets.json", json.dumps({"s": {"0": "an image"}}))
    for i in range(10):
        put(tmp_path / f"image-sets/s/img{i}.jpg", png())
    put(tmp_path / "corpus.jsonl", lines({"_id": "d", "image": "1.png"}))
    put(tmp_path / "queries.jsonl", lines({"_id": "q", "text": "a cat"}))
    put(tmp_path / "qrels.jsonl", lines({"query-id": "q", "corpus-id": "d", "score": 1}))
    return tmp_path


FORMS = {
    "folder": "",
    "table": "t.csv",
    "table of captions": "captions.jsonl",
    "jsonl": "",
    "pairs": "",
    "selection": "",
    "aro": "aro.json",
    "imagecode": "sets.json",
    "collection": "",
}


@pytest.mark.parametrize("form", FORMS)
def test_data_that_are_not_divided_are_the_split_test_and_no_other(form, undivided):
    root, reader = undivided / FORMS[form], form.partition(" ")[0]
    assert ids(opened(reader, root))

    for split in ("train", "val", "tset"):
        with pytest.raises(UsageError, match=rf"has no split '{split}'\.\nAvailable: test\."):
            opened(reader, root, split)


def test_a_probe_on_a_folder_without_a_training_split_is_refused(tmp_path):
    for i in range(8):
        put(tmp_path / "data" / ("cat" if i % 2 else "dog") / f"{i}.png", png(i))
    settings = {
        "model_type": "onnx",
        "model": ["eyechart-tiny"],
        "language": ["en"],
        "output": str(tmp_path / "r.json"),
    }

    with pytest.raises(EyechartError, match="has no split 'train'"):
        evaluate(**settings, dataset=[str(tmp_path / "data")], task=["linear_probe"])
    assert not (tmp_path / "r.json").exists()


class TestFolder:
    def test_splits_are_folders(self, tmp_path):
        put(tmp_path / "train/cat/1.png", png())
        put(tmp_path / "test/cat/2.png", png())

        assert ids(opened("folder", tmp_path, "train")) == ["cat/1.png"]
        assert ids(opened("folder", tmp_path)) == ["cat/2.png"]

    def test_an_unknown_one_lists_those_there_are(self, tmp_path):
        put(tmp_path / "train/cat/1.png", png())
        put(tmp_path / "val/cat/2.png", png())

        with pytest.raises(UsageError, match=r"no split 'test'\.\nAvailable: train, val"):
            opened("folder", tmp_path)

    def test_unlabelled_images_beside_a_training_split_are_no_class(self, tmp_path):
        put(tmp_path / "train/cat/1.png", png())
        put(tmp_path / "unlabelled/2.png", png())

        with pytest.raises(UsageError, match=r"Available: train\."):
            opened("folder", tmp_path)

    def test_a_class_may_be_called_train(self, tmp_path):
        put(tmp_path / "train/1.png", png())
        put(tmp_path / "car/1.png", png())

        assert opened("folder", tmp_path).info.classnames == ("car", "train")
        with pytest.raises(EyechartError):
            opened("folder", tmp_path, "train")


class TestTable:
    @pytest.fixture
    def table(self, tmp_path):
        for i in range(4):
            put(tmp_path / f"{i}.png", png(i))
        rows = [
            ["image", "label", "split"],
            *([f"{i}.png", ["cat", "dog"][i // 2], ["train", "test"][i % 2]] for i in range(4)),
        ]
        with (tmp_path / "t.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows(rows)
        return tmp_path / "t.csv"

    def test_a_column_divides_it(self, table):
        assert ids(opened("table", table, "train")) == ["2", "4"]
        assert ids(opened("table", table)) == ["3", "5"]

    def test_classes_are_the_same_in_every_split(self, table):
        table.write_text(table.read_text() + "0.png,ant,train\n")

        datasets = [opened("table", table, split) for split in ("train", "test")]

        assert [dataset.info.classnames for dataset in datasets] == [("ant", "cat", "dog")] * 2
        assert [[s.label for s in iter_samples(dataset)] for dataset in datasets] == [[1, 2, 0], [1, 2]]

    def test_an_unknown_split_lists_those_there_are(self, table):
        with pytest.raises(UsageError, match=r"no split 'val'\.\nAvailable: test, train"):
            opened("table", table, "val")

    def test_a_row_without_a_split_is_a_bad_line(self, table):
        table.write_text(table.read_text() + "0.png,cat,\n")

        with pytest.raises(EyechartError, match="line 6: no split"):
            opened("table", table)


def test_imagenet_without_a_training_folder_has_no_training_split(tmp_path):
    put(tmp_path / "n01440764/1.png", png())
    options = {"source": {"splits": {"train": "train", "test": "val"}}, "prompts": {}}
    options |= {"classname_file": str(tmp_path / "names.txt")}
    put(tmp_path / "names.txt", "\n".join(map(str, range(1000))))

    def of(split):
        return open_imagenet(DatasetSpec("imagenet1k", "imagenet", str(tmp_path), split, options=options))

    assert len(ids(of("test"))) == 1
    with pytest.raises(EyechartError, match="does not contain train"):
        of("train")


def test_relevance_without_a_split_is_of_the_split_test(undivided):
    put(undivided / "corpus.jsonl", lines({"_id": "d", "text": "a cat"}))
    put(undivided / "qrels" / "dev.tsv", "query-id\tcorpus-id\tscore\nq\td\t2\n")

    assert read_collection(undivided).relevance == {"q": {"d": 1.0}}
    assert read_collection(undivided, "dev").relevance == {"q": {"d": 2.0}}
    with pytest.raises(UsageError, match=r"no split 'train'\.\nAvailable: dev, test"):
        read_collection(undivided, "train")
