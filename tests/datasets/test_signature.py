"""A dataset's signature is its content: whatever is replaced, in the same place and of the same size, is noticed."""

import json
import os

import pytest

from eyechart import evaluate
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.resolve import resolve_dataset
from eyechart.datasets.webdataset import open_webdataset
from eyechart.types import DatasetSpec
from support.data import png, write_classification, write_multilabel, write_retrieval


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def images(root):
    for i in range(2):
        put(root / f"images/{i}.png", png(i))


def folder(root):
    put(root / "cat/1.png", png(1))
    put(root / "dog/1.png", png(2))


def table(root):
    images(root)
    put(root / "t.csv", "image,label,site\nimages/0.png,cat,A\nimages/1.png,dog,B\n")


def queries(root):
    images(root)
    put(root / "image_queries.jsonl", lines({"image_path": "images/0.png", "query": ["a cat"]}))


def pairs(root):
    images(root)
    put(root / "pairs.jsonl", lines({"image_1": "0.png", "image_2": "1.png", "score": 3}))


def questions(root):
    images(root)
    put(root / "questions.jsonl", lines({"images": ["0.png", "1.png"], "texts": ["a", "b"]}))


def parts(root):
    images(root)
    box = {f"bbox_{side}": 9 for side in "xywh"}
    put(root / "aro.json", json.dumps([{"image": "0.png", "true_caption": "a", "false_caption": "b", **box}]))


def collection(root):
    images(root)
    put(root / "corpus.jsonl", lines({"_id": "d", "image": "0.png"}, {"_id": "e", "text": "a dog"}))
    put(root / "queries.jsonl", lines({"_id": "q", "text": "a cat"}))
    put(root / "qrels.jsonl", lines({"query-id": "q", "corpus-id": "d", "score": 1}))


def spec(reader, root, **options):
    return DatasetSpec("mine", reader, str(root), options=options)


FORMS = {
    "a folder of classes": (folder, lambda root: spec("folder", root), ["cat/1.png", "dog/1.png"]),
    "a table": (table, lambda root: spec("table", root / "t.csv"), ["images/1.png", "t.csv: A>C"]),
    "image queries": (queries, lambda root: spec("jsonl", root), ["images/0.png", "image_queries.jsonl: cat>cow"]),
    "pairs": (pairs, lambda root: spec("pairs", root), ["images/1.png", "pairs.jsonl: 3>4"]),
    "questions": (questions, lambda root: spec("selection", root), ["images/0.png", 'questions.jsonl: "b">"c"']),
    "parts of images": (parts, lambda root: spec("aro", root / "aro.json"), ["images/0.png", "aro.json: 9>8"]),
    "a collection": (
        collection,
        lambda root: spec("collection", root),
        ["images/0.png", "corpus.jsonl: dog>cow", "queries.jsonl: cat>cow", "qrels.jsonl: 1>2"],
    ),
    "a webdataset": (
        write_classification,
        lambda root: spec("wds", root),
        ["test/0.tar", "test/1.tar", "classnames.txt: cat>cow", "zeroshot_classification_templates.txt: a {c}>A {c}"],
    ),
    "captions, cleaned": (
        lambda root: write_retrieval(root, captions=[["a cat"], ["a dog"]]),
        lambda root: spec("wds", root, caption_cleaning="internvl"),
        ["test/0.tar", "test/1.tar"],
    ),
    "several labels": (
        lambda root: write_multilabel(root, labels=[[1, 0], [0, 1]], classes=("cat", "dog")),
        lambda root: spec("wds", root),
        ["test/0.tar", "classnames.txt: dog>cow"],
    ),
    "custom lists": (
        lambda root: (folder(root), put(root / "names.txt", "a\nb\n"), put(root / "prompts.txt", "a {c}\n")),
        lambda root: spec(
            "folder", root, classname_file=str(root / "names.txt"), template_file=str(root / "prompts.txt")
        ),
        ["names.txt: b>c", "prompts.txt: a >A "],
    ),
}


def change(path, words=""):
    """Replace content by content of the same size, and set the time of change back."""
    before, data = path.stat(), path.read_bytes()
    old, _, new = words.encode().partition(b">")
    changed = data.replace(old, new) if old else data[::-1] if data != data[::-1] else b""
    assert changed != data
    assert len(changed) == len(data)
    path.write_bytes(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("form", FORMS)
def test_the_signature_stays_while_the_content_does(form, tmp_path):
    make, describe, _ = FORMS[form]
    make(tmp_path)
    before = open_dataset(describe(tmp_path)).signature()
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))

    assert open_dataset(describe(tmp_path)).signature() == before


@pytest.mark.parametrize(
    ("form", "what"), [(form, what) for form, (_, _, changes) in FORMS.items() for what in changes]
)
def test_the_signature_changes_with_every_file_that_is_read(form, what, tmp_path):
    make, describe, _ = FORMS[form]
    make(tmp_path)
    before = open_dataset(describe(tmp_path)).signature()
    file, _, words = what.partition(": ")

    change(tmp_path / file, words)

    assert open_dataset(describe(tmp_path)).signature() != before


def test_an_image_that_cannot_be_read_does_not_end_the_planning(tmp_path):
    """Whether it ends the run or is counted is for --on-error to say."""
    folder(tmp_path)
    dataset = open_dataset(spec("folder", tmp_path))
    whole = dataset.signature()
    (tmp_path / "cat" / "1.png").unlink()

    assert dataset.signature() != whole


def test_a_folder_may_move(tmp_path):
    for name in ("here", "there"):
        folder(tmp_path / name)

    here, there = (open_dataset(spec("folder", tmp_path / name)).signature() for name in ("here", "there"))

    assert here == there


def test_skip_existing_sees_that_images_were_replaced(tmp_path):
    write_classification(tmp_path / "data")
    settings = {"model_type": "onnx", "model": ["eyechart-tiny"], "dataset": ["wds/x"], "language": ["en"]}
    settings |= {"dataset_root": str(tmp_path / "data"), "output": str(tmp_path / "r.json"), "skip_existing": True}
    (first,) = evaluate(**settings)
    (same,) = evaluate(**settings)
    assert same.provenance == first.provenance

    write_classification(tmp_path / "data", first=100)
    (other,) = evaluate(**settings)

    assert other.data["fingerprint"] != first.data["fingerprint"]


def test_names_of_another_language_count_only_in_that_language(tmp_path):
    write_classification(tmp_path)
    (tmp_path / "classnames.de.txt").write_text("Katze\nHund\nVogel\n")
    (tmp_path / "zeroshot_classification_templates.de.txt").write_text("{c}\n")

    def signature(language):
        return open_webdataset(DatasetSpec("wds/x", "wds", str(tmp_path), language=language)).signature()

    before = {language: signature(language) for language in ("en", "de")}
    change(tmp_path / "classnames.de.txt", "Hund>Hand")

    assert signature("en") == before["en"]
    assert signature("de") != before["de"]


def test_the_demo_data_have_a_signature():
    assert len(open_dataset(resolve_dataset("demo/garments", "")).signature()) == 32
