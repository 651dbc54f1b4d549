"""Records that are as they were are not read again; whatever is not surely as it was is."""

from __future__ import annotations

import os
import shutil
from dataclasses import fields

import numpy as np
import pytest

from eyechart.errors import ResultError
from eyechart.io import digests
from eyechart.report import record_columns
from eyechart.report.loader import load_results
from eyechart.report.page.payload import make_payload
from eyechart.report.record_columns import cached_columns, read_columns
from eyechart.results import read_result
from eyechart.results.files import records_file
from support.make_results import chunks_of

KEEP = 20


@pytest.fixture
def result(suite, tmp_path, monkeypatch):
    """A result with records of its own, and files that settle at once."""
    monkeypatch.setattr(digests, "SETTLED", 0)
    for file in suite.glob("digits_Snellen-B_en_zeroshot_classification.*"):
        shutil.copy(file, tmp_path)
    return read_result(tmp_path / "digits_Snellen-B_en_zeroshot_classification.json")


@pytest.fixture
def reads(monkeypatch):
    """The results whose records were read."""
    seen = []

    def spied(result, *, keep):
        seen.append(result.path.name)
        return read_columns(result, keep=keep)

    monkeypatch.setattr(record_columns, "read_columns", spied)
    return seen


def same(one, other):
    """Tell whether two sets of columns hold the same."""
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "numbers":
            assert a.keys() == b.keys()
            assert all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)
        elif isinstance(a, np.ndarray):
            assert np.array_equal(a, b)
            assert a.dtype == b.dtype
        else:
            assert a == b
    return True


def test_a_second_report_reads_no_records_and_is_the_same(suite, reads, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED", 0)
    found = load_results([suite]).found

    first = make_payload(found)
    read, again = len(reads), make_payload(found)

    assert read > 20
    assert len(reads) == read
    assert again.overview["benchmarks"] == first.overview["benchmarks"]
    assert chunks_of(again) == chunks_of(first)


def test_columns_of_every_form_are_kept_as_they_are(suite, answers, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED", 0)
    forms = set()
    for item in load_results([suite, answers]).found:
        first = cached_columns(item.result, keep=KEEP)
        if first is not None:
            assert same(cached_columns(item.result, keep=KEEP), first)
            assert same(read_columns(item.result, keep=KEEP), first)
            forms.add(first.form)

    assert forms >= {"label", "labels", "ranking", "question"}


def test_records_that_were_changed_are_noticed_even_if_size_and_time_are_the_same(result, reads):
    cached_columns(result, keep=KEEP)
    path = records_file(result)
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"rank": 1,', b'"rank": 2,', 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(ResultError, match="modified after"):
        cached_columns(result, keep=KEEP)
    assert len(reads) == 2


def test_what_is_kept_of_one_number_of_mistakes_is_not_taken_for_another(result, reads):
    assert len(cached_columns(result, keep=1).worst) == 1
    assert len(cached_columns(result, keep=3).worst) == 3
    assert len(reads) == 2


def test_what_was_written_just_now_is_not_kept(result, reads, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED", 10**12)

    cached_columns(result, keep=KEEP)
    cached_columns(result, keep=KEEP)

    assert len(reads) == 2


def test_a_damaged_file_of_the_cache_is_read_again(result, reads, own_cache):
    first = cached_columns(result, keep=KEEP)
    (kept,) = (own_cache / "columns").iterdir()
    data = bytearray(kept.read_bytes())
    data[-9] ^= 1
    kept.write_bytes(data)

    assert same(cached_columns(result, keep=KEEP), first)
    assert len(reads) == 2


def test_a_cache_that_cannot_be_written_is_no_error(result, own_cache):
    own_cache.write_text("no folder")

    assert cached_columns(result, keep=KEEP).ids
