"""Texts that are too long, nested too deeply, or want to be more than texts."""

import contextlib
import json
import time

import numpy as np
import pytest

from eyechart.compat.evalscope.main import read_configs
from eyechart.datasets.annotation_files import open_jsonl, open_pairs
from eyechart.datasets.image_table import open_table
from eyechart.datasets.questions.prediction_files import load_table
from eyechart.datasets.questions.prompt_items import to_messages
from eyechart.datasets.questions.table_files import read_tsv
from eyechart.datasets.selection import open_selection
from eyechart.datasets.text_collection import read_collection
from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import DataError, EyechartError, ResultError, UsageError
from eyechart.io import config_files, safe_parse
from eyechart.io.config_files import read_yaml
from eyechart.manifest import read_manifest
from eyechart.metrics.long_texts import best_span
from eyechart.report.loader import load_results
from eyechart.report.page.payload import make_payload
from eyechart.results import Result, read_result, write_result
from eyechart.store.answer_store import Responses
from eyechart.store.vector_store import VectorTable, text_digests
from eyechart.tasks.text_classifiers import check_template, fill
from eyechart.types import DatasetSpec, MeanOf, Metric
from support.data import png, write_retrieval

READERS = {
    "image_queries.jsonl": lambda folder: open_jsonl(spec(folder)),
    "questions.jsonl": lambda folder: open_selection(spec(folder)),
    "pairs.jsonl": lambda folder: open_pairs(spec(folder)),
    "table.jsonl": lambda folder: open_table(spec(folder / "table.jsonl")),
    "table.csv": lambda folder: open_table(spec(folder / "table.csv")),
    "corpus.jsonl": read_collection,
    "predictions.jsonl": lambda folder: load_table(folder / "predictions.jsonl"),
}


def spec(root):
    return DatasetSpec("x", "x", str(root))


@pytest.mark.parametrize("name", READERS)
def test_a_line_has_a_limit(name, tmp_path, monkeypatch):
    monkeypatch.setattr(safe_parse, "MAX_LINE", 1000)
    (tmp_path / name).write_bytes(b"x" * 2000)

    with pytest.raises(EyechartError, match="longer than 1000 bytes"):
        READERS[name](tmp_path)


@pytest.mark.parametrize("name", [name for name in READERS if name.endswith(".jsonl")])
def test_json_that_is_nested_too_deeply_is_a_bad_line(name, tmp_path):
    (tmp_path / name).write_bytes(b"[" * 100_000)

    with pytest.raises(EyechartError, match="nested too deeply"):
        READERS[name](tmp_path)


@pytest.mark.parametrize("name", ["questions.jsonl", "pairs.jsonl", "table.csv", "predictions.jsonl"])
def test_bytes_that_are_not_utf8_are_a_bad_line(name, tmp_path):
    (tmp_path / name).write_bytes(b'{"a": "\x80"}')

    with pytest.raises(EyechartError, match="line 1: not UTF-8"):
        READERS[name](tmp_path)


def test_a_gigantic_caption_is_refused_before_any_model_sees_it(tmp_path, monkeypatch):
    root = write_retrieval(tmp_path, captions=[["a dog"], ["x" * 1_000_001]])

    with pytest.raises(DataError, match="a text of 1000001 characters"):
        read_manifest(open_webdataset(DatasetSpec("wds/x", "wds", str(root))))


