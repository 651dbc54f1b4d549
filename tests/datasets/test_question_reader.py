"""Benchmarks of questions as datasets: from a name to samples, prompts and a signature of the content."""

import json
import os
import sys

import pytest

from eyechart.datasets.questions.question_reader import open_class, open_questions, with_metric
from eyechart.datasets.questions.row_table import RowTable
from eyechart.datasets.questions.table_files import write_tsv
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError, UnknownNameError, UsageError
from eyechart.manifest import iter_samples, read_manifest
from eyechart.scorers.scorer import scorer_of
from eyechart.scorers.scoring import check_scoring, score_rows
from eyechart.types import Dataset, DatasetSpec
from support.vlm_data import image_bytes, image_cell, write_benchmark

ROWS = [
    {"index": 3, "question": "Which animal?", "A": "cat", "B": "dog", "answer": "A", "category": "pets"},
    {"index": 4, "image": "3", "question": "Which animal?", "A": "cow", "B": "hen", "answer": "B", "category": None},
]


def opened(name):
    return open_questions(resolve_dataset(str(name), "root"))


def test_a_row_is_a_sample(lmu_data):
    write_benchmark(lmu_data / "Pets.tsv", ROWS)

    dataset = opened("Pets")
    first, second = iter_samples(dataset)

    assert isinstance(dataset, Dataset)
    assert dataset.info.kind == "questions"
    assert (first.id, first.texts) == ("3", ("Which animal?",))
    assert first.meta == {"A": "cat", "B": "dog", "answer": "A", "category": "pets"}
    assert "category" not in second.meta
    assert first.image.read() == second.image.read() == image_bytes(color=(0, 0, 9))


def test_a_table_goes_by_its_stem_wherever_it_lies(lmu_data, tmp_path):
    inside = write_benchmark(lmu_data / "Pets.tsv", ROWS)
    beside = write_benchmark(tmp_path / "elsewhere" / "Mine.tsv", ROWS)

    by_name, by_path = resolve_dataset("Pets", "root"), resolve_dataset(str(beside), "root")
    known = resolve_dataset("MMBench_DEV_EN", "root")

    assert (by_name.name, by_name.reader, by_name.root) == ("Pets", "questions", str(inside))
    assert (by_path.name, by_path.reader, by_path.root) == ("Mine", "questions", str(beside))
    assert (known.name, known.reader, known.root) == ("MMBench_DEV_EN", "questions", "")


def test_a_table_without_questions_is_read_as_any_other(tmp_path):
    (tmp_path / "labels.tsv").write_text("image\tlabel\na.png\tcat\n")

    assert resolve_dataset(str(tmp_path / "labels.tsv"), "root").reader == "table"


def test_a_name_that_is_nearly_right_is_suggested():
    with pytest.raises(UnknownNameError) as caught:
        resolve_dataset("MMBench_DEV_ENN", "root")

    assert "MMBench_DEV_EN" in caught.value.advice


def test_nothing_is_fetched_offline(lmu_data):
    with pytest.raises(DataError, match="offline") as caught:
        open_questions(resolve_dataset("MME", "root", options={"offline": True}))

    assert "MME.tsv" in caught.value.advice


def test_the_signature_is_of_the_content(lmu_data, tmp_path):
    named = "index\timage_path\tquestion\tanswer\n0\tcat.png\tq\tyes\n"
    (tmp_path / "Named.tsv").write_text(named)
    (tmp_path / "cat.png").write_bytes(image_bytes())
    before = opened(tmp_path / "Named.tsv").signature()

    os.utime(tmp_path / "Named.tsv", (1, 1))
    touched = opened(tmp_path / "Named.tsv").signature()
    (tmp_path / "cat.png").write_bytes(image_bytes(color=(1, 2, 3)))
    repainted = opened(tmp_path / "Named.tsv").signature()
    (tmp_path / "Named.tsv").write_text(named.replace("yes", "no"))
    answered = opened(tmp_path / "Named.tsv").signature()

    assert touched == before
    assert len({before, repainted, answered}) == 3


