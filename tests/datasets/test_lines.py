"""Lines, encodings and control characters in the files that data come with."""

import codecs
import json
from functools import partial

import pytest

from eyechart.datasets.annotation_files import open_jsonl, open_pairs
from eyechart.datasets.class_texts import read_class_texts, read_lines
from eyechart.datasets.image_table import open_table
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.row_dataset import Problems, json_objects
from eyechart.datasets.selection import open_selection
from eyechart.datasets.text_collection import has_images, read_collection
from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import DataError, EyechartError
from eyechart.io.safe_parse import read_json, split_lines, text_lines
from eyechart.manifest import iter_samples, read_manifest
from eyechart.types import DatasetSpec
from support.data import png, write_classification, write_retrieval, write_tar

NOT_LINE_ENDS = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
"""Where ``str.splitlines`` cuts."""


def spec(root, **options):
    return DatasetSpec("mine", "x", str(root), options=options)


# ------------------------------------------------------------------------------------------------------ lines


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_end_at_line_feeds(end, tmp_path):
    (tmp_path / "names.txt").write_bytes(f"cat{end}dog{end}".encode())

    assert read_lines(tmp_path / "names.txt") == ("cat", "dog")
    assert split_lines(f"a{end}b") == split_lines(f"a{end}b{end}") == ["a", "b"]
    assert split_lines("") == []


@pytest.mark.parametrize("character", ["\u2028", "\u2029"])
def test_a_separator_within_a_class_name_shifts_no_label(character, tmp_path):
    root = write_classification(tmp_path, classes=(f"a{character}b", "dog", "bird"))

    assert open_webdataset(spec(root)).info.classnames == (f"a{character}b", "dog", "bird")


@pytest.mark.parametrize("character", [*NOT_LINE_ENDS[:6], "\x1b[31m", "\x7f", "\x9b", "\t", "\r"])
def test_a_class_name_with_a_control_character_is_refused_and_shown_harmlessly(character, tmp_path):
    root = write_classification(tmp_path, classes=(f"a{character}b", "dog", "bird"))

    with pytest.raises(DataError) as caught:
        _ = open_webdataset(spec(root)).info

    assert repr(f"a{character}b") in str(caught.value)
    assert character not in str(caught.value)


@pytest.mark.parametrize("character", NOT_LINE_ENDS)
def test_a_template_and_a_caption_may_hold_any_of_them(character, tmp_path):
    (tmp_path / "t.txt").write_bytes(f"a{character} {{c}}\nthe {{c}}\n".encode())
    options = {"template_file": str(tmp_path / "t.txt")}
    root = write_retrieval(tmp_path / "r", captions=[[f"a{character}dog", "a cat"]], shards=1)

    assert read_class_texts(None, spec(tmp_path, **options), ("x",)).templates == (f"a{character} {{c}}", "the {c}")
    assert next(iter_samples(open_webdataset(spec(root)))).texts == (f"a{character}dog", "a cat")


def test_captions_of_zero_bytes_are_damage(tmp_path):
    root = write_retrieval(tmp_path, captions=[["a"]], shards=1)
    write_tar(root / "test" / "0.tar", [("s1.png", png()), ("s1.txt", b"a dog\0\0\0\0")])

    with pytest.raises(DataError, match=r"s1\.png: the captions contain zero bytes"):
        list(iter_samples(open_webdataset(spec(root))))


# -------------------------------------------------------------------------------------------------- encodings

ROW = {"image_path": "a.png", "image": "a.png", "query": ["汉字"], "caption": "汉字", "text": "汉字", "_id": "d"}
LINES = json.dumps(ROW | {"images": ["a.png"], "texts": ["汉字", "x"]}, ensure_ascii=False) + "\n"


def collection(folder):
    if not (folder / "queries.jsonl").exists():
        (folder / "queries.jsonl").write_text('{"_id": "q", "text": "x"}')
        (folder / "qrels.jsonl").write_text('{"query-id": "q", "corpus-id": "d", "score": 1}')
    return read_collection(folder).documents[0].text


def texts(reader, file, folder):
    return next(iter_samples(reader(spec(folder / file)))).texts[0]


