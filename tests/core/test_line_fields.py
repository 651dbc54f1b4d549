"""Fields of lines are read without parsing the lines, and are what parsing them gives."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.errors import DataError
from eyechart.results import json_blocks
from eyechart.results.json_blocks import field_blocks, object_blocks
from eyechart.results.line_fields import LineFields, LinePattern, field_of, objects_of

FIELDS = ("id", "rank", "text")


def line(i, **changes):
    """A record as results have them."""
    record = {
        "id": f"s{i}",
        "rank": i % 7,
        "correct": i % 2 == 0,
        "scores": [0.5, -1e-07, 3],
        "top": ["é", 'a"\\b\u2028'],
    }
    return json.dumps({**record, **changes}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("odd", "matched"),
    [
        ({}, True),
        ({"rank": 2.5}, True),
        ({"rank": -0.0}, True),
        ({"rank": 10**30}, True),
        ({"id": 'a "quoted" \n name \ud83d'}, True),
        ({"top": []}, True),
        ({"rank": None}, False),
        ({"rank": "1"}, False),
        ({"rank": float("nan")}, False),
        ({"text": "one more key"}, False),
        ({"top": {"a": 1}}, False),
        ({"top": [["a"]]}, False),
    ],
)
def test_fields_are_those_of_parsed_lines(tmp_path, odd, matched):
    lines = [line(i) for i in range(100)]
    lines[60] = line(60, **odd)
    (tmp_path / "rows.jsonl").write_bytes("\n".join(lines).encode("utf-8", "backslashreplace"))

    (block,) = field_blocks(tmp_path / "rows.jsonl", FIELDS)
    (parsed,) = object_blocks(tmp_path / "rows.jsonl")

    assert isinstance(block, LineFields) == matched
    for name in FIELDS:
        assert repr(field_of(block, name, None)) == repr([record.get(name) for record in parsed])
    some = list(objects_of(block, [3, 60]))
    assert repr([record for _, record, _ in some]) == repr([parsed[3], parsed[60]])
    assert repr(block[60]) == repr(parsed[60])


def test_a_field_that_no_line_has_needs_a_default(tmp_path):
    (tmp_path / "rows.jsonl").write_text(f"{line(1)}\n{line(2)}\n")
    (block,) = field_blocks(tmp_path / "rows.jsonl", FIELDS)

    assert field_of(block, "text", None) == [None, None]
    with pytest.raises(KeyError):
        field_of(block, "text")


@pytest.mark.parametrize(
    "wrong", ["", "17", line(1)[:-1], line(1) + line(2), f" {line(1)}", line(1).replace(": 1,", ": 01,")]
)
def test_a_line_of_another_form_is_treated_as_ever(tmp_path, monkeypatch, wrong):
    monkeypatch.setattr(json_blocks, "_BLOCK", 1000)
    rows = [line(i) for i in range(100)]
    (tmp_path / "rows.jsonl").write_text("\n".join([*rows, wrong, *rows]))

    def read(blocks):
        try:
            return [record for block in blocks for record in block]
        except DataError as error:
            return str(error)

    assert read(field_blocks(tmp_path / "rows.jsonl", FIELDS)) == read(object_blocks(tmp_path / "rows.jsonl"))


@given(st.integers(0, len(line(1)) - 1), st.text('"\\{}[]:,. 019eE+-tn\x00\n', max_size=2), st.integers(0, 2))
def test_what_matches_is_json_with_the_same_keys(place, inserted, removed):
    changed = line(1)[:place] + inserted + line(1)[place + removed :]
    pattern = LinePattern.of(line(0), FIELDS)

    found = pattern.read(changed)

    if found is not None:
        assert len(found) == 1
        record = json.loads(changed)
        assert list(record) == list(json.loads(line(0)))
        assert field_of(found, "rank") == [record["rank"]]