def test_images_beside_a_table_that_is_named_by_a_relative_path_are_found(lmu_data, tmp_path, monkeypatch):
    (tmp_path / "Named.tsv").write_text("index\timage_path\tquestion\tanswer\n0\tcat.png\tq\tyes\n")
    (tmp_path / "cat.png").write_bytes(image_bytes())
    monkeypatch.chdir(tmp_path)

    dataset = opened("Named.tsv")
    [message] = dataset.prompt(dataset.table.rows[0])

    assert message.parts[0].path == tmp_path / "cat.png"
    assert message.parts[1] == "q"


def test_a_missing_image_is_the_questions_failure_and_no_reason_not_to_list_it(lmu_data):
    rows = [{"index": 0, "image": None, "image_path": "gone.png", "question": "q", "answer": "yes"}]
    write_benchmark(lmu_data / "Gone.tsv", [*rows, {"index": 1, "question": "q", "answer": "yes"}])
    table = (lmu_data / "Gone.tsv").read_text().replace("image\t", "", 1).splitlines()
    (lmu_data / "Gone.tsv").write_text("\n".join([table[0], table[1].lstrip("\t")]))

    dataset = opened("Gone")

    assert [entry.id for entry in read_manifest(dataset).entries] == ["0"]
    with pytest.raises(DataError, match=r"image 'gone\.png' not found"):
        dataset.prompt(dataset.table.rows[0])


def test_several_questions_about_an_image_are_no_duplicates(lmu_data):
    write_benchmark(lmu_data / "Pets.tsv", ROWS)

    assert read_manifest(opened("Pets")).notices == ()


OWN = """
import pandas

class Plain:
    TYPE = "VQA"
    dataset_name = "Plain"
    eyechart_identity = "1"

    def __init__(self, dataset):
        self.data = pandas.DataFrame({"index": [0, 1], "question": ["a?", "b?"], "answer": ["x", None]})

    def build_prompt(self, line):
        return [dict(type="text", value=line["question"].upper())]

    def evaluate(self, eval_file, **judge_kwargs):
        return {"Overall": 1.0}

class Half:
    def __init__(self, dataset):
        self.data = []
"""