READERS = {
    "image_queries.jsonl": (LINES, partial(texts, open_jsonl, "")),
    "questions.jsonl": (LINES, partial(texts, open_selection, "")),
    "t.jsonl": (LINES, partial(texts, open_table, "t.jsonl")),
    "t.csv": ("image,caption\na.png,汉字\n", partial(texts, open_table, "t.csv")),
    "corpus.jsonl": (LINES, collection),
    "names.txt": ("汉字\ncat\n", lambda folder: read_lines(folder / "names.txt")[0]),
    "names.json": ('["汉字"]', lambda folder: read_json(folder / "names.json")[0]),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_utf8_and_wide_texts_with_a_mark_are_read(name, encoding, tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    content, read = READERS[name]
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    (tmp_path / name).write_bytes(mark + content.encode(encoding))

    assert read(tmp_path) == "汉字"


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(("encoding", "guess"), [("gbk", "GBK"), ("shift_jis", "SHIFT_JIS")])
def test_another_encoding_is_an_error_that_names_the_line_and_a_guess(name, encoding, guess, tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    content, read = READERS[name]
    content = content.replace("汉字", "漢字かな" if encoding == "shift_jis" else "汉字")
    (tmp_path / name).write_bytes(content.encode(encoding))
    line = 2 if name == "t.csv" else 1

    with pytest.raises(
        EyechartError, match=rf"(?s){name}, line {line}: not UTF-8.*It may be {guess}: iconv -f {guess}"
    ):
        read(tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_utf16_without_a_mark_is_told(name, tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    content, read = READERS[name]
    (tmp_path / name).write_bytes(content.replace("汉字", "abc").encode("utf-16-le"))

    with pytest.raises(EyechartError, match=rf"{name}, line 1: UTF-16 without a byte order mark"):
        read(tmp_path)


def test_the_line_of_western_text_is_named(tmp_path):
    (tmp_path / "names.txt").write_bytes("dog\ncafé au lait\n".encode("cp1252"))

    with pytest.raises(DataError, match=r"(?s)names\.txt, line 2: not UTF-8.*WINDOWS-1252"):
        read_lines(tmp_path / "names.txt")


def test_a_character_whose_bytes_look_like_a_line_feed_does_not_end_a_line(tmp_path):
    """U+0A0A is a letter of Gurmukhi, and twice the byte of a line feed in UTF-16."""
    (tmp_path / "a.txt").write_bytes("ਊ\nb\r\n".encode("utf-16"))

    assert list(text_lines(tmp_path / "a.txt")) == [(1, "ਊ\n"), (2, "b\r\n")]


def test_half_a_character_of_utf16_is_an_error(tmp_path):
    (tmp_path / "a.txt").write_bytes("ab".encode("utf-16") + b"\xd8")

    with pytest.raises(DataError, match="line 1: not UTF-16"):
        list(text_lines(tmp_path / "a.txt"))


@pytest.mark.parametrize("encoding", [None, "utf-8", "utf-8-sig"])
def test_a_byte_order_mark_is_not_part_of_the_first_line(encoding, tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffä\n\ufeffb\n".encode())

    assert list(text_lines(tmp_path / "a.txt", encoding=encoding)) == [(1, "ä\n"), (2, "\ufeffb\n")]


def test_blank_lines_between_objects_are_skipped(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n  \n{"a": 2}\n[]\n\n{"a"\n{"a": 3}\n')
    problems = Problems(tmp_path / "a.jsonl")

    assert list(json_objects(tmp_path / "a.jsonl", problems)) == [(1, {"a": 1}), (4, {"a": 2}), (8, {"a": 3})]
    with pytest.raises(DataError, match="2 bad lines"):
        problems.raise_if_any()


def test_every_bad_pair_is_reported(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    lines = [{"score": 1}, {"image_1": "a.png", "image_2": "a.png", "score": "much"}, {"image_1": "a.png", "score": 1}]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    with pytest.raises(DataError) as caught:
        open_pairs(spec(tmp_path))

    assert all(f"line {number}" in str(caught.value) for number in (1, 2, 3))


# ---------------------------------------------------------------------------------------------------- sample ids


@pytest.mark.parametrize("key", ["a\x1b[31m", "a\x07", "a\x7f", "a\x9b31m", "a\rb", "a\ud800"])
def test_a_sample_id_that_a_terminal_would_obey_is_refused(key, tmp_path):
    root = write_classification(tmp_path / "wds", n=1, shards=1)
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "image_queries.jsonl").write_text(json.dumps({"id": key, "image_path": "a.png", "query": "x"}))
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"id": key, "image_1": "a.png", "image_2": "a.png", "score": 1}))
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": key, "text": "x"}))
    readers = [
        lambda: read_manifest(open_jsonl(spec(tmp_path))),
        lambda: read_manifest(open_pairs(spec(tmp_path))),
        lambda: read_collection(tmp_path),
    ]
    if key != "a\ud800":  # which no tar can hold
        write_tar(root / "test" / "0.tar", [(f"{key}.png", png()), (f"{key}.cls", b"1")])
        readers.append(lambda: read_manifest(open_dataset(DatasetSpec("wds/x", "wds", str(root)))))

    for read in readers:
        with pytest.raises(DataError) as caught:
            read()
        assert repr(key)[1:-1] in str(caught.value)
        assert key not in str(caught.value)


def test_a_tar_key_that_is_not_utf8_is_refused(tmp_path):
    root = write_classification(tmp_path, n=1, shards=1)
    write_tar(root / "test" / "0.tar", [("a\udcff.png", png()), ("a\udcff.cls", b"1")])

    with pytest.raises(DataError, match=r"the sample 'a\\udcff'"):
        list(iter_samples(open_webdataset(spec(root))))


@pytest.mark.parametrize("encoding", ["gbk", "gb18030", "utf-16-le", "utf-16-be", "utf-16", "big5"])
def test_image_queries_of_any_encoding_are_read_if_it_is_named(encoding, tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "image_queries.jsonl").write_bytes((LINES + LINES.replace("汉字", "文字")).encode(encoding, "ignore"))
    spec = DatasetSpec("custom", "jsonl", str(tmp_path), options={"encoding": encoding})

    [sample] = open_jsonl(spec).rows

    assert sample.texts[-1] == "文字"


@pytest.mark.parametrize(("encoding", "guess"), [("gbk", "gbk"), ("utf-16-le", "utf-16le"), ("utf-16-be", "utf-16be")])
def test_the_setting_is_offered_with_the_probable_encoding(encoding, guess, tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "image_queries.jsonl").write_bytes((LINES.replace("汉字", "一只狗") * 13).encode(encoding))

    with pytest.raises(DataError, match=r"image_queries\.jsonl, line 1: ") as told:
        open_jsonl(DatasetSpec("custom", "jsonl", str(tmp_path)))

    assert f"or set --encoding {guess}" in told.value.advice


@pytest.mark.parametrize(
    ("encoding", "said"), [("utf-99", "Unknown encoding"), ("base64", "Unknown encoding"), ("ascii", "line 1")]
)
def test_an_encoding_that_is_wrong_is_told(encoding, said, tmp_path):
    (tmp_path / "image_queries.jsonl").write_text(LINES, encoding="utf-8")

    with pytest.raises(EyechartError, match=said):
        open_jsonl(DatasetSpec("custom", "jsonl", str(tmp_path), options={"encoding": encoding}))


def test_corpus_queries_and_relevance_are_read_in_the_same_encoding(tmp_path):
    (tmp_path / "corpus.jsonl").write_bytes('{"_id": "汉", "text": "汉字"}\n'.encode("gbk"))
    (tmp_path / "queries.jsonl").write_bytes('{"_id": "问", "text": "文字"}\n'.encode("gbk"))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels/test.tsv").write_bytes("query-id\tcorpus-id\tscore\n问\t汉\t1\n".encode("gbk"))

    found = read_collection(tmp_path, encoding="gbk")

    assert (found.documents[0].text, found.relevance) == ("汉字", {"问": {"汉": 1.0}})


def test_without_kana_a_text_is_not_taken_for_japanese(tmp_path):
    (tmp_path / "image_queries.jsonl").write_bytes(LINES.replace("汉字", "貓在睡覺").encode("big5"))

    with pytest.raises(DataError) as told:
        open_jsonl(DatasetSpec("custom", "jsonl", str(tmp_path)))
    assert "SHIFT_JIS" not in told.value.advice


def test_whether_a_folder_has_images_is_seen_in_its_encoding(tmp_path):
    (tmp_path / "corpus.jsonl").write_bytes('{"_id": "汉", "text": "汉字", "image": "a.png"}\n'.encode("gbk"))

    assert has_images(tmp_path, "gbk")
    with pytest.raises(DataError) as told:
        has_images(tmp_path)
    assert "set --encoding gbk" in told.value.advice
