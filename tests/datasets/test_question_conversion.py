"""`eyechart vlm convert`: questions of others become tables that `eyechart eval` runs."""

import json
import shutil

import pytest
from PIL import Image

import datasets
import eyechart
from eyechart import vlm
from eyechart.cli import main
from eyechart.datasets.questions.conversion import answer_letters
from eyechart.datasets.questions.table_files import open_source, read_tsv
from eyechart.errors import DataError, UsageError
from support.vlm_data import image_bytes, image_cell

ROWS = [
    {"id": "a", "image": "img/red.png", "query": "Which color?", "choices": ["blue", "red"], "answer": "red"},
    {"id": "b", "image": "img/blue.png", "query": "Which, now?", "choices": ["blue", "red"], "answer": "blue"},
]


class AlwaysA(vlm.BaseModel):
    def generate_inner(self, message, dataset=None):
        assert message[0]["type"] == "image"
        return "A"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of images, into which tests put their questions; and the model's module."""
    (tmp_path / "set" / "img").mkdir(parents=True)
    for name, color in {"red": (200, 30, 30), "blue": (30, 30, 200)}.items():
        (tmp_path / "set" / "img" / f"{name}.png").write_bytes(image_bytes(color=color))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "set"


def write_rows(folder, form):
    if form == "json":
        (folder / "q.json").write_text(json.dumps({"version": 1, "data": ROWS}))
    elif form == "jsonl":
        (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        lines = [f'{r["id"]},{r["image"]},"{r["query"]}","{r["choices"]}",{r["answer"]}\n' for r in ROWS]
        (folder / "q.csv").write_text("id,image,query,choices,answer\n" + "".join(lines))


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_a_folder_of_images_with_questions_becomes_a_benchmark_that_runs(folder, form, capsys):
    write_rows(folder, form)

    assert main(["vlm", "convert", str(folder), "--output", "Colors.tsv"]) == 0

    assert capsys.readouterr().out == (
        "2 rows of multiple choice -> Colors.tsv\nindex from id, question from query, options from choices\n"
    )
    table = read_tsv(folder.parent / "Colors.tsv")
    assert table.columns == ["index", "image", "question", "A", "B", "answer"]
    assert [(r["index"], r["A"], r["B"], r["answer"]) for r in table.rows] == [
        ("a", "blue", "red", "B"),
        ("b", "blue", "red", "A"),
    ]
    assert table.rows[0]["image"] == image_cell(color=(200, 30, 30))
    [result] = eyechart.evaluate(
        dataset=["Colors.tsv"], model=[f"python:{__name__}:AlwaysA"], output=str(folder.parent / "r.json")
    )
    assert result.metrics["accuracy"] == 0.5


def test_images_may_stay_files_beside_the_table(folder):
    write_rows(folder, "json")

    assert main(["vlm", "convert", str(folder), "-o", str(folder / "Colors.tsv"), "--keep_images", "paths"]) == 0

    assert read_tsv(folder / "Colors.tsv")["image_path"] == ["img/red.png", "img/blue.png"]
    assert vlm.build_dataset(str(folder / "Colors.tsv")).build_prompt(0)[0]["value"] == str(folder / "img" / "red.png")


FEATURES = datasets.Features(
    image=datasets.Image(), question=datasets.Value("string"), answer=datasets.ClassLabel(names=["no", "yes"])
)


def saved(folder, form):
    images = [Image.new("RGB", (8, 8), color) for color in ((200, 30, 30), (30, 30, 200))]
    data = {"image": images, "question": ["Is it red?", "Is it red, now?"], "answer": [1, 0]}
    made = datasets.Dataset.from_dict(data, features=FEATURES)
    target = folder / form
    if form == "parquet":
        (target / "data").mkdir(parents=True)
        made.to_parquet(target / "data" / "test-00000-of-00001.parquet")
    elif form == "splits":
        datasets.DatasetDict(train=made.select([0]), test=made).save_to_disk(target)
    else:
        made.save_to_disk(target)
    return target


@pytest.mark.parametrize(("form", "words"), [("disk", []), ("parquet", []), ("splits", ["--split", "test"])])
@pytest.mark.parametrize("keep", ["base64", "paths"])
def test_a_dataset_of_hugging_face_on_disk(folder, form, words, keep):
    source = saved(folder, form)

    assert main(["vlm", "convert", str(source), "-o", "Red.tsv", "--keep_images", keep, *words]) == 0

    dataset = vlm.build_dataset("Red.tsv")
    assert dataset.benchmark.scorer == "rules.yes_no:yes_no"
    assert list(dataset.data["answer"]) == ["yes", "no"]
    for i, color in enumerate([(200, 30, 30), (30, 30, 200)]):
        with Image.open(dataset.build_prompt(i)[0]["value"]) as shown:
            assert shown.convert("RGB").getpixel((0, 0)) == color


def refused(capsys, *words):
    assert main(["vlm", "convert", *map(str, words)]) != 0
    return capsys.readouterr().err


def test_a_split_must_be_chosen(folder, capsys):
    assert "--split" in refused(capsys, saved(folder, "splits"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"image": "img/none.png", "question": "q", "answer": "x"}], "line 1: no image img/none.png"),
        ([{"image": "../../x.png", "question": "q", "answer": "x"}], "is outside the folder"),
        ([{"id": 1, "question": "q"}, {"id": 1, "question": "q"}], "line 2: the id '1' occurs twice"),
        ([{"id": 1, "question": ""}], "line 1: no question"),
        ([{"id": 1, "words": "q"}], "--column question=NAME"),
        ([{"question": "q", "choices": ["x", "y"], "answer": "z"}], "the answer 'z' matches none of the options"),
        ([{"question": {"a": 1}, "answer": "z"}], "line 1: a dict is not text"),
        ([], "not a list of objects"),
    ],
)
def test_what_cannot_be_converted_is_named(folder, capsys, rows, said):
    (folder / "q.json").write_text(json.dumps(rows))

    assert said in refused(capsys, folder / "q.json", "-o", "x.tsv")
    assert not (folder.parent / "x.tsv").exists()


