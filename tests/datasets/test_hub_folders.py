"""Folders as other tools leave them: Parquet, save_to_disk, ImageFolder metadata, and tar files without a count."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from eyechart import evaluate
from eyechart.cli import main
from eyechart.config import make_config
from eyechart.datasets.locations import files_by_split
from eyechart.datasets.registry import open_dataset
from eyechart.errors import EyechartError
from eyechart.manifest import iter_samples
from eyechart.plan import dataset_spec
from support.data import png, write_classification, write_tar

NAMES = ("cat", "dog", "bird")
COUNT = 12
TINY = ["--model_type", "onnx", "--model", "eyechart-tiny", "--quiet"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def labelled(count=COUNT, first=0):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list(NAMES))})
    rows = [{"image": {"bytes": png(first + i), "path": None}, "label": i % 3} for i in range(count)]
    return datasets.Dataset.from_list(rows, features=features)


def parquet(rows, path):
    """Write rows as pandas would: without features."""
    arrow, table = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    table.write_table(arrow.Table.from_pylist(rows), path)


def repository(folder, splits=("train", "test"), parts=2):
    (folder / "data").mkdir(parents=True)
    (folder / ".cache" / "huggingface").mkdir(parents=True)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    for split in splits:
        data = labelled(first=0 if split == "test" else 100)
        for part in range(parts):
            data.shard(parts, part, contiguous=True).to_parquet(
                folder / "data" / f"{split}-{part:05d}-of-{parts:05d}.parquet"
            )
    return folder


def saved(folder):
    from datasets import DatasetDict

    DatasetDict({"test": labelled(), "train": labelled(first=100)}).save_to_disk(folder)
    (folder / "test" / "cache-0123.arrow").write_bytes(b"what datasets.map leaves")
    return folder


def one_saved(folder):
    labelled().save_to_disk(folder)
    return folder


def one_file(folder):
    labelled().to_parquet(folder.with_suffix(".parquet"))
    return folder.with_suffix(".parquet")


def converted(folder):
    """The layout of a hub's own conversion to Parquet."""
    for split, first in (("test", 0), ("train", 100)):
        (folder / "default" / split).mkdir(parents=True)
        labelled(first=first).to_parquet(folder / "default" / split / "0000.parquet")
    return folder


def plain_parquet(folder):
    rows = [{"image": {"bytes": png(i), "path": f"{i}.png"}, "label": NAMES[i % 3]} for i in range(COUNT)]
    parquet(rows, folder / "test.parquet")
    return folder


