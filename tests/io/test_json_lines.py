"""Files of one JSON object a line are read many lines at a time, and give what reading line by line gives."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.errors import DataError
from eyechart.io import safe_parse as module
from eyechart.io.safe_parse import json_lines, may_have_big_integers, object_blocks, parse_json
from eyechart.results import Result, write_result

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
    monkeypatch.setattr(module, "_BLOCK", 1000)
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
    monkeypatch.setattr(module, "_BLOCK", 1000)
    (tmp_path / "rows.jsonl").write_text(PLAIN + line + "\n" + PLAIN, encoding="utf-8")

    with pytest.raises(DataError, match="line 501: not"):
        list(object_blocks(tmp_path / "rows.jsonl"))


def test_an_object_on_two_lines_is_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "a",\n"rank": 1}\n')

    with pytest.raises(DataError, match="line 1: not valid JSON"):
        list(object_blocks(tmp_path / "rows.jsonl"))


NASTY = [
    ({"id": "half \ud83d a pair", "\udc00": 1}, rb'{"id": "half \ud83d a pair", "\udc00": 1}'),
    ({"id": 2**64, "n": [-(2**63) - 1, 10**30]},
     b'{"id": 18446744073709551616, "n": [-9223372036854775809, 1000000000000000000000000000000]}'),
    ({"x": math.nan, "y": [-math.inf, np.float32("nan")]}, b'{"x": null, "y": [null, null]}'),
    ({"f": 0.1, "g": 1e22, "h": -0.0, "i": 1e-07, "j": 5e-324},
     b'{"f": 0.1, "g": 1e+22, "h": -0.0, "i": 1e-07, "j": 5e-324}'),
    ({"t": "\u2028 \x7f é 😀 \" \\ / \x00\n"}, '{"t": "\u2028 \x7f é 😀 \\" \\\\ / \\u0000\\n"}'.encode()),
    ({1: (True, None), "s": np.int64(3), "a": np.arange(2)}, b'{"1": [true, null], "s": 3, "a": [0, 1]}'),
    ({"long": 0.00012345678901234567, "id": "12345678901234567890123"},
     b'{"long": 0.00012345678901234567, "id": "12345678901234567890123"}'),
]  # fmt: skip


@pytest.mark.parametrize(("record", "line"), NASTY)
def test_records_are_written_byte_for_byte_and_read_as_python_reads_them(tmp_path, record, line):
    plain = {"id": "next"}
    written = write_result(Result("d", "m", "", "t", "en", {}), [plain, record, plain], tmp_path / "r.json")

    data = (tmp_path / "r.records.jsonl").read_bytes()
    assert data == b"\n".join([b'{"id": "next"}', line, b'{"id": "next"}', b""])
    assert repr(list(written.iter_records())) == repr([json.loads(part) for part in data.splitlines()])


@pytest.mark.parametrize(
    "line", ["NaN", "[1e400, -Infinity]", '"\\ud83d"', str(2**64), f"[{-(2**70)}]", "-0", '{"a": 1, "a": 2}']
)
def test_values_that_orjson_refuses_or_rounds_are_read_as_python_reads_them(line):
    for text in (f'{{"x": {line}}}', f'{{"x": {line}}}'.encode()):
        assert repr(parse_json(text)) == repr(json.loads(text))


FORMS = ["%d", "[%d]", '{"a":%d}', '{"a": [1,%d]}', "[1.5, %d ]", "[\n%d]"]


@given(st.integers(-(2**70), 2**70), st.sampled_from(FORMS))
def test_integers_keep_all_their_digits(number, form):
    text = form % number

    assert parse_json(text) == json.loads(text)
    assert may_have_big_integers(text.encode()) or -(2**63) <= number < 2**64


def test_decimals_and_texts_of_many_digits_are_not_taken_for_integers():
    assert not may_have_big_integers(b'{"x": 0.00012345678901234567, "id": "12345678901234567890123"}')