def test_a_broken_image_leaves_no_table(folder, capsys):
    (folder / "img" / "red.png").write_bytes(b"no image")
    write_rows(folder, "json")

    assert "row 1" in refused(capsys, folder, "-o", "x.tsv")
    assert not (folder.parent / "x.tsv").exists()


def test_an_omitted_column_is_left_out_even_under_our_name(folder):
    (folder / "q.json").write_text(json.dumps([{"index": 5, "question": q, "answer": q, "hint": "h"} for q in "xy"]))

    assert main(["vlm", "convert", str(folder / "q.json"), "--column", "index=", "--column", "hint="]) == 0

    table = read_tsv(folder.parent / "q.tsv")
    assert table.columns == ["index", "question", "answer"]
    assert table["index"] == ["0", "1"]


def test_columns_are_chosen_and_left_out(folder):
    rows = [{"id": 7, "q": "x?", "text": "y", "option_a": "1", "option_b": "2", "answer": "b", "note": 3}] * 2
    (folder / "q.json").write_text(json.dumps(rows))

    assert main(["vlm", "convert", str(folder / "q.json"), "--column", "question=q", "--column", "index="]) == 0

    table = read_tsv(folder.parent / "q.tsv")
    assert [row.to_dict() for row in table.rows][1] == {
        "index": "1", "question": "x?", "A": "1", "B": "2", "answer": "B", "text": "y", "id": "7", "note": "3",
    }  # fmt: skip


AB, DIGITS = {"A": "cat", "B": "dog"}, {"A": "1", "B": "0"}


@pytest.mark.parametrize(
    ("rows", "letters"),
    [
        ([("a", AB), ("(B)", AB)], ["A", "B"]),
        ([("dog", AB), ("cat", AB)], ["B", "A"]),
        ([("0", AB), ("1", AB)], ["A", "B"]),
        ([("1", AB), ("2", AB)], ["A", "B"]),
    ],
)
def test_answers_are_read_in_the_one_way_that_fits_all_rows(rows, letters):
    assert answer_letters([(i, *row) for i, row in enumerate(rows)]) == letters


def test_answers_with_two_meanings_are_asked_about():
    with pytest.raises(UsageError, match="read as 0 or as 1"):
        answer_letters([(1, "1", AB)])
    with pytest.raises(UsageError, match="read as text or as 0"):
        answer_letters([(1, "0", DIGITS), (2, "1", DIGITS)])
    with pytest.raises(DataError):
        answer_letters([(1, "dog", AB)], "letter")

    assert answer_letters([(1, "1", AB)], "0") == ["B"]
    assert answer_letters([(1, "0", DIGITS)], "text") == ["B"]


def test_parquet_files_deeper_in_a_folder_are_other_data(folder):
    """Such as metadata next to the images; the list of questions in the folder itself is meant."""
    rows = saved(folder, "parquet") / "data" / "test-00000-of-00001.parquet"
    own = folder / "own"
    for place in ("one", "two"):
        (own / "img" / place).mkdir(parents=True)
        shutil.copy(rows, own / "img" / place / "meta.parquet")
    (own / "questions.csv").write_text("question,answer\nWhich colour?,red\n")

    assert open_source(own).rows[0]["question"] == "Which colour?"
