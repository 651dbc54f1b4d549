"""Text retrieval folders, as written by us and as written by hand."""

import json

import pytest

from eyechart.datasets.text_collection import open_collection, open_text_collection, read_collection, write_collection
from eyechart.errors import DataError
from eyechart.types import DatasetSpec, Document, TextCollection
from support.data import png

COLLECTION = TextCollection(
    documents=(Document("0", "a cat\nasleep", {"image_id": "s0"}), Document("d1", "狗")),
    queries=(Document("0", "cat"), Document("1", "dog")),
    relevance={"0": {"0": 1.0}, "1": {"d1": 2.0, "0": 0.5}},
)


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(lines({"_id": 0, "text": "a cat"}, {"_id": "1", "text": "a dog"}))
    (tmp_path / "queries.jsonl").write_text(lines({"_id": 0, "text": "cat"}, {"_id": 1, "text": "dog"}))
    (tmp_path / "qrels.jsonl").write_text(lines({"query-id": 0, "corpus-id": 0, "score": 1}))
    return tmp_path


def test_what_is_written_is_read_back(tmp_path):
    write_collection(COLLECTION, tmp_path)

    assert read_collection(tmp_path) == COLLECTION


def test_both_forms_of_relevance_are_written_and_either_is_enough(tmp_path):
    write_collection(COLLECTION, tmp_path)
    (tmp_path / "qrels.jsonl").rename(tmp_path / "away")
    assert read_collection(tmp_path) == COLLECTION

    (tmp_path / "away").rename(tmp_path / "qrels.jsonl")
    (tmp_path / "qrels" / "test.tsv").unlink()
    assert read_collection(tmp_path) == COLLECTION


def test_a_title_stands_before_the_text_and_numbers_are_ids(folder):
    (folder / "corpus.jsonl").write_text(lines({"_id": 0, "text": "a cat", "title": "Pets"}, {"_id": 1, "text": "x"}))

    collection = read_collection(folder)

    assert [(document.id, document.text) for document in collection.documents] == [("0", "Pets a cat"), ("1", "x")]


def test_another_split_has_its_own_relevance(folder):
    (folder / "qrels").mkdir()
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\n1\t1\t3\n")

    assert read_collection(folder, "dev").relevance == {"1": {"1": 3.0}}
    assert read_collection(folder, "test").relevance == {"0": {"0": 1.0}}


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("corpus.jsonl", None, "There is no"),
        ("corpus.jsonl", "", "has no lines"),
        ("corpus.jsonl", "{\n", "line 1: not valid JSON"),
        ("corpus.jsonl", lines({"_id": 1, "text": "a"}, {"_id": "1", "text": "b"}), "line 2: the _id '1' occurs twice"),
        ("corpus.jsonl", lines({"_id": 1, "text": " "}), "line 1: the text is empty"),
        ("queries.jsonl", lines({"_id": 0, "text": "a"}, {"text": "b"}), "line 2: _id"),
        ("qrels.jsonl", None, "contains no relevance file"),
        ("qrels.jsonl", lines({"query-id": 7, "corpus-id": 0, "score": 1}), "line 1: there is no query 7"),
        ("qrels.jsonl", lines({"query-id": 0, "corpus-id": 0, "score": "x"}), "line 1: the score 'x' is not a number"),
        ("qrels.jsonl", lines({"query-id": 0, "score": 1}), "line 1: needs query-id, corpus-id, score"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(folder, file, content, said):
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)

    with pytest.raises(DataError) as refusal:
        read_collection(folder)

    assert said in str(refusal.value)


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(DataError, match="There is no folder"):
        read_collection(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("0\t0\t1\t1\n", "line 1: needs query-id, corpus-id, score"),  # TREC's four columns
        ("query-id\tscore\tcorpus-id\n0\t1\t1\n", ": query-id, score, corpus-id"),
        ("0\t1\t1\n0\t1\t0\n", "line 2: the document '1' has a different score for the query '0' above"),
    ],
)
def test_relevance_in_another_form_is_not_taken_for_ours(folder, table, said):
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text(table)

    with pytest.raises(DataError) as refusal:
        read_collection(folder)

    assert said in str(refusal.value)


def test_titles_count_beside_images_too(folder):
    (folder / "a.png").write_bytes(png())
    rows = {"_id": 0, "text": "a cat", "title": "Pets"}, {"_id": 1, "image": "a.png"}
    (folder / "corpus.jsonl").write_text(lines(*rows))

    collection = open_collection(DatasetSpec("mine", "collection", str(folder))).info.collection

    assert [(item.text, item.image) for item in collection.documents] == [("Pets a cat", None), ("", "a.png")]


def test_two_files_of_relevance_must_agree(folder):
    (folder / "qrels").mkdir()
    table = folder / "qrels" / "test.tsv"
    table.write_text("query-id\tcorpus-id\tscore\n0\t0\t1\n")
    assert read_collection(folder).relevance == {"0": {"0": 1.0}}

    table.write_text("query-id\tcorpus-id\tscore\n0\t1\t1\n")
    with pytest.raises(DataError, match="disagree"):
        read_collection(folder)


def test_a_title_that_is_no_text_is_refused(folder):
    (folder / "corpus.jsonl").write_text(lines({"_id": 0, "text": "a cat", "title": 1984}))

    with pytest.raises(DataError, match="the title must be a text"):
        read_collection(folder)


def test_candidates_are_read_by_the_ids_of_queries(folder):
    (folder / "top_ranked.jsonl").write_text(lines({"query-id": 0, "corpus-ids": [1, "0"]}))

    assert read_collection(folder).candidates == {"0": ("1", "0")}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"query-id": 7, "corpus-ids": [0]}], "there is no query '7'"),
        ([{"query-id": 0, "corpus-ids": [9]}], "there is no document '9'"),
        ([{"query-id": 0, "corpus-ids": [0, "0"]}], "each once"),
        ([{"query-id": 0, "corpus-ids": []}], "must be a list of documents"),
        ([{"query-id": 0, "corpus-ids": "0"}], "must be a list of documents"),
        ([{"query-id": 0, "corpus-ids": [0]}, {"query-id": "0", "corpus-ids": [1]}], "this query is a duplicate"),
        ([{"query-id": 1, "corpus-ids": [0]}], "no candidates for the query '0'"),
    ],
)
def test_wrong_candidates_are_refused(folder, rows, said):
    (folder / "top_ranked.jsonl").write_text(lines(*rows))

    with pytest.raises(DataError, match=said):
        read_collection(folder)


def test_other_candidates_are_other_data(folder):
    spec = DatasetSpec("mine", "text_collection", str(folder))
    signatures = {open_text_collection(spec).signature()}
    for names in ([0], [1], [0, 1]):
        (folder / "top_ranked.jsonl").write_text(lines({"query-id": 0, "corpus-ids": names}))
        signatures.add(open_text_collection(spec).signature())

    assert len(signatures) == 4


@pytest.mark.parametrize("score", ["nan", "inf", "-Infinity", "1e999"])
@pytest.mark.parametrize("form", ["jsonl", "tsv"])
def test_a_relevance_that_is_not_finite_is_refused_with_its_line(folder, score, form):
    (folder / "qrels.jsonl").write_text(lines({"query-id": 0, "corpus-id": 0, "score": score}))
    if form == "tsv":
        (folder / "qrels.jsonl").unlink()
        (folder / "qrels").mkdir()
        (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n0\t0\t{score}\n")

    with pytest.raises(DataError, match=f"line {1 if form == 'jsonl' else 2}"):
        read_collection(folder)
