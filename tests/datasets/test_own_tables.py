"""Tables of one's own: any delimiter and encoding, columns by flag, and no guess between labels and captions."""

from __future__ import annotations

import csv
import io
import json

import pytest

from eyechart.cli import main
from eyechart.config import make_config
from eyechart.datasets.image_table import open_table
from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.manifest import iter_samples
from eyechart.plan import dataset_spec
from eyechart.types import DatasetSpec
from support.data import png

TINY = ["--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for i, name in enumerate(["a.png", "b.png", "c.png"]):
        (tmp_path / name).write_bytes(png(i))
    return tmp_path


def write(path, rows, delimiter=",", encoding="utf-8", **style):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n", **style).writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))
    return path


def read(path, **options):
    return list(iter_samples(open_table(DatasetSpec("mine", "table", str(path), options=options))))


CAPTIONS = [["image", "caption"], ["a.png", 'a cat; a, dog | "both"\there'], ["b.png", "ein Käfer"]]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_the_delimiter_is_found_out_whatever_the_suffix_is(here, suffix, delimiter, quoting):
    path = write(here / f"t{suffix}", CAPTIONS, delimiter, quoting=quoting)

    assert [sample.texts for sample in read(path)] == [(CAPTIONS[1][1],), (CAPTIONS[2][1],)]


@pytest.mark.parametrize(
    ("encoding", "option"), [("utf-8-sig", ""), ("utf-16", ""), ("cp1252", "windows-1252"), ("utf-16-le", "utf-16le")]
)
def test_other_encodings(here, encoding, option):
    path = write(here / "t.csv", CAPTIONS, ";", encoding)

    assert read(path, **({"encoding": option} if option else {}))[1].texts == ("ein Käfer",)


def test_any_character_divides_cells_if_it_is_given(here):
    path = write(here / "t.csv", CAPTIONS, "^")

    assert read(path, delimiter="^")[1].texts == ("ein Käfer",)
    with pytest.raises(DataError, match="no column with image paths; its columns are: image\\^caption"):
        read(path)
    with pytest.raises(UsageError, match="is not a valid delimiter"):
        read(path, delimiter="::")


def test_a_comma_in_a_head_does_not_mislead(here):
    path = write(here / "t.csv", [["image", "caption", "note, or remark, or none"], ["a.png", "a cat", "x"]], ";")

    assert read(path)[0].texts == ("a cat",)


def test_the_table_that_open_clip_trains_on(here):
    """Tabs in a file called .csv, with the columns filepath and title."""
    path = write(here / "train.csv", [["filepath", "title"], ["a.png", "a cat"], ["a.png", "an animal"]], "\t")

    assert [(sample.id, sample.texts) for sample in read(path)] == [("a.png", ("a cat", "an animal"))]


def test_columns_by_name(here):
    head = ["nr", "picture", "species", "says", "says_too", "part"]
    path = write(here / "t.csv", [head, ["x1", "a.png", "cat", "miau", "purr", "test"]])

    (label,) = read(path, image_column="picture", label_column="species", id_column="nr", split_column="part")
    (caption,) = read(path, image_column="picture", caption_column=["says", "says_too"], id_column="nr")

    assert (label.id, label.label, label.meta) == ("x1", 0, {"says": "miau", "says_too": "purr", "part": "test"})
    assert (caption.id, caption.texts) == ("x1", ("miau", "purr"))


def test_columns_by_name_of_json_lines(here):
    (here / "t.jsonl").write_text(json.dumps({"pic": "a.png", "what": ["one", "two"]}) + "\n")

    assert read(here / "t.jsonl", image_column="pic", caption_column="what")[0].texts == ("one", "two")


def test_a_named_column_must_be_there(here):
    path = write(here / "t.csv", CAPTIONS)

    with pytest.raises(UsageError, match=r"no column 'captoin' \(--caption-column\)") as caught:
        read(path, caption_column="captoin")
    assert "Did you mean 'caption'?" in caught.value.advice


def test_ids_must_be_there_and_tell_samples_apart(here):
    path = write(here / "t.csv", [["image", "label", "id"], ["a.png", "x", "1"], ["b.png", "y", "1"]])
    with pytest.raises(DataError, match="id '1' occurs more than once"):
        read(path, id_column="id")

    path = write(here / "t.csv", [["image", "label", "id"], ["a.png", "x", "1"], ["b.png", "y", ""]])
    with pytest.raises(DataError, match="line 3: no id"):
        read(path, id_column="id")

    path = write(here / "t.csv", [["image", "label", "id"], ["a.png", "x", " 1 "], ["b.png", "y", "  "]])
    with pytest.raises(DataError, match="line 3: no id"):
        read(path, id_column="id")


@pytest.mark.parametrize("column", ["caption", "captions", "text", "query", "title"])
def test_usual_names_of_captions_are_known(here, column):
    path = write(here / "t.csv", [["image", column], ["a.png", "a cat"]])

    assert [sample.texts for sample in read(path)] == [("a cat",)]


@pytest.mark.parametrize("suffix", [".jsonl", ".JSONL"])
def test_brackets_in_json_lines_are_a_text(here, suffix):
    (here / f"t{suffix}").write_text(json.dumps({"image": "a.png", "caption": "['a', 'b']"}) + "\n")

    assert [sample.texts for sample in read(here / f"t{suffix}")] == [("['a', 'b']",)]


def test_every_row_without_a_caption_is_reported(here):
    path = write(here / "t.csv", [["image", "caption"], ["a.png", " "], ["b.png", "a dog"], ["c.png", ""]])

    with pytest.raises(DataError) as caught:
        read(path)

    assert "line 2: no caption" in str(caught.value)
    assert "line 4: no caption" in str(caught.value)


BOTH = [["image", "label", "caption"], ["a.png", "cat", "a cat"], ["b.png", "dog", "a dog"], ["c.png", "cow", "a cow"]]


def test_a_table_with_labels_and_captions_asks_which(here):
    path = write(here / "t.csv", BOTH)

    with pytest.raises(UsageError, match=r"both labels \(label\) and captions \(caption\)") as caught:
        read(path)

    for answer in ("--label-column label", "--caption-column caption", "zeroshot_classification", "zeroshot_retrieval"):
        assert answer in caught.value.advice
    assert read(path, label_column="label")[0].label is not None
    assert read(path, caption_column="caption")[0].texts == ("a cat",)


@pytest.mark.parametrize(
    ("task", "metric"),
    [("zeroshot_classification", "acc1"), ("knn", "knn_acc1"), ("zeroshot_retrieval", "image_retrieval_recall@5")],
)
def test_the_task_is_an_answer_too(here, task, metric):
    write(here / "t.csv", BOTH)
    more = ["--folds", "3"] if task == "knn" else []

    code = main(["eval", *TINY, "--dataset", "t.csv", "--task", task, "--output", "r.json", "--quiet", *more])

    assert (code, metric in json.loads((here / "r.json").read_text())["metrics"] if code == 0 else "") == (0, True)


def test_flags_are_settings(here, capsys):
    write(here / "t.csv", [["p", "w"], ["a.png", "a cat"], ["b.png", "a dog"]], ";")

    words = ["--image-column", "p", "--caption_column", "w", "--output", "r.json", "--quiet"]
    assert main(["eval", *TINY, "--dataset", "t.csv", *words]) == 0
    assert main(["eval", *TINY, "--dataset", "demo/garments", *words]) == 2
    assert "demo/garments is not a table" in capsys.readouterr().err


def test_a_table_of_questions_is_an_ordinary_one_if_columns_are_named(here):
    head = ["index", "image", "question", "answer"]
    write(here / "q.tsv", [head, ["1", "a.png", "what?", "cat"]], "\t")

    plain = dataset_spec(make_config({"dataset": ["q.tsv"]}), "q.tsv", "en")
    named = dataset_spec(make_config({"dataset": ["q.tsv"], "label_column": "answer"}), "q.tsv", "en")

    assert (plain.reader, named.reader) == ("questions", "table")


@pytest.mark.parametrize("name", ["t.xlsx", "t.xls", "T.ODS"])
def test_a_spreadsheet_is_refused_with_the_way_to_a_table(here, name, capsys):
    (here / name).write_bytes(b"PK\x03\x04")

    assert main(["eval", *TINY, "--dataset", name]) == EyechartError.exit_code

    error = " ".join(capsys.readouterr().err.split())
    assert f"{name} is not a dataset" in error
    assert "Save the sheet as CSV and pass that file: in Excel, File > Save As > CSV UTF-8" in error


def test_spaces_around_the_names_of_columns_are_no_part_of_them(here):
    (here / "t.csv").write_text("image, caption ,id\na.png,a cat,1\nb.png,a dog,2\n")

    assert [sample.texts for sample in read(here / "t.csv")] == [("a cat",), ("a dog",)]
    assert [sample.id for sample in read(here / "t.csv", id_column="id")] == ["1", "2"]