def test_a_gigantic_document_is_refused(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": 1, "text": "x" * 1_000_001}))

    with pytest.raises(DataError, match="1000001 characters"):
        read_collection(tmp_path)


def test_a_gigantic_question_is_refused():
    with pytest.raises(DataError, match="the text has 1000001 characters"):
        to_messages([{"type": "text", "value": "x" * 1_000_001}], "row 1")


@pytest.mark.parametrize("path", ["x" * 5000, "a/" * 3000 + "b.png"])
def test_a_name_that_no_disk_can_hold_is_a_missing_image(path, tmp_path):
    (tmp_path / "image_queries.jsonl").write_text(json.dumps({"image_path": path, "query": "q"}))

    with pytest.raises(DataError, match="does not exist"):
        open_jsonl(spec(tmp_path))


def test_an_infinite_position_is_a_bad_line(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "questions.jsonl").write_text('{"images": ["a.png"], "texts": ["x", "y"], "right": [[0, Infinity]]}')

    with pytest.raises(DataError, match="line 1: not in the expected form"):
        open_selection(spec(tmp_path))


def test_a_label_that_only_looks_like_a_number_is_a_name(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "t.csv").write_text("image,label\na.png,\u00b2\n")

    assert open_table(spec(tmp_path / "t.csv")).info.classnames == ("\u00b2",)


# --------------------------------------------------------------------------------------------- configs, templates


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch pwned']",
        "a: !!python/name:os.system",
        "a: !!python/object/new:type [x, [], {}]",
        "a: 2001-99-99",
        "a: !!int x",
        "? [a]\n: b",
    ],
)
def test_yaml_holds_plain_values_only(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(text)

    with pytest.raises(UsageError):
        read_configs(tmp_path / "c.yaml")
    assert not (tmp_path / "pwned").exists()


LAUGHS = "".join(f"x{i + 1}: &x{i + 1} [{', '.join([f'*x{i}'] * 10)}]\n" for i in range(30))


MERGED = "".join(f"x{i + 1}: &x{i + 1} {{<<: [{', '.join([f'*x{i}'] * 10)}]}}\n" for i in range(30))
BOMBS = {
    "itself": "a: &a [*a]",
    "merges itself": "a: &a {<<: *a}",
    "brackets": "[" * 300 + "]" * 300,
    "many brackets": "[" * 100_000,
    "aliases": f"x0: &x0 [z, z]\n{LAUGHS}",
    "merge keys": f"x0: &x0 {{a: 1, b: 2}}\n{MERGED}",
    "a chain of aliases": "x0: &x0 [z]\n" + "".join(f"x{i + 1}: &x{i + 1} [*x{i}]\n" for i in range(60)),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_config_holds_no_more_values_than_it_shows(bomb, tmp_path):
    """Refused before it is built: 2 KB of merge keys can stand for more than any memory holds."""
    (tmp_path / "c.yaml").write_text(BOMBS[bomb])
    start = time.process_time()

    with pytest.raises(UsageError, match="has more than 100000 values, is nested too deeply"):
        read_configs(tmp_path / "c.yaml")
    assert time.process_time() - start < 1


def test_a_config_with_too_many_values_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(config_files, "MAX_VALUES", 1000)
    (tmp_path / "c.yaml").write_text("[" + "z," * 1_000_000)
    start = time.process_time()

    with pytest.raises(UsageError, match="has more than 1000 values"):
        read_configs(tmp_path / "c.yaml")
    assert time.process_time() - start < 1


def test_a_number_of_a_config_has_a_limit(tmp_path):
    """One in base 60 takes time with the square of its length: minutes for a megabyte."""
    (tmp_path / "c.yaml").write_text("a: 1" + ":1" * 200_000)

    with pytest.raises(UsageError, match="has a number of 400001 characters"):
        read_configs(tmp_path / "c.yaml")


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_config_in_json_has_the_same_limits(suffix, tmp_path):
    (tmp_path / f"c.{suffix}").write_text("[" * 60 + "]" * 60)

    with pytest.raises(UsageError, match="is nested too deeply"):
        read_configs(tmp_path / f"c.{suffix}")


def test_merge_keys_of_a_config_mean_what_yaml_says():
    text = "base: &base {a: 1, b: 2}\nmore: &more {c: 3}\nhere: {<<: [*base, *more], b: 4}\n"

    assert read_yaml(text)["here"] == {"a": 1, "b": 4, "c": 3}


@pytest.mark.parametrize(
    ("name", "text"),
    [("c.yaml", "eval:\n  limit: 5\n  limit: 50\n"), ("c.json", '{"eval": {"limit": 5, "limit": 50}}')],
)
def test_a_setting_that_is_given_twice_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)

    with pytest.raises(UsageError, match="sets 'limit' twice"):
        read_configs(tmp_path / name)


def test_a_config_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfd\x80")

    with pytest.raises(UsageError, match="not UTF-8"):
        read_configs(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    "template", ["{c.__class__}", "{c} {c.__init__.__globals__}", "{0}", "{c!r}", "{c:>99999999}", "{"]
)
def test_a_template_is_no_format_string(template):
    with pytest.raises(DataError):
        check_template(template, "templates.txt")


def test_a_class_name_is_never_a_template_itself():
    assert fill("a {c}.", "{c.__class__} {} {c}") == "a {c.__class__} {} {c}."
    assert fill("a {c}, {c.__class__}.", "cat") == "a cat, {c.__class__}."


# --------------------------------------------------------------------------------------------- vectors, results


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_never_stored(bad, tmp_path):
    vectors = np.ones((2, 3), np.float32)
    vectors[1, 2] = bad

    with pytest.raises(EyechartError, match="NaN or infinite"):
        VectorTable(tmp_path).add(text_digests(["a", "b"], "en"), vectors)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [{"intervals": []}, {"notices": ["x"]}, {"counts": [1]}, {"details": "x"}, {"metrics": {"acc1": 10**400}}],
)
def test_a_result_with_parts_of_another_kind_is_damaged(change, tmp_path):
    body = {"dataset": "d", "model": "m", "pretrained": "p", "task": "t", "metrics": {"acc1": 0.5}, "language": "en"}
    (tmp_path / "r.json").write_text(json.dumps(body | change))

    with pytest.raises(ResultError, match="is damaged"):
        read_result(tmp_path / "r.json")


