"""Tables fit a width: columns give way as told, nothing is cut. Without a width a row is a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.io.terminal import text_width, wrap
from eyechart.io.text_tables import columns_of, lay_out

COLUMNS = columns_of("metric", "value", "interval", "n", right=("value", "interval", "n"), below=("interval", "n"))
ROW = ("acc1", "0.5000", "0.4000 - 0.6000", "1000")


def lines_of(columns, rows, width):
    return [line for row in lay_out(columns, rows, width) for line in row]


def test_without_a_width_every_row_is_a_line():
    rows = [("m" * 300, "0.5000", "", "1"), ROW]

    assert len(lines_of(COLUMNS, rows, None)) == 3


def test_columns_that_do_not_fit_are_under_their_row_the_last_one_first():
    assert lines_of(COLUMNS, [ROW], 80) == [
        "metric   value         interval     n",
        "acc1    0.5000  0.4000 - 0.6000  1000",
    ]
    assert lines_of(COLUMNS, [ROW], 34) == [
        "metric   value         interval",
        "acc1    0.5000  0.4000 - 0.6000",
        "    n 1000",
    ]
    assert lines_of(COLUMNS, [ROW], 20) == [
        "metric   value",
        "acc1    0.5000",
        "    interval 0.4000",
        "    - 0.6000; n 1000",
    ]


def test_columns_may_be_dropped_instead():
    columns = columns_of("NAME", "KIND", "TITLE", drop=("KIND",), wraps=True)

    assert lines_of(columns, [("pets", "classification", "Oxford-IIIT Pet")], 30) == [
        "NAME  TITLE",
        "pets  Oxford-IIIT Pet",
    ]


def test_a_long_name_has_a_line_of_its_own_if_most_names_fit():
    rows = [*[ROW] * 9, ("a_name_that_is_much_longer_than_all_others", "0.1000", "", "7")]

    assert lines_of(COLUMNS, rows, 45)[-2:] == [
        "a_name_that_is_much_longer_than_all_others",
        "                0.1000                      7",
    ]


def test_a_text_wraps_in_its_column():
    lines = lines_of(columns_of("", "", wraps=True), [("note", "word " * 20)], 50)

    assert [line[:6] for line in lines] == ["note  ", "      ", "      "]
    assert max(map(len, lines)) <= 50


def test_a_word_that_is_wider_than_its_column_is_divided_there():
    rows = [("NAME", "a/very_long_name,without_any_space_in_it"), ("b", "测" * 20)]

    lines = lines_of(columns_of("", "", wraps=True), rows, 36)

    assert max(map(text_width, lines)) <= 36
    assert "".join(line[6:] for line in lines) == rows[0][1] + rows[1][1]
    assert lines[0].endswith(("/", "_", ","))


def test_chinese_characters_take_two_columns():
    head, row = lines_of(columns_of("指标", "value"), [("acc1", "0.5")], 80)

    assert (text_width("指标"), text_width("e\u0301")) == (4, 1)
    assert (head, row) == ("指标  value", "acc1  0.5")


def test_commands_and_long_words_are_never_broken():
    command = "`eyechart report results/ -o report.html`"

    assert wrap(f"To see it, run {command}.", 44) == ["To see it, run", f"{command}."]
    assert wrap("see " + "x" * 90, 40) == ["see", "x" * 90]


@given(
    st.lists(st.tuples(*[st.text("ab c", max_size=30)] * 4), min_size=1, max_size=5),
    st.integers(min_value=1, max_value=90),
)
def test_no_letter_is_lost_and_lines_fit_if_the_first_two_columns_do(rows, width):
    lines = lines_of(COLUMNS, rows, width)

    shown, wanted = "".join(lines), "".join(cell for row in rows for cell in row)
    assert all(shown.count(letter) >= wanted.count(letter) for letter in "ab")
    if width >= 64:
        assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [1, 10, 39, 80, 1000])
def test_any_width_is_served(width):
    assert "acc1" in "\n".join(lines_of(COLUMNS, [ROW], width))
