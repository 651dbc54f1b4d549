"""A page is made of whatever results there are: records of every form, records of none, none at all."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from eyechart.report.loader import load_results
from eyechart.report.page.overview import Limits
from eyechart.report.page.payload import make_payload
from eyechart.results import write_result
from eyechart.types import Metric
from support.make_results import chunks_of, sit


@pytest.fixture(scope="module")
def payload(suite):
    return make_payload(load_results([suite]).found)


def benchmark(payload, dataset, task="zeroshot_classification"):
    place, found = next(
        (i, part)
        for i, part in enumerate(payload.overview["benchmarks"])
        if (part["dataset"], part["task"], part["language"]) == (dataset, task, "en")
    )
    return found, chunks_of(payload)[place]


FORMS = {
    ("digits", "zeroshot_classification"): {"curves", "per_class", "confusion", "samples"},
    ("market", "zeroshot_classification"): {"per_class", "samples"},
    ("postcards", "zeroshot_retrieval"): {"curves", "samples"},
}


@pytest.mark.parametrize("name", FORMS, ids=" ".join)
def test_each_form_of_records_has_its_view(payload, name):
    assert FORMS[name] <= benchmark(payload, *name)[1].keys()


def test_records_without_a_view_leave_the_numbers_standing_and_comparable(answers):
    found, chunk = benchmark(make_payload(load_results([answers]).found), "postcards", "captioning")

    assert (found["form"], "samples" in chunk) == ("", False)
    assert found["marks"][found["metrics"].index("CIDEr")]["how"] == "paired"


def test_where_lower_is_better_the_smallest_is_best_and_the_largest_is_not(payload):
    found, _ = benchmark(payload, "digits")
    column = found["metrics"].index("ece")
    values = {
        row[0]: row[2][column] for row in payload.overview["results"] if payload.overview["benchmarks"][row[1]] is found
    }

    assert found["lower"][column]
    assert found["short"][column] == "ece ↓"
    assert found["marks"][column]["best"] == [min(values, key=values.get)]
    assert max(values, key=values.get) not in found["marks"][column]["tied"]


def test_intervals_that_overlap_from_above_are_tied_where_lower_is_better():
    from eyechart.report.loader import LoadedResult
    from eyechart.results import Result

    ends = {"low": (0.01, 0.0, 0.05), "near": (0.04, 0.02, 0.08), "far": (0.4, 0.3, 0.5)}
    found = [
        LoadedResult(
            Result(
                "cars", name, "", "zeroshot_classification", "en",
                {"ece": Metric(value, low, high, primary=True, lower_is_better=True)},
            )
        )
        for name, (value, low, high) in ends.items()
    ]  # fmt: skip
    overview = make_payload(found).overview
    names = [model["name"] for model in overview["models"]]

    (marks,) = overview["benchmarks"][0]["marks"]

    assert [names[m] for m in marks["best"]] == ["low"]
    assert [names[m] for m in marks["tied"]] == ["near"]
    assert marks["how"] == "overlap"


def test_what_is_of_other_data_is_not_tied_with_the_best(exam_data, tmp_path):
    sit(exam_data, tmp_path / "whole.json", "whole", range(2))
    sit(exam_data, tmp_path / "part.json", "part", limit=50)

    (found,) = make_payload(load_results([tmp_path]).found).overview["benchmarks"]

    assert [marks["tied"] for marks in found["marks"]] == [[], []]


def test_what_is_over_fewer_samples_than_listed_says_so(payload):
    overview = payload.overview
    fewer = {overview["benchmarks"][row[1]]["dataset"]: row[6] for row in overview["results"]}

    assert fewer["harbour"] == ["1 failed"]
    assert fewer["digits"] == []


def test_queries_that_were_left_out_are_counted_as_well(exam_data, tmp_path):
    result = sit(exam_data, tmp_path / "r.json", "model")
    counts = {"listed": 102, "scored": 100, "failed": 0, "left_out": 2}
    write_result(replace(result, counts=counts), list(result.iter_records()), tmp_path / "r.json")

    assert make_payload(load_results([tmp_path / "r.json"]).found).overview["results"][0][6] == ["2 left out"]


def test_the_best_that_can_be_reached_is_told_where_a_result_tells_it(exam_data, tmp_path):
    result = sit(exam_data, tmp_path / "r.json", "model")
    values = {name: replace(metric, best=0.97) for name, metric in result.values.items()}
    write_result(replace(result, values=values), list(result.iter_records()), tmp_path / "r.json")

    (found,) = make_payload(load_results([tmp_path / "r.json"]).found).overview["benchmarks"]

    assert found["reachable"] == [0.97] * len(values)


def test_damaged_records_are_named_and_the_numbers_stand(exam_data, tmp_path):
    result = sit(exam_data, tmp_path / "r.json", "model")
    write_result(result, [{"id": "a", "rank": 1}], tmp_path / "r.json")
    found = load_results([tmp_path / "r.json"]).found

    overview = make_payload(found).overview

    assert "a record is damaged" in overview["notices"][0]
    assert overview["results"][0][2] == [1.0, 1.0]


def test_too_many_samples_are_cut_to_the_most_missed_and_the_figures_are_of_all(suite):
    found = load_results(sorted(suite.glob("digits_*_zeroshot_classification.json"))).found

    chunk = chunks_of(make_payload(found, limits=Limits(samples=10)))[0]

    assert chunk["samples"]["total"] == 84
    assert len(chunk["samples"]["ids"]) == 10
    assert all(ranks != (1,) * 6 for ranks in zip(*chunk["samples"]["rank"].values(), strict=True))
    assert {sum(counts) for counts in chunk["class_counts"].values()} == {84}


def test_where_there_is_little_room_the_most_confident_mistakes_stay_and_have_their_images(suite):
    (one,) = load_results([suite / "digits_Landolt-B_en_zeroshot_classification.json"]).found
    records = [record for record in one.result.iter_records() if record["rank"] > 1]
    worst = sorted(records, key=lambda record: record["label_score"] - record["scores"][0])[:3]

    samples = chunks_of(make_payload([one], limits=Limits(samples=3, images=2)))[0]["samples"]

    assert sorted(samples["ids"]) == sorted(record["id"] for record in worst)
    assert {samples["ids"][int(number)] for number in samples["thumbnails"]} == {record["id"] for record in worst[:2]}


def test_the_counts_of_a_class_are_those_of_the_model(exam_data, tmp_path):
    sit(exam_data, tmp_path / "whole.json", "whole")
    sit(exam_data, tmp_path / "blind.json", "blind", blind=[1, 3], on_error="skip")

    payload = make_payload(load_results([tmp_path]).found)

    names = [model["name"] for model in payload.overview["models"]]
    counts = {names[int(m)]: own for m, own in chunks_of(payload)[0]["class_counts"].items()}
    assert counts == {"whole": [50, 50], "blind": [50, 48]}


def test_more_notes_than_are_shown_are_counted(exam_data, tmp_path):
    sit(exam_data, tmp_path / "r.json", "model")
    for number in range(25):
        (tmp_path / f"copy{number}.json").write_bytes((tmp_path / "r.json").read_bytes())

    notices = make_payload(load_results([tmp_path]).found).overview["notices"]

    assert (len(notices), notices[-1]) == (21, "... and 5 more.")


def test_thumbnails_stop_at_the_limit_for_the_page_and_none_means_none(payload, small_suite):
    def size(payload):
        listed = [chunk.get("samples", {}) for chunk in chunks_of(payload)]
        return sum(len(text) for part in listed for text in part.get("thumbnails", {}).values())

    found = load_results([small_suite]).found
    cut = make_payload(found, limits=Limits(image_bytes=3000))

    assert 0 < size(cut) <= 3000 < size(payload)
    assert size(make_payload(found, limits=Limits(images=0))) == 0


def test_published_numbers_beside_do_not_hide_samples_and_marks(suite):
    """A published model leads the column, and has no records: one's own are still compared with each other."""
    found = [
        replace(
            item, result=replace(item.result, dataset="cifar100", data={**item.result.data, "benchmark": "cifar100"})
        )
        for item in load_results([suite]).found
        if item.result.dataset.endswith("digits") and item.result.task == "zeroshot_classification"
    ]
    alone, beside = make_payload(found), make_payload(found, references=["open_clip"])

    names = [model["label"] for model in alone.overview["models"]]
    assert [model["label"] for model in beside.overview["models"]][: len(names)] == names
    assert len(beside.overview["models"]) == len(names) + 121
    assert alone.pairs == beside.pairs != []
    assert chunks_of(alone)[0]["samples"] == chunks_of(beside)[0]["samples"] != {}
    (first,), (second,) = alone.overview["benchmarks"], beside.overview["benchmarks"]
    assert first["marks"] == second["marks"]


def test_the_names_of_plain_numbers_say_how_they_are_shown(small_suite, tmp_path):
    """Files of other tools hold nothing else."""
    source = small_suite / "digits_Snellen-B_en_zeroshot_classification.json"
    body = json.loads(source.read_text())
    keys = ("dataset", "model", "pretrained", "task", "language", "metrics")
    (tmp_path / source.name).write_text(json.dumps({key: body[key] for key in keys}))

    (plain,) = make_payload(load_results([tmp_path / source.name]).found).overview["benchmarks"]
    (ours,) = make_payload(load_results([source]).found).overview["benchmarks"]

    shown = ("metrics", "short", "primary", "lower", "percent", "kind")
    assert [plain[key] for key in shown] == [ours[key] for key in shown]
