"""Results of one benchmark stand in one column, whatever their tools call it; what is something else stands apart."""

from __future__ import annotations

import pytest

from eyechart.benchmarks import benchmark_name
from eyechart.cli import main
from eyechart.datasets.catalogue import load_catalogue
from eyechart.report.loader import LoadedResult, load_results
from eyechart.report.result_table import make_table
from eyechart.report.table_formats import matrix, not_comparable
from eyechart.results import Result
from eyechart.types import Metric
from support.data import write_classification

SAME = {
    "cifar100": ["cifar100", "vtab/cifar100", "vtab_cifar100", "wds/vtab/cifar100", "wds_vtab_cifar100", "CIFAR100"],
    "pets": ["pets", "oxford_pets", "vtab/pets", "wds/pets"],
    "imagenetv2": ["imagenetv2", "imagenet-v2", "wds/imagenetv2"],
    "cars": ["cars", "stanford_cars", "vtab/cars"],
    "mscoco_captions": ["mscoco_captions", "coco", "retrieval/mscoco_2014_5k_test_image_text_retrieval"],
    "caltech101": ["caltech101", "vtab/caltech101", "vtab_caltech101", "wds/vtab/caltech101", "wds/caltech101"],
    "eurosat": ["eurosat", "vtab/eurosat"],
    "vtab/svhn": ["vtab/svhn", "vtab_svhn"],
}
WHOLE_SETS = ("caltech101", "eurosat")
OTHERS = [
    ("sun397", "vtab/sun397"),
    ("imagenet1k", "imagenet-w"),
    ("imagenet1k", "imagenetv2"),
    ("imagenet-a", "imagenet-r"),
    ("voc2007", "voc2007_multilabel"),
    ("mscoco_captions", "mscoco_captions2017"),
    ("xtd10", "xtd200"),
    ("cifar10", "cifar100"),
    ("fairness/fairface", "fairness/fairface/age"),
    ("sugar_crepe/add_att", "sugar_crepe/add_obj"),
    ("caltech101", "./caltech101"),  # a folder
    ("caltech101", "folder/caltech101"),
]


def found(dataset, model="A", language="en", task="zeroshot_classification", **known):
    return LoadedResult(Result(dataset, model, "", task, language, {"acc1": Metric(0.5)}, **known))


def columns(*items):
    return sorted(benchmark.label for benchmark in make_table(items).benchmarks)


@pytest.mark.parametrize("name", SAME)
def test_all_spellings_are_one_column(name):
    spelled = [found(spelling, model=str(i)) for i, spelling in enumerate(SAME[name])]

    assert columns(*spelled) == [name]


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_what_is_not_the_same_stands_apart(one, other):
    assert benchmark_name(one) != benchmark_name(other)


def test_joined_names_are_of_the_same_size_and_classes_in_the_catalogue():
    entries = load_catalogue().entries
    for name, entry in entries.items():
        shown = benchmark_name(name)
        # Chinese entries are the Chinese part of the other one, which has its own number of images
        if shown != name and entry.languages != ("zh",):
            other = entries[shown]
            if shown in WHOLE_SETS:  # read whole by the catalogue; VTAB's entry is a part of it, without a class
                assert entry.samples < other.samples, name
            else:
                assert (entry.samples, entry.classes, entry.kind) == (other.samples, other.classes, other.kind), name


def test_every_alias_of_the_catalogue_is_a_spelling():
    for entry in load_catalogue().entries.values():
        assert {benchmark_name(alias) for alias in entry.aliases} <= {benchmark_name(entry.name)}


def test_a_name_for_one_language_is_the_same_benchmark_in_that_language_only():
    assert columns(found("flickr30k-cn", language="cn"), found("flickr30k", "B", language="zh")) == ["flickr30k (zh)"]
    assert columns(found("flickr30k-cn"), found("flickr30k", "B")) == ["flickr30k", "flickr30k-cn"]
    assert columns(found("wds/coco-cn"), found("mscoco_captions", "B")) == ["coco-cn", "mscoco_captions"]


def test_another_split_task_or_language_is_another_column():
    assert columns(
        found("cifar100", data={"split": "test"}),
        found("vtab/cifar100", data={"split": "train"}),
        found("cifar100", language="zh"),
        found("cifar100", task="linear_probe"),
    ) == ["cifar100 (train split)", "cifar100 (zh)", "cifar100 [linear_probe]", "cifar100 [zeroshot_classification]"]


def test_ones_own_data_under_a_known_name_stand_apart():
    own = {"data": {"benchmark": "", "split": "test"}, "counts": {"listed": 120}, "job": {"reader": "folder"}}

    assert columns(found("caltech101"), found("caltech101", "B", **own)) == ["caltech101", "caltech101 (120 samples)"]
    assert columns(found("vtab/pets"), found("wds/pets", "B", **own)) == ["pets", "pets (120 samples)"]


def test_so_they_do_in_every_language():
    def column(name, language, n):
        own = {"data": {"benchmark": "", "split": "test"}, "counts": {"listed": n}}
        (label,) = columns(found(name, language=language, **own))
        return label

    assert column("wds/crossmodal3600", "de", 400) == "crossmodal3600 (400 samples) (de)"
    assert column("wds/crossmodal3600", "de", 3600) == "crossmodal3600 (de)"
    assert column("wds/mscoco_captions", "zh", 1000) == "mscoco_captions (zh)"  # COCO-CN has 1000 images
    assert column("wds/mscoco_captions", "zh", 5000) == "mscoco_captions (5000 samples) (zh)"


def test_the_whole_set_and_its_test_split_meet_in_a_column_that_says_so():
    """Some tools read all of Caltech-101 under its name, and publish that; VTAB's test split is a part of it."""
    whole = found("caltech101", data={"benchmark": "caltech101", "fingerprint": "9144"}, counts={"listed": 9144})
    part = found("vtab/caltech101", "B", data={"benchmark": "vtab/caltech101", "fingerprint": "6085"})
    table = make_table([whole, part])

    assert [benchmark.label for benchmark in table.benchmarks] == ["caltech101"]
    assert any("samples" in line or "data" in line for line in not_comparable(table, table.columns()))


def test_a_copy_is_known_by_its_size():
    whole = {"data": {"benchmark": "", "split": "test"}, "job": {"reader": "wds"}}

    def column(name, n):
        (label,) = columns(found(name, counts={"listed": n}, **whole))
        return label

    assert column("wds/caltech101", 6085) == "caltech101"
    assert column("wds/caltech101", 9144) == "caltech101 (9144 samples)"  # the whole set, not its test split
    assert column("wds/vtab/resisc45", 6300) == "vtab/resisc45"  # one image less than in the other source


def test_a_run_tells_whether_the_catalogue_read_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_classification(tmp_path / "data")
    run = ["eval", "--model", "eyechart-tiny", "--dataset_root", "data", "--quiet", "--output"]

    assert main([*run, "own.json", "--dataset", "wds/caltech101"]) == 0

    (own,) = load_results(["own.json"]).found
    assert own.result.data["benchmark"] == ""
    assert columns(own, found("caltech101", "B")) == [
        "caltech101",
        f"caltech101 ({own.result.counts['listed']} samples)",
    ]


def test_the_spellings_are_told():
    table = make_table([found("vtab/pets"), found("pets", "B")])

    assert table.spellings(0) == ["pets", "vtab/pets"]
    assert "One benchmark under several names: pets: pets, vtab/pets." in matrix(table, table.columns()).note