@pytest.mark.parametrize(
    "record",
    [
        {"id": "a", "rank": 2, "label": 10**12, "prediction": 0},
        {"id": "a", "rank": 2, "label": -7, "prediction": 0},
        {"id": "a", "rank": 2},
        {"id": "a", "labels": [0], "scores": [[0.1], 0.2]},
        {"id": "a", "labels": [5], "scores": [0.1]},
        [1],
    ],
)
def test_damaged_records_do_not_end_the_report_and_are_named_in_it(record, tmp_path):
    if "labels" in record:
        form, metric = "labels", Metric(0.5, primary=True, function="mean_average_precision")
    else:
        form, metric = "label", Metric(0.5, primary=True, mean_of=MeanOf("rank", 1))
    result = Result("d", "m", "p", "zeroshot_classification", "en", {"score": metric}, record_info={"form": form})
    write_result(result, [record], tmp_path / "r.json")

    payload = make_payload(load_results([tmp_path / "r.json"]).found)

    assert any("r.records.jsonl" in notice for notice in payload.overview["notices"])


def test_a_stored_answer_that_is_nested_too_deeply_is_counted_as_damaged(tmp_path):
    (tmp_path / "0.jsonl").write_bytes(b"[" * 100_000 + b"\n")

    assert Responses(tmp_path).damaged == 1


@pytest.mark.parametrize("piece", ['"a\t', 'x\t""', 'x"\t"y\n', '""\n', "\t", '"'])
def test_quotation_marks_in_a_table_take_time_in_proportion(piece, tmp_path):
    """A hundred thousand pieces: what looks at all that came before takes minutes."""
    (tmp_path / "t.tsv").write_text('index\n"' + piece * 100_000)
    start = time.process_time()

    with contextlib.suppress(DataError):
        read_tsv(tmp_path / "t.tsv")
    assert time.process_time() - start < 5


def test_an_answer_that_repeats_itself_is_compared_in_no_time():
    assert best_span("1{^" * 14, "^{1" * 20_000, "en")
