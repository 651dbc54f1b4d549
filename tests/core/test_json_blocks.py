"""Files of one JSON object a line are read many lines at a time, and give what reading line by line gives."""

from __future__ import annotations

import json

import pytest

from eyechart.errors import DataError
from eyechart.io.untrusted import json_lines
from eyechart.results import json_blocks
from eyechart.results.json_blocks import object_blocks

PLAIN = "".join(json.dumps({"id": f"s{i}", "text": "é\u2028 \\n"}, ensure_ascii=i % 2 > 0) + "\n" for i in range(500))


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.encode(),
        PLAIN.rstrip().encode(),
        b"",
        PLAIN.replace("\n", "\n\n").encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.encode("utf-8-sig"),
        PLAIN.encode("utf-16"),
        (PLAIN + "  \n" + PLAIN).encode(),
    ],
)
def test_every_object_comes_once_in_the_order_of_the_file(tmp_path, monkeypatch, data):
    monkeypatch.setattr(json_blocks, "_BLOCK", 1000)
    (tmp_path / "rows.jsonl").write_bytes(data)

    found = [row for block in object_blocks(tmp_path / "rows.jsonl") for row in block]

    assert found == [row for _, row in json_lines(tmp_path / "rows.jsonl")]


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1',
        '{"a": 1}{"b": 2}',
        '{"a": 1},{"b": 2}',
        "[1]",
        "17",
        '{"a": 1}\x0b',
        '{"a": "\x00"}',
        '{"a":\n 1}\n{"b": 2',
        '{"a":' + "[" * 100_000,
    ],
)
def test_the_error_names_the_line(tmp_path, monkeypatch, line):
    monkeypatch.setattr(json_blocks, "_BLOCK", 1000)
    (tmp_path / "rows.jsonl").write_text(PLAIN + line + "\n" + PLAIN, encoding="utf-8")

    with pytest.raises(DataError, match="line 501: not"):
        list(object_blocks(tmp_path / "rows.jsonl"))


def test_an_object_on_two_lines_is_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "a",\n"rank": 1}\n')

    with pytest.raises(DataError, match="line 1: not valid JSON"):
        list(object_blocks(tmp_path / "rows.jsonl"))