@pytest.fixture
def own(lmu_data, tmp_path, monkeypatch):
    """Classes that extend nothing of ours."""
    pytest.importorskip("pandas")
    (tmp_path / "plain_bench.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path / "plain_bench.py"
    sys.modules.pop("plain_bench", None)


def test_a_class_is_known_by_what_it_has(own):
    dataset = opened("python:plain_bench:Plain")
    first, second = iter_samples(dataset)

    assert dataset.info.name == "Plain"
    assert (first.id, first.texts, first.image) == ("0", ("a?",), None)
    assert "answer" not in second.meta
    assert dataset.prompt(dataset.table.row("1"))[0].parts == ("B?",)
    assert dataset.info.benchmark.scorer == "evaluate"


def test_other_code_is_another_signature(own):
    before = opened("python:plain_bench:Plain").signature()
    del sys.modules["plain_bench"]
    own.write_text(OWN.replace("upper()", "casefold()"))

    assert opened("python:plain_bench:Plain").signature() != before


def test_other_code_in_what_a_class_imports_is_another_signature(own):
    helper = own.with_name("plain_helper.py")
    helper.write_text("LEVEL = 1.0\n")
    own.write_text(f"import plain_helper\n{OWN}".replace("1.0", "plain_helper.LEVEL"))
    before = opened("python:plain_bench:Plain").signature()
    same = opened("python:plain_bench:Plain").signature()
    helper.write_text("LEVEL = 0.0\n")

    assert opened("python:plain_bench:Plain").signature() != before == same


def test_code_that_cannot_be_looked_at_is_not_known_to_be_the_same(lmu_data):
    space = {"__name__": "nowhere"}
    exec(compile(OWN, "<cell>", "exec"), space)  # noqa: S102 - our own text, as a notebook runs it
    spec = DatasetSpec("Plain", "questions", "")

    assert open_class(space["Plain"], spec).signature() != open_class(space["Plain"], spec).signature()


def test_a_class_without_a_declared_identity_may_read_anything(own):
    own.write_text(OWN.replace('    eyechart_identity = "1"\n', ""))

    assert opened("python:plain_bench:Plain").signature() is None


def test_another_declared_identity_is_another_signature(own):
    before = opened("python:plain_bench:Plain").signature()
    sys.modules["plain_bench"].Plain.eyechart_identity = "2"

    assert opened("python:plain_bench:Plain").signature() not in (before, None)


def test_a_class_that_lacks_something_is_refused(own):
    with pytest.raises(UsageError, match="not a dataset class: it lacks build_prompt"):
        opened("python:plain_bench:Half")


def test_a_class_of_ours_is_scored_by_its_scorer(lmu_data, tmp_path, monkeypatch):
    (tmp_path / "our_bench.py").write_text("from eyechart.vlm import *\n\nclass Ours(ImageMCQDataset):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    write_benchmark(lmu_data / "Ours.tsv", [{**ROWS[0], "image": image_cell()}])

    dataset = opened("python:our_bench:Ours")
    sys.modules.pop("our_bench")

    assert dataset.info.benchmark.scorer == "rules.choices:letter"
    assert dataset.info.source == str(lmu_data / "Ours.tsv")
    assert "Options:\nA. cat" in dataset.prompt(dataset.table.rows[0])[0].parts[-1]


def test_a_name_that_means_two_images_is_refused(lmu_data, tmp_path):
    path = write_tsv_with_names(tmp_path)
    (lmu_data / "images" / "Pets").mkdir(parents=True)
    (lmu_data / "images" / "Pets" / "0.png").write_bytes((tmp_path / "0.png").read_bytes())
    dataset = opened(str(path))

    assert dataset.prompt(dataset.table.row("0"))
    (lmu_data / "images" / "Pets" / "0.png").write_bytes(image_bytes(9, 9))
    with pytest.raises(DataError, match="matches different images"):
        dataset.prompt(dataset.table.row("0"))


def write_tsv_with_names(folder):
    (folder / "0.png").write_bytes(image_bytes())
    path = folder / "Pets.tsv"
    write_tsv(path, RowTable([{"index": 0, "image_path": "0.png", "question": "Which?", "answer": "cat"}]))
    return path


def test_a_table_under_a_published_name_that_is_another_file_is_told(lmu_data):
    path = write_benchmark(lmu_data / "MMStar.tsv", ROWS)

    [notice] = opened("MMStar").table.notices

    assert (notice.kind, str(path) in notice.message) == ("other_file", True)


def test_rows_without_a_question_are_counted(lmu_data):
    rows = [{"index": i, "question": question, "answer": "cat"} for i, question in enumerate(["Which?", None, " "])]
    write_benchmark(lmu_data / "Blank.tsv", rows)

    assert [(notice.kind, notice.count) for notice in opened("Blank").table.notices] == [("blank_questions", 2)]


OPTION_NAMES = {
    "letters": ("a", "b", "c"), "option_A": ("option_A", "option_B", "option_C"),
    "optionA": ("optionA", "optionB", "optionC"),
    "choice_a": ("choice_a", "choice_b", "choice_c"), "Choice 1": ("Choice 1", "Choice 2", "Choice 3"),
    "opt0": ("opt0", "opt1", "opt2"), "(A)": ("(A)", "(B)", "(C)"), "options": ("options",), "choices": ("choices",),
}  # fmt: skip
KEYS = {"letter": ("B", "C"), "small letter": ("b", "c"), "text": ("dog", "cow")}


@pytest.mark.parametrize("names", OPTION_NAMES.values(), ids=OPTION_NAMES)
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_options_under_other_names_are_options(lmu_data, names, keys):
    texts = [("cat", "dog", "hen"), ("ewe", "sow", "cow")]
    cells = [dict(zip(names, row if len(names) > 1 else [repr([*row])], strict=True)) for row in texts]
    rows = [{"index": i, "question": "Which?", "answer": keys[i], **cells[i]} for i in range(2)]
    write_benchmark(lmu_data / "Pets.tsv", rows)

    dataset = opened("Pets")
    benchmark = dataset.info.benchmark
    scored = score_rows(
        [{**row, "prediction": said} for row, said in zip(dataset.table.rows, "BA", strict=True)], benchmark
    )

    assert benchmark.dataset_class == "CustomMCQDataset"
    assert "B. dog" in dataset.prompt(dataset.table.rows[0])[0].parts[1]
    assert [score.score for score in scored.scores] == [1, 0]
    assert "unused_columns" not in {notice.kind for notice in dataset.table.notices}


def test_columns_that_neither_prompts_nor_scores_use_are_named(lmu_data):
    write_benchmark(lmu_data / "Pets.tsv", [{**ROWS[0], "source": "web", "b": "1", "difficulty": 3}])

    [notice] = [notice for notice in opened("Pets").table.notices if notice.kind == "unused_columns"]

    assert notice.count == 2
    assert str(notice.message).endswith("source, difficulty.")


def test_small_letters_that_no_answer_names_are_no_options(lmu_data):
    rows = [{"index": i, "question": "How long?", "answer": f"{i} m", "a": "1.5", "b": "2.5"} for i in range(2)]
    write_benchmark(lmu_data / "Lengths.tsv", rows)

    dataset = opened("Lengths")

    assert dataset.info.benchmark.dataset_class == "CustomVQADataset"
    assert [str(n.message) for n in dataset.table.notices if n.kind == "unused_columns"] == [
        "2 columns are not used in prompts or scores: a, b."
    ]


@pytest.mark.parametrize(
    ("cells", "answers", "why"),
    [
        ({"option_a": "cat", "option_b": "dog"}, ("A", "fish"), "1 answer names none of them"),
        ({"option_a": "cat", "option_b": "dog"}, ("1", "2"), "2 answers name none of them"),
        ({"a": "cat", "b": "dog"}, ("A", "fish"), "1 answer names none of them"),
        ({"option_a": "cat", "option_b": "dog", "choice_b": "hen"}, ("A", "A"), "some hold the same option"),
    ],
)
def test_options_that_answers_do_not_fit_are_refused(lmu_data, cells, answers, why):
    rows = [{"index": i, "question": "Which?", "answer": answers[i], **cells} for i in range(2)]
    write_benchmark(lmu_data / "Pets.tsv", rows)

    with pytest.raises(DataError, match=f"look like options, but {why}"):
        opened("Pets")


def test_letters_without_options_are_refused_before_anything_is_asked_unless_a_metric_is_chosen(lmu_data):
    rows = [{"index": i, "question": "Which?", "first": "cat", "second": "dog", "answer": "ab"[i]} for i in range(2)]
    write_benchmark(lmu_data / "Pets.tsv", rows)
    benchmark = opened("Pets").info.benchmark

    with pytest.raises(UsageError, match="all answers are letters, but no columns hold the options"):
        check_scoring(scorer_of(benchmark), judged=False)
    check_scoring(scorer_of(with_metric(benchmark, "normalized_exact")), judged=False)


def test_answers_that_were_added_to_a_table_published_without_them_are_scored(lmu_data):
    row = {"index": 1, "question": "q", "A": "x", "B": "y", "split": "test", "category": "c"}
    write_benchmark(lmu_data / "MMBench_TEST_EN.tsv", [{**row, "answer": "A"}, {**row, "index": 2, "answer": "B"}])
    assert opened("MMBench_TEST_EN").info.benchmark.answers

    write_benchmark(lmu_data / "MMBench_TEST_EN.tsv", [{**row, "answer": "A"}, {**row, "index": 2}])
    assert not opened("MMBench_TEST_EN").info.benchmark.answers


def test_answers_released_after_the_table_are_read_from_their_own_file(lmu_data):
    rows = [{"index": i, "id": f"test_Art_{i}", "question": "q", "A": "x", "B": "y"} for i in (1, 2)]
    rows.append({"index": 3, "id": "test_Art_3", "question": "How many?"})
    write_benchmark(lmu_data / "MMMU_TEST.tsv", [{"split": "test", "category": "Art", **row} for row in rows])
    before = opened("MMMU_TEST")
    with pytest.raises(UsageError, match=r"released later") as refused:
        check_scoring(scorer_of(before.info.benchmark), judged=False)
    assert "answer_dict_test.json" in str(refused.value)
    assert str(lmu_data / "MMMU_TEST_answers.json") in str(refused.value)

    keys = {"test_Art_1": "B", "test_Art_2": {"ground_truth": "A"}, "test_Art_3": {"ground_truth": ["7", "seven"]}}
    (lmu_data / "MMMU_TEST_answers.json").write_text(json.dumps(keys))
    dataset = opened("MMMU_TEST")
    said = dict(zip((1, 2, 3), ("B", "B", "['7', 'seven']"), strict=True))
    scored = score_rows(
        [{**row, "prediction": said[row["index"]]} for row in dataset.table.rows], dataset.info.benchmark
    )

    assert [score.score for score in scored.scores] == [1, 0, 1]
    assert dataset.signature() != before.signature()
