"""The published tables are rebuilt, digit by digit, from the results that ship with the package."""

from __future__ import annotations

import pytest

from eyechart.errors import UnknownNameError
from eyechart.report.load import Found
from eyechart.report.reference import load_reference, names, published_tables
from eyechart.report.table import make_table
from eyechart.results import Result
from eyechart.types import Metric

PRINTED = {
    "ImageNet variants and ObjectNet": {"InternVL-C": "83.2 83.8 95.5 77.3 73.9 80.6 0.8 82.4"},
    "Multilingual ImageNet-1K": {"InternVL-C": "83.2 64.5 61.5 44.9 65.7 64.0"},
    "Flickr30K and COCO": {
        "InternVL-C": "94.7 99.6 99.9 81.7 96.0 98.2 70.6 89.0 93.5 54.1 77.3 84.6 86.6",
        "InternVL-G": "95.7 99.7 99.9 85.0 97.0 98.6 74.9 91.3 95.2 58.6 81.3 88.0 88.8",
    },
    "Flickr30K-CN and COCO-CN": {
        "InternVL-C": "90.3 98.8 99.7 75.1 92.9 96.4 68.8 92.0 96.7 68.9 91.9 96.5 89.0",
        "InternVL-G": "92.9 99.4 99.8 77.7 94.8 97.3 71.4 93.9 97.7 73.8 94.4 98.1 90.9",
    },
    "XTD (text retrieval, recall@10)": {
        "InternVL-C": "97.3 95.7 95.1 95.6 96.0 92.2 93.3 95.5 95.1",
        "InternVL-G": "98.6 97.7 96.5 96.7 96.9 95.1 94.8 96.1 96.6",
    },
}
"""As printed in the publication, derived columns included."""


def test_all_published_results_are_there():
    assert names() == ["internvl"]
    assert len(load_reference("internvl")) == 54
    assert make_table(load_reference("internvl")).replaced == ()


@pytest.mark.parametrize("title", PRINTED)
def test_the_tables_are_rebuilt_as_printed(title):
    table = make_table(load_reference("internvl"))
    (rebuilt,) = [part for part in published_tables("internvl", table) if part.title == title]

    assert {table.models[row].name: " ".join(cells) for row, cells in rebuilt.rows} == PRINTED[title]


def test_ones_own_results_stand_beside_the_published_ones():
    own = Found(Result("imagenet1k", "mine", "", "zeroshot_classification", "zh", {"acc1": Metric(0.5)}))
    table = make_table([own, *load_reference("internvl")])

    languages = published_tables("internvl", table)[1]

    row, cells = languages.rows[0]
    assert (table.models[row].name, cells) == ("mine", ("", "50.0", "", "", "", ""))


def test_an_unknown_reference_is_named():
    with pytest.raises(UnknownNameError, match="internvl"):
        load_reference("internvt")
