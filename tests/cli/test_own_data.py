"""``eyechart info`` of data of one's own says what a run would meet, and the command for it."""

import json
import shlex

import pytest

from eyechart.cli import main
from eyechart.demo import data_folder
from eyechart.tasks.registry import load_task
from support.data import png, write_classification


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def about(capsys):
    def facts(*words):
        assert main(["info", *map(str, words), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return facts


def images(folder, *names):
    for i, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(i))


def test_class_folders(here, about):
    images(here / "photos", "cat/1.png", "cat/2.png", "dog/3.png")
    (here / "photos/dog/bad.png").write_bytes(b"\x89PNG nothing")
    (here / "photos/dog/notes.txt").write_text("x")

    found = about("photos/")

    assert found["form"] == "folders of images, one per class"
    assert (found["kind"], found["samples"], found["classes"]) == ("classification", 4, 2)
    assert found["images by class"] == "cat 2, dog 2"
    assert found["broken images"] == [
        "1 of 4 decoded:",
        "photos/dog/bad.png: cannot decode the image (cannot identify its format).",
    ]
    assert any("notes.txt" in note for note in found["notes"])
    assert found["tasks"][0] == "zeroshot_classification (the default)"
    assert "knn (with --folds 5, for lack of a train split)" in found["tasks"]
    assert found["next"] == "eyechart eval photos/ ViT-B-32:openai --on-error skip"


def test_splits_and_the_one_that_is_described(here, about):
    for split in ("train", "val"):
        images(here / "photos" / split, "cat/1.png", "dog/2.png")

    found = about("photos")

    assert found["splits"] == {"train": "(2 classes)", "val": "(2 classes)"}
    assert found["split"] == "train"
    assert found["next"] == "eyechart eval photos ViT-B-32:openai --split train"
    assert "knn" in found["tasks"]
    assert about("photos", "--split", "val")["split"] == "val"


def test_the_splits_of_a_table_and_tasks_of_generative_models(here, about):
    images(here, "a.png", "b.png", "c.png")
    rows = ["image,label,split", "a.png,cat,train", "b.png,dog,train", "c.png,dog,test"]
    (here / "t.csv").write_text("\n".join(rows) + "\n")

    found = about("t.csv")

    assert found["splits"] == {"train": "(2 rows)", "test": "(1 rows)"}
    generative = {task.split()[0] for task in found["tasks"] if "generative models" in task}
    assert generative == {name for task in found["tasks"] if load_task(name := task.split()[0]).needs == "generator"}
    assert generative


def test_a_webdataset_of_captions_in_several_languages(about):
    found = about(data_folder("scenes"))

    assert (found["form"], found["kind"], found["samples"]) == ("webdataset", "retrieval", 400)
    assert found["captions"].startswith("826, 1 to 3 per image")
    assert found["languages"] == "de, en"
    assert found["image sizes"] == "64 x 64"
    assert "broken images" not in found


def test_languages_of_class_names(here, about):
    write_classification(here / "zoo")
    (here / "zoo/classnames.de.txt").write_text("Katze\nHund\nVogel\n")

    assert about("zoo")["languages"] == "de, en"


def test_a_table_with_chosen_columns(here, about, capsys):
    images(here, "a.png", "b.png")
    (here / "t.csv").write_text("pic;label;caption\na.png;x;one two\nb.png;y;three\n")

    assert main(["info", "t.csv", "--image-column", "pic"]) == 2
    assert "has both labels" in capsys.readouterr().err
    found = about("t.csv", "--image-column", "pic", "--caption-column", "caption")

    assert found["captions"] == "2, 1 per image, 1 to 2 words (median 1.5)"
    assert found["next"] == "eyechart eval t.csv ViT-B-32:openai --image-column pic --caption-column caption"
    found = about("t.csv", "--image-column", "pic", "--task", "zeroshot_retrieval")
    assert found["kind"] == "retrieval"
    assert found["next"] == "eyechart eval t.csv ViT-B-32:openai --task zeroshot_retrieval --image-column pic"


def test_the_data_of_the_demo_are_described_too(here, about):
    found = about("demo/scenes")

    assert (found["kind"], found["languages"]) == ("retrieval", "de, en")
    assert found["next"].startswith("eyechart eval demo/scenes ")


def test_what_is_not_there(here, capsys):
    images(here / "photos", "cat/1.png")

    assert main(["info", "./photo"]) == 2

    assert "There is no such folder or file: ./photo\nDid you mean photos?" in capsys.readouterr().err


def test_names_and_models_are_described_as_before(here, about):
    images(here / "cifar10", "cat/1.png")

    assert about("cifar10")["title"] == "CIFAR-10"
    assert about(data_folder("garments").parent.parent / "model")["family"] == "onnx"


def test_the_command_that_is_given_runs(here, about, capsys):
    images(here / "my photos", *(f"{name}/{i}.png" for name in ("cat", "dog") for i in range(3)))
    words = about("my photos")["next"].replace("ViT-B-32:openai", "eyechart-tiny")

    assert main([*shlex.split(words)[1:], "--output", "r.json", "--quiet"]) == 0
