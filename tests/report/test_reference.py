"""The published tables are rebuilt, digit by digit, from the results that ship with the package."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from eyechart.cli.result_arguments import REFERENCES
from eyechart.errors import UnknownNameError
from eyechart.report.loader import LoadedResult
from eyechart.report.reference import load_publication, names, published_tables
from eyechart.report.result_table import make_table
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
    assert names() == ["clip_benchmark", "internvl", "open_clip"]
    assert len(load_publication("internvl").found) == 54
    assert make_table(load_publication("internvl").found).replaced == ()


@pytest.mark.parametrize("title", PRINTED)
def test_the_tables_are_rebuilt_as_printed(title):
    table = make_table(load_publication("internvl").found)
    (rebuilt,) = [part for part in published_tables("internvl", table) if part.title == title]

    assert {table.models[row].name: " ".join(cells) for row, cells in rebuilt.rows} == PRINTED[title]


def test_ones_own_results_stand_beside_the_published_ones():
    own = LoadedResult(Result("imagenet1k", "mine", "", "zeroshot_classification", "zh", {"acc1": Metric(0.5)}))
    table = make_table([own, *load_publication("internvl").found])

    languages = published_tables("internvl", table)[1]

    row, cells = languages.rows[0]
    assert (table.models[row].name, cells) == ("mine", ("", "50.0", "", "", "", ""))


@pytest.mark.parametrize(
    "known",
    [
        {"values": {"acc1": Metric(50.0)}},
        {"task": "kNN"},  # a kind with more benchmarks, which stands first
    ],
)
def test_what_is_on_another_scale_or_of_another_task_stands_in_no_published_table(known):
    like = {"task": "zeroshot_classification", "language": "en", "values": {"acc1": Metric(0.5)}, **known}
    own = [LoadedResult(Result(name, "mine", "", **like)) for name in ("imagenet1k", *map(str, range(60)))]
    table = make_table([*own, *load_publication("internvl").found])

    variants = published_tables("internvl", table)[0]

    assert {table.models[row].name: cells[0] for row, cells in variants.rows} == {"InternVL-C": "83.2"}


@pytest.mark.parametrize("known", [{"job": {"limit": 100}}, {"counts": {"listed": 120}}])
def test_a_number_over_other_samples_is_marked_and_takes_no_part_in_an_average(known):
    like = {"task": "zeroshot_classification", "language": "en", "values": {"acc1": Metric(0.5)}, **known}
    names = [part["dataset"] for part in load_publication("internvl").tables[0]["columns"]]
    table = make_table(
        [*(LoadedResult(Result(name, "mine", "", **like)) for name in names), *load_publication("internvl").found]
    )

    rows = {table.models[row].name: cells for row, cells in published_tables("internvl", table)[0].rows}

    assert rows["mine"][: len(names)] == ("50.0 ≠",) * len(names)
    assert set(rows["mine"][len(names) :]) == {""}
    assert rows["InternVL-C"][0] == "83.2"


def test_an_unknown_reference_is_named():
    with pytest.raises(UnknownNameError, match="internvl"):
        load_publication("internvt")


READ_BY_HAND = [
    ("open_clip", "ViT-B-32", "openai", "imagenet1k", "acc1", 0.6332),
    ("open_clip", "ViT-H-14-378-quickgelu", "dfn5b", "vtab/caltech101", "mean_per_class_recall", 0.9517),
    ("open_clip", "ViT-H-14-378-quickgelu", "dfn5b", "flickr30k", "mean_recall@1", 0.8801),
    ("open_clip", "ViT-H-14-378-quickgelu", "dfn5b", "flickr30k", "image_retrieval_recall@1", 0.8202),
    ("open_clip", "ViT-H-14-378-quickgelu", "dfn5b", "misc/winogavil", "jaccard_score_10-12", 0.5674),
    ("open_clip", "ViT-H-14-378-quickgelu", "dfn5b", "fairness/geode", "acc_wg", 0.9349),
    ("open_clip", "ViT-SO400M-14-SigLIP-384", "webli", "mscoco_captions", "text_retrieval_recall@10", 0.9448),
    ("clip_benchmark", "ViT-L-14", "openai", "vtab/dsprites_label_orientation", "acc1", 0.0232340494791666),
    ("clip_benchmark", "ViT-B-16-plus-240", "laion400m_e32", "fer2013", "mean_per_class_recall", 0.3940612716631316),
]
"""Cells of the published files, as a person reads them there."""


@pytest.mark.parametrize("cell", READ_BY_HAND, ids=lambda cell: " ".join(map(str, cell[:4])))
def test_cells_are_those_of_the_published_files(cell):
    name, model, pretrained, dataset, metric, value = cell
    results = [item.result for item in load_publication(name).found]

    (found,) = [r for r in results if (r.model, r.pretrained, r.dataset) == (model, pretrained, dataset)]

    assert found.values[metric].value == value


def test_languages_are_columns_of_their_own():
    found = {
        (item.result.dataset, item.result.language): item.result.metrics
        for item in load_publication("open_clip").found
        if (item.result.model, item.result.pretrained) == ("nllb-clip-base-siglip", "mrl")
    }

    assert found["multilingual_mscoco_captions", "jp"]["image_retrieval_recall@1"] == 0.565
    assert len([key for key in found if key[0] == "crossmodal3600"]) == 36
    assert len(found) == 36 + 11


def test_metrics_that_are_not_the_same_thing_have_names_of_their_own():
    table = make_table([item for name in names() for item in load_publication(name).found])
    (main,) = [part for part in published_tables("open_clip", table) if part.title.startswith("38 datasets")]
    metric = dict(zip(main.header, main.metrics, strict=True))

    assert len(main.header) == 38 + 1
    assert metric["Oxford-IIIT Pet"] == "mean_per_class_recall"
    assert metric["MSCOCO"] == "mean_recall@1"
    assert metric["FMoW"] == "acc_worst_region"
    assert metric["iWildCam"] == "F1-macro_all"
    # CLIP_benchmark has recalls at 5 only: its models have no cell in the column of the mean of two recalls at 1
    flickr = [
        cells[main.header.index("Flickr")] for row, cells in main.rows if "clip_benchmark" in table.models[row].suffix
    ]
    assert flickr
    assert set(flickr) == {""}


def test_the_average_over_38_datasets_is_the_published_one():
    table = make_table(load_publication("open_clip").found)
    main = published_tables("open_clip", table)[0]
    means = {table.models[row].label: cells[-1] for row, cells in main.rows}

    assert len(means) == 121
    assert means["ViT-H-14-378-quickgelu dfn5b [published]"] == "70.79"


def test_sizes_are_known():
    (size,) = {
        (item.result.model_card["parameters"], item.result.model_card["gflops"])
        for item in load_publication("open_clip").found
        if item.result.model == "ViT-H-14-378-quickgelu"
    }

    assert size == (986_710_000, 1054.05)


def test_the_help_names_what_there_is():
    assert list(REFERENCES) == names()


def test_all_published_numbers_together_are_small():
    folder = resources.files("eyechart.report.reference")
    files = [file for file in folder.iterdir() if file.name.endswith((".json", ".xz"))]

    assert len(files) == len(names())
    assert sum(len(file.read_bytes()) for file in files) < 300_000


@pytest.mark.parametrize("name", names())
def test_source_and_date_are_told(name):
    publication = load_publication(name)

    assert publication.source
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", publication.date)


def test_published_results_meet_ours_in_one_column():
    own = [
        LoadedResult(Result(dataset, "mine", "", "zeroshot_classification", "en", {"acc1": Metric(0.5)}))
        for dataset in ("wds/vtab/cifar100", "stanford_cars", "imagenet1k")
    ]
    table = make_table([*own, *(item for name in names() for item in load_publication(name).found)])
    models = {benchmark.label: len(table.by_benchmark[b]) for b, benchmark in enumerate(table.benchmarks)}

    assert models["cifar100"] == 1 + 121 + 13 + 1  # ours, open_clip, CLIP_benchmark, InternVL-C
    assert models["cars"] == 1 + 121 + 13 + 1
    assert not any(label.startswith("vtab/cifar100") for label in models)
