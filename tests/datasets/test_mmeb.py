"""MMEB's published layout: names, texts as VLM2Vec assembles them, and what is missing or damaged."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eyechart.datasets.catalogue import load_catalogue
from eyechart.datasets.mmeb import INSTRUCTED, INSTRUCTION
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError
from support.mmeb_data import image_rows, write_documents, write_image_task


def opened(name, root):
    return open_dataset(resolve_dataset(f"mmeb/{name}", str(root)))


def texts(items):
    return [(item.id, item.text, item.meta.get(INSTRUCTED), item.image) for item in items]


def test_the_collections_are_those_of_the_leaderboard():
    catalogue = load_catalogue()
    assert {name: len(catalogue.collections[name]) for name in ("mmeb-v2", "mmeb-image", "mmeb-visdoc")} == {
        "mmeb-v2": 60,
        "mmeb-image": 36,
        "mmeb-visdoc": 24,
    }
    assert [catalogue.entries[name].metric for name in ("mmeb/MSCOCO", "mmeb/ViDoSeek-doc")] == [
        "hit@1",
        "ndcg_linear@5",
    ]
    domains = {catalogue.entries[name].domain for name in catalogue.collections["mmeb-image"]}
    assert domains == {"image CLS", "image QA", "image RET", "image GD"}


@pytest.mark.parametrize(
    ("task", "query", "candidate"),
    [
        (
            "ImageNet-1K",
            ("0", "", " Represent the image\n\n", "ImageNet-1K/query0.png"),
            ("class 0", "class 0", None, None),
        ),
        (
            "GQA",
            ("0", "what is 0?", "\nAnswer: what is 0?\n", "GQA/query0.png"),
            ("answer 0", "answer 0", None, None),
        ),
        (
            "MSCOCO_t2i",
            ("0", "caption 0", "Find an image: caption 0\n", None),
            ("MSCOCO_t2i/0.png", "", " Represent.\n\n", "MSCOCO_t2i/0.png"),
        ),
        (
            "WebQA",
            ("0", "question 0", "Find a page: question 0\n", None),
            ("WebQA/0.png", "page 0", " Represent with:  page 0\n", "WebQA/0.png"),
        ),
        (
            "CIRR",
            ("0", "edit 0", "\nChange: edit 0\n", "CIRR/query0.png"),
            ("CIRR/0.png:", "", " Represent.", "CIRR/0.png"),
        ),
        (
            "RefCOCO-Matching",
            ("0", "thing 0", "\nSelect: thing 0\n", "RefCOCO-Matching/query0.png"),
            ("RefCOCO-Matching/0.png:object 0", '"object 0"', ' Object:  "object 0"\n', "RefCOCO-Matching/0.png"),
        ),
    ],
)
def test_texts_are_assembled_as_published(task, query, candidate, tmp_path):
    collection = opened(task, write_image_task(tmp_path, task)).info.collection
    assert texts(collection.queries[:1]) == [query]
    assert texts(collection.documents[:1]) == [candidate]
    assert collection.relevance["0"] == {candidate[0]: 1.0}
    assert collection.candidates["0"][0] == candidate[0]
    assert len(collection.candidates["0"]) == 5  # one that a row repeats counts once


def test_visdial_ends_with_two_line_breaks(tmp_path):
    write_image_task(tmp_path, "VisDial", [row | {"qry_inst": "Find:"} for row in image_rows("MSCOCO_t2i")])
    assert opened("VisDial", tmp_path).info.collection.queries[0].meta[INSTRUCTED] == "Find: caption 0\n\n"


def test_documents_have_the_published_instructions_and_order(tmp_path):
    write_documents(tmp_path, "esg_reports_v2")
    collection = opened("ViDoRe_esg_reports_v2", tmp_path).info.collection
    assert [query.id for query in collection.queries] == ["1", "3", "5", "7"]
    assert collection.queries[0].meta[INSTRUCTED] == "Find a document image that matches the given query: query 1"
    assert collection.documents[0].meta[INSTRUCTION] == "Understand the content of the provided document image."
    assert [document.id for document in collection.documents] == ["2", "3", "6", "7", "1", "5", "0", "4", "8"]
    assert collection.relevance["1"] == {"2": 2.0, "3": 1.0, "4": 0.0}


def test_rows_of_v1_are_read(tmp_path):
    rows = [
        {
            "qry": "<|image_1|>\nRepresent the image",
            "qry_img_path": "a.png",
            "tgt_text": ["<|image_1|> one", "<|image_1|> two"],
            "tgt_img_path": ["b.png", "c.png"],
        }
    ]
    write_image_task(tmp_path, "NIGHTS", rows, "MMEB-eval")
    collection = opened("NIGHTS", tmp_path).info.collection
    assert texts(collection.queries) == [("0", "\nRepresent the image", None, "a.png")]
    assert texts(collection.documents)[0] == ("b.png:<|image_1|> one", " one", None, "b.png")


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(DataError, match="cannot be downloaded automatically") as error:
        opened("GQA", tmp_path)
    assert "MMEB_Test_Instruct" in str(error.value)
    write_image_task(tmp_path, "GQA")
    (tmp_path / "image-tasks/GQA/query3.png").unlink()
    with pytest.raises(DataError, match="refers to 1 image that"):
        opened("GQA", tmp_path)


def test_old_pages_are_not_read_under_the_name_of_the_corrected_ones(tmp_path):
    write_documents(tmp_path, "ViDoSeek-page")
    with pytest.raises(DataError, match="ViDoSeek-page is not in"):
        opened("ViDoSeek-page", tmp_path)


def test_a_table_without_the_columns_is_refused(tmp_path):
    (tmp_path / "GQA").mkdir()
    pq.write_table(pa.table({"question": ["a"]}), tmp_path / "GQA" / "test-00000-of-00001.parquet")
    with pytest.raises(DataError, match="not a row of MMEB"):
        opened("GQA", tmp_path)
