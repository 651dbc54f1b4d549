"""A page is made of whatever results there are: records of other forms, broken ones, none at all."""

from __future__ import annotations

import json

import pytest

from eyechart.report.load import load_results
from eyechart.report.payload import make_payload
from eyechart.report.samples import Limits

OTHERS = {
    "visual_sts": [{"id": "p1", "score": 3.0, "cosine": 0.5}],
    "image_caption": [{"id": "a", "corpus_id": 0, "caption": "x"}, {"id": "b", "failed": "no answer"}],
    "empty": [],
}


def write(folder, records, **body):
    (folder / "r.records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    base = {"dataset": "d", "model": "m", "pretrained": "p", "task": "t", "metrics": {"acc": 0.5}, "schema": 1}
    result = base | {"records": {"file": "r.records.jsonl", "count": len(records)}} | body
    (folder / "r.json").write_text(json.dumps(result))
    return load_results([folder / "r.json"]).found


@pytest.mark.parametrize("name", OTHERS)
def test_records_without_a_view_leave_the_numbers_standing(tmp_path, name):
    payload = make_payload(write(tmp_path, OTHERS[name]))

    assert payload.overview["results"][0][2] == [0.5]
    assert "samples" not in payload.chunks[0]
    assert payload.overview["notices"] == []


def test_damaged_or_missing_records_are_named_and_the_numbers_stand(tmp_path):
    found = write(tmp_path, [{"id": "a", "query": "text"}])
    assert "a record is damaged" in make_payload(found).overview["notices"][0]

    (tmp_path / "r.records.jsonl").unlink()
    assert "cannot be read" in make_payload(found).overview["notices"][0]


def test_texts_that_look_for_documents(tmp_path):
    records = [
        {"id": "q1", "query": "text", "text": "a", "rank": 2, "relevant": ["d1"], "top": ["d2", "d1"]},
        {"id": "q2", "query": "text", "text": "b", "rank": None, "relevant": ["d9"], "top": ["d3"]},
    ]

    chunk = make_payload(write(tmp_path, records)).chunks[0]

    assert chunk["gallery"] == "documents"
    assert chunk["curves"]["0"]["retrieval"][:2] == [0.0, 0.5]
    assert chunk["samples"]["rank"]["0"] == [2, -1]
    assert chunk["samples"]["details"]["0"][1]["names"] == ["d3"]


def test_too_many_samples_are_cut_to_the_most_missed_and_the_figures_are_of_all(suite):
    found = [item for item in load_results([suite]).found if item.result.dataset == "digits"]

    chunk = make_payload(found, limits=Limits(samples=10)).chunks[0]

    assert chunk["samples"]["total"] == 120
    assert len(chunk["samples"]["ids"]) == 10
    assert all(ranks != [1] * 6 for ranks in zip(*chunk["samples"]["rank"].values(), strict=True))
    assert sum(chunk["class_counts"]) == 120


def test_no_images_means_none(suite):
    payload = make_payload(load_results([suite]).found, limits=Limits(images=0))

    assert all(not chunk["samples"]["thumbnails"] for chunk in payload.chunks if "samples" in chunk)


def test_thumbnails_stop_at_the_limit_for_the_page(suite):
    full = make_payload(load_results([suite]).found)
    cut = make_payload(load_results([suite]).found, limits=Limits(image_bytes=3000))

    def size(payload):
        return sum(len(t) for chunk in payload.chunks for t in chunk.get("samples", {}).get("thumbnails", {}).values())

    assert 0 < size(cut) <= 3000 < size(full)