def metadata(folder, suffix):
    for split, first in (("test", 0), ("train", 100)):
        place = folder / split
        place.mkdir(parents=True)
        rows = [{"file_name": f"{i}.png", "label": NAMES[i % 3]} for i in range(COUNT)]
        for i in range(COUNT):
            (place / f"{i}.png").write_bytes(png(first + i))
        if suffix == "csv":
            with (place / "metadata.csv").open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        elif suffix == "jsonl":
            (place / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            parquet(rows, place / "metadata.parquet")
    return folder


def tars(folder):
    """A webdataset of Hugging Face: the split is in the names of files."""
    for split, first in (("test", 0), ("train", 100)):
        for part in range(2):
            members = []
            for i in range(6 * part, 6 * part + 6):
                members += [
                    (f"{i:04d}.png", png(first + i)),
                    (f"{i:04d}.cls", b"%d" % (i % 3)),
                    (f"{i:04d}.json", b"{}"),
                ]
            write_tar(folder / "data" / f"{split}-{part:03d}.tar", members)
    (folder / "classnames.txt").write_text("\n".join(NAMES) + "\n")
    return folder


FORMS = {
    "repository": repository,
    "converted": converted,
    "saved": saved,
    "one_saved": one_saved,
    "one_file": one_file,
    "plain_parquet": plain_parquet,
    "csv": lambda folder: metadata(folder, "csv"),
    "jsonl": lambda folder: metadata(folder, "jsonl"),
    "parquet": lambda folder: metadata(folder, "parquet"),
    "tars": tars,
}


def read(name, **settings):
    """Return the class names, and the label and the digest of each image."""
    config = make_config({"dataset": [str(name)], **settings})
    dataset = open_dataset(dataset_spec(config, str(name), "en", task=config.task[0]))
    return dataset, list(iter_samples(dataset))


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_read_with_the_bytes_and_labels_that_were_written(here, form):
    dataset, samples = read(FORMS[form](here / "mine"))

    names = dataset.info.classnames
    assert dataset.info.kind == "classification"
    assert [names[sample.label] for sample in samples] == [NAMES[i % 3] for i in range(COUNT)]
    assert [sample.image.read() for sample in samples] == [png(i) for i in range(COUNT)]


@pytest.mark.parametrize("form", ["repository", "converted", "saved", "csv", "tars"])
def test_the_other_split_is_other_images_with_the_same_classes(here, form):
    folder = FORMS[form](here / "mine")

    train, samples = read(folder, split="train")

    assert [sample.image.read() for sample in samples] == [png(100 + i) for i in range(COUNT)]
    assert train.info.classnames == read(folder)[0].info.classnames
    with pytest.raises(EyechartError, match=r"no split 'dev'.*[\s\S]*test.*train"):
        read(folder, split="dev")


@pytest.mark.parametrize("form", FORMS)
def test_info_recognises_each_form(here, capsys, form):
    assert main(["info", str(FORMS[form](here / "mine")), "--json"]) == 0

    facts = json.loads(capsys.readouterr().out)
    assert (facts["samples"], facts["classes"], facts["kind"]) == (COUNT, 3, "classification")
    assert facts["form"] in {
        "Hugging Face dataset: Parquet or Arrow files with images",
        "folder of images with metadata.csv, .jsonl or .parquet",
        "webdataset",
    }


def test_a_file_gives_the_numbers_of_the_object_and_shares_its_vectors(here, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(here / "cache"))
    folder = repository(here / "mine")
    [expected] = evaluate("eyechart-tiny", labelled(), output="object.json")

    assert main(["eval", *TINY, "--dataset", str(folder), "-o", "file.json"]) == 0

    found = json.loads(Path("file.json").read_text())
    assert {name: value for name, value in found["metrics"].items() if value is not None} == expected.metrics
    assert len(list((here / "cache" / "embeddings").rglob("image/*.safetensors"))) == 1
    before = Path("file.json").stat().st_mtime_ns
    assert main(["eval", *TINY, "--dataset", str(folder), "-o", "file.json", "--skip-existing"]) == 0
    assert Path("file.json").stat().st_mtime_ns == before


def test_changed_rows_are_another_dataset(here):
    folder = repository(here / "mine")
    before = read(folder)[0].signature()
    assert read(folder)[0].signature() == before

    labelled(first=1).to_parquet(folder / "data" / "test-00001-of-00002.parquet")

    assert read(folder)[0].signature() != before


@pytest.mark.parametrize(
    ("form", "file"), [(repository, "data/test-00000-of-00002.parquet"), (saved, "test/data-00000-of-00001.arrow")]
)
def test_a_missing_file_is_refused(here, form, file):
    folder = form(here / "mine")
    (folder / file).unlink()

    with pytest.raises(EyechartError, match=r"missing|no split"):
        read(folder)


def test_configurations_are_not_mixed(here):
    for language in ("de", "en"):
        (here / "mine" / language).mkdir(parents=True)
        labelled().to_parquet(here / "mine" / language / "test-00000-of-00001.parquet")

    with pytest.raises(EyechartError, match=r"several datasets with the split 'test'.*de/test.*en/test"):
        read(here / "mine")
    assert len(read(here / "mine" / "de")[1]) == COUNT


def test_splits_without_a_common_name_are_not_mixed(here):
    for name in ("first", "second"):
        plain = [{"image": png(1), "label": "cat"}, {"image": png(2), "label": "dog"}]
        parquet(plain, here / "mine" / f"{name}.parquet")

    with pytest.raises(EyechartError, match=r"several datasets.*first\.parquet.*second\.parquet"):
        read(here / "mine")


def test_a_damaged_file_is_an_error_with_its_name(here):
    path = one_file(here / "mine")
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(EyechartError, match=r"Cannot read .*mine\.parquet"):
        read(path)


def test_captions_and_columns_by_flag(here):
    rows = [
        {"picture": png(i), "image": {"bytes": png(i), "path": None}, "caption": f"number {i}", "alt": f"alt {i}"}
        for i in range(4)
    ]
    parquet(rows, here / "mine.parquet")

    assert [sample.texts for sample in read(here / "mine.parquet")[1]] == [(f"number {i}",) for i in range(4)]
    other = read(here / "mine.parquet", caption_column=["alt"])[1]
    assert [sample.texts for sample in other] == [(f"alt {i}",) for i in range(4)]


def test_a_table_of_paths_may_be_parquet(here):
    for i in range(3):
        (here / f"{i}.png").write_bytes(png(i))
    parquet([{"image": f"{i}.png", "captions": [f"a {i}", f"b {i}"]} for i in range(3)], here / "mine.parquet")

    assert [sample.texts for sample in read(here / "mine.parquet")[1]] == [(f"a {i}", f"b {i}") for i in range(3)]


def test_questions_in_parquet_are_refused_with_the_command_that_converts_them(here):
    parquet([{"image": png(1), "question": "What?", "answer": "A cat"}], here / "mine.parquet")

    with pytest.raises(EyechartError, match="eyechart vlm convert"):
        read(here / "mine.parquet")


def test_numeric_labels_need_class_names_and_a_list_beside_the_data_is_used(here):
    parquet([{"image": png(i), "label": i % 2} for i in range(4)], here / "mine" / "test.parquet")
    with pytest.raises(EyechartError, match="no class names"):
        read(here / "mine")

    (here / "mine" / "classnames.txt").write_text("even\nodd\n")

    dataset, samples = read(here / "mine")
    assert dataset.info.classnames == ("even", "odd")
    assert [sample.label for sample in samples] == [0, 1, 0, 1]


def test_class_names_in_another_order_than_that_of_the_labels_keep_their_images(here):
    parquet([{"image": png(i), "label": NAMES[i % 3]} for i in range(6)], here / "mine" / "test.parquet")
    (here / "mine" / "classnames.txt").write_text("dog\ncat\nbird\nfish\n")

    dataset, samples = read(here / "mine")

    assert [dataset.info.classnames[sample.label] for sample in samples] == [NAMES[i % 3] for i in range(6)]


def test_the_tars_of_img2dataset_have_one_caption_each_and_the_tables_beside_them_are_not_read(here):
    for part in range(2):
        members = []
        for i in range(3):
            name = f"{part:05d}{i:04d}"
            members += [(f"{name}.jpg", png(3 * part + i)), (f"{name}.json", b"{}")]
            members += [(f"{name}.txt", b"two\nlines %d %d" % (part, i))]
        write_tar(here / "mine" / f"{part:05d}.tar", members)
        parquet([{"key": "x", "caption": "y"}], here / "mine" / f"{part:05d}.parquet")

    dataset, samples = read(here / "mine")

    assert dataset.info.kind == "retrieval"
    assert [sample.texts for sample in samples] == [(f"two\nlines {part} {i}",) for part in range(2) for i in range(3)]
    assert dataset.info.notes == ()


def test_metadata_in_the_root_names_the_folders_of_splits(here):
    for split in ("test", "train"):
        (here / "mine" / split).mkdir(parents=True)
        (here / "mine" / split / "0.png").write_bytes(png(len(split)))
    rows = [{"file_name": f"{split}/0.png", "text": split} for split in ("test", "train")]
    (here / "mine" / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert [sample.texts for sample in read(here / "mine")[1]] == [("test",)]
    assert [sample.texts for sample in read(here / "mine", split="train")[1]] == [("train",)]


def test_the_parent_of_one_webdataset_is_that_dataset_and_of_two_a_choice(here):
    write_classification(here / "mine" / "pets", n=6)
    assert len(read(here / "mine")[1]) == 6

    shutil.copytree(here / "mine" / "pets", here / "mine" / "others")

    with pytest.raises(EyechartError, match="several datasets: others, pets"):
        read(here / "mine")


def test_class_folders_stay_class_folders_whatever_lies_beside_them(here):
    for name in NAMES:
        (here / "mine" / name).mkdir(parents=True)
        (here / "mine" / name / "0.png").write_bytes(png(1))
    (here / "mine" / "metadata.csv").write_text("name,size\nx,1\n")
    parquet([{"image": png(1), "label": 1}], here / "mine" / "extra.parquet")

    assert sorted(read(here / "mine")[0].info.classnames) == sorted(NAMES)


@pytest.mark.parametrize("place", ["data/data-00000-of-00001.parquet", "birds/data-00000-of-00001.arrow"])
def test_a_folder_that_names_no_split_holds_the_split_test(tmp_path, place):
    """Only `DatasetDict.save_to_disk` names folders after splits; it writes dataset_dict.json next to them."""
    path = tmp_path / place
    path.parent.mkdir()
    path.touch()
    assert list(files_by_split(tmp_path, path.suffix)) == ["test"]

    (tmp_path / "dataset_dict.json").touch()
    assert list(files_by_split(tmp_path, path.suffix)) == [path.parent.name]


def test_splits_of_a_saved_dataset_dict_have_their_own_names(tmp_path):
    from datasets import DatasetDict

    DatasetDict({"val_easy": labelled(), "val_hard": labelled(first=100)}).save_to_disk(tmp_path / "saved")

    assert list(files_by_split(tmp_path / "saved", ".arrow")) == ["val_easy", "val_hard"]
