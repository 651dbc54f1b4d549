"""Where a model stands among published ones: the rank, who is ranked, and where rounding and intervals cannot tell."""

from __future__ import annotations

import json

import pytest

from eyechart.cli import main
from eyechart.report.compare_text import position_text
from eyechart.report.leaderboard import leaderboard_positions
from eyechart.report.loader import PUBLISHED, LoadedResult
from eyechart.report.reference import Publication
from eyechart.report.result_table import make_table
from eyechart.results import Result, write_result
from eyechart.types import Metric

CIFAR = {"listed": 10_000, "scored": 10_000}


def result(model, dataset, values, *, parameters=None, **known):
    metrics = {
        name: value if isinstance(value, Metric) else Metric(value, primary=True) for name, value in values.items()
    }
    card = {} if parameters is None else {"parameters": parameters}
    return Result(dataset, model, "", "zeroshot_classification", "en", metrics, model_card=card, **known)


def published(*results, half_unit=0.0):
    found = tuple(LoadedResult(item, PUBLISHED, "paper") for item in results)
    return Publication("paper", "A paper", "somewhere", "2026-01-01", (), half_unit, found, ())


def standing(own, publication):
    table = make_table([*(LoadedResult(item) for item in own), *publication.found])
    (found,) = leaderboard_positions(table, [publication])
    return table, found


def place(own, publication):
    """Return rank, range and number of the models ranked, on the only benchmark."""
    ((_, rank),) = standing([own], publication)[1].ranks
    return rank.rank, (rank.low, rank.high), rank.among


PAPER = published(
    result("small", "cifar100", {"acc1": 0.50}, parameters=10e6),
    result("middle", "cifar100", {"acc1": 0.60}, parameters=100e6),
    result("large", "cifar100", {"acc1": 0.70}, parameters=900e6),
)


PAPER_OF_ONE = (result("small", "cifar100", {"acc1": 0.50}, parameters=10e6),)


def test_the_rank_is_among_models_of_at_most_the_same_size():
    assert place(result("mine", "vtab/cifar100", {"acc1": 0.55}, parameters=100e6), PAPER) == (2, (2, 2), 3)
    assert place(result("mine", "cifar100", {"acc1": 0.55}, parameters=10e6), PAPER) == (1, (1, 1), 2)
    assert place(result("mine", "cifar100", {"acc1": 0.55}, parameters=1e9), PAPER) == (3, (3, 3), 4)


def test_only_rounding_makes_a_size_the_same():
    def paper(parameters):
        return published(*PAPER_OF_ONE, result("near", "cifar100", {"acc1": 0.9}, parameters=parameters))

    mine = result("mine", "cifar100", {"acc1": 0.55}, parameters=149_620_737)
    assert place(mine, paper(149_620_000))[0] == 2
    assert place(mine, paper(149_690_000))[0] == 1  # a published size, 0.05 % more
    assert place(result("mine", "cifar100", {"acc1": 0.55}, parameters=151_277_313), paper(151_280_000))[0] == 2


def test_any_result_tells_the_size():
    own = [
        result("mine", "cifar100", {"acc1": 0.55}, parameters=10e6),
        Result("other", "mine", "", "zeroshot_classification", "en", {"acc1": Metric(0.5)}, model_card={"family": "x"}),
    ]

    assert standing(own, PAPER)[1].parameters == 10e6


def test_a_folder_with_the_name_of_a_publication_is_not_published():
    own = [
        LoadedResult(result(name, "cifar100", {"acc1": value}), argument="paper")
        for name, value in {"a": 0.9, "b": 0.5}.items()
    ]
    table = make_table([*own, *PAPER.found])

    assert [part.ranks[0][1].among for part in leaderboard_positions(table, [PAPER])] == [4, 4]


def test_without_a_size_it_is_among_all():
    assert place(result("mine", "cifar100", {"acc1": 0.55}), PAPER) == (3, (3, 3), 4)


def test_published_models_of_unknown_size_are_left_out_and_counted():
    paper = published(result("a", "cifar100", {"acc1": 0.9}), result("b", "cifar100", {"acc1": 0.9}, parameters=1e6))

    _, found = standing([result("mine", "cifar100", {"acc1": 0.5}, parameters=2e6)], paper)

    assert (found.compared, found.unknown_size, found.ranks[0][1].among) == (1, 1, 2)


def test_rounding_leaves_open_who_is_better():
    paper = published(result("a", "cifar100", {"acc1": 0.5001}), half_unit=0.00005)

    assert place(result("mine", "cifar100", {"acc1": 0.50012}), paper) == (1, (1, 2), 2)
    assert place(result("mine", "cifar100", {"acc1": 0.50016}), paper) == (1, (1, 1), 2)
    assert place(result("mine", "cifar100", {"acc1": 0.50008}), paper) == (2, (1, 2), 2)
    assert place(result("mine", "cifar100", {"acc1": 0.50004}), paper) == (2, (2, 2), 2)


def test_so_does_ones_own_interval():
    wide = Metric(0.55, 0.48, 0.62, primary=True)

    assert place(result("mine", "cifar100", {"acc1": wide}), PAPER) == (3, (2, 4), 4)


def test_where_lower_is_better_the_smallest_is_first():
    def loss(value):
        return {"loss": Metric(value, lower_is_better=True, primary=True)}

    paper = published(result("a", "cifar100", loss(0.2)), result("b", "cifar100", loss(0.4)))

    assert place(result("mine", "cifar100", loss(0.3)), paper) == (2, (2, 2), 3)


def test_ones_own_weights_are_not_ranked_beside_themselves():
    _, found = standing([result("middle", "cifar100", {"acc1": 0.61}, parameters=100e6)], PAPER)
    ((_, rank),) = found.ranks

    assert (rank.rank, rank.among, rank.published) == (1, 2, 0.60)


def test_only_the_same_metric_is_compared():
    paper = published(result("a", "pets", {"mean_per_class_recall": 0.9}))

    _, found = standing([result("mine", "pets", {"acc1": 0.5})], paper)

    assert found.ranks == ()
    assert found.left_out == ("pets: no metric in common",)


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"counts": {"listed": 120}}, "120 samples are not the benchmark's"),
        ({"counts": CIFAR, "job": {"limit": 100}}, "other samples"),
    ],
)
def test_a_part_of_the_benchmark_is_not_ranked(known, why):
    paper = published(result("a", "cifar100", {"acc1": 0.9}, job={"limit": None}))

    _, found = standing([result("mine", "cifar100", {"acc1": 0.5}, **known)], paper)

    assert (found.ranks, found.left_out) == ((), (f"cifar100: {why}",))


def test_per_cent_are_not_ranked_among_fractions():
    _, found = standing([result("mine", "cifar100", {"acc1": 55.0})], PAPER)

    assert (found.ranks, found.left_out) == ((), ("cifar100: not a fraction: divide per cent by 100",))


def test_over_all_the_same_benchmarks_count_for_everybody():
    paper = published(
        result("both", "cifar100", {"acc1": 0.6}),
        result("both", "cifar10", {"acc1": 0.7}),
        result("both", "mnist", {"acc1": 0.0}),
        result("one", "cifar100", {"acc1": 0.99}),
    )
    own = [result("mine", "cifar100", {"acc1": 0.5}), result("mine", "cifar10", {"acc1": 0.9})]

    _, found = standing(own, paper)

    assert found.averaged == 2
    assert (found.overall.value, found.overall.best) == (0.7, pytest.approx(0.65))  # mnist is not ours
    assert (found.overall.rank, found.overall.among) == (1, 2)  # "one" has one of the two benchmarks


def test_the_text_names_the_range_and_fits_80_columns():
    table, found = standing([result("mine", "vtab/cifar100", {"acc1": Metric(0.55, 0.48, 0.62, primary=True)})], PAPER)

    text = position_text(table, found)

    assert "cifar100" in text
    assert "3 (2-4)  ~" in text
    assert max(map(len, text.splitlines())) <= 80


def test_compare_ranks_one_model_among_the_published_ones(tmp_path, capsys):
    own = result("mine", "vtab/cifar100", {"acc1": 0.90428}, counts=CIFAR)
    write_result(own, [], tmp_path / "own.json")

    assert main(["compare", str(tmp_path / "own.json"), "--reference", "open_clip", "clip_benchmark", "--json"]) == 0

    places = {part["reference"]: part["lines"][0] for part in json.loads(capsys.readouterr().out)["published"]}
    # The published column begins 0.9316 0.9258 0.9135 0.9123 0.9071 0.9051 0.9043 0.9008: the seventh may be the same
    assert {name: (line["benchmark"], line["metric"]) for name, line in places.items()} == {
        "open_clip": ("cifar100", "acc1"),
        "clip_benchmark": ("cifar100", "acc1"),
    }
    first = places["open_clip"]
    assert (first["rank"], first["low"], first["high"], first["among"]) == (8, 7, 8, 122)
    assert places["clip_benchmark"]["rank"] == 1


def test_models_that_cannot_be_paired_are_ranked_all_the_same(tmp_path, capsys):
    for name, dataset in {"a": "cifar100", "b": "cifar100", "c": "cifar10"}.items():
        write_result(result(name, dataset, {"acc1": 0.9}, counts=CIFAR), [], tmp_path / f"{name}.json")
    files = [str(tmp_path / f"{name}.json") for name in "abc"]

    assert main(["compare", *files, "--reference", "open_clip", "--json"]) == 0

    said = capsys.readouterr()
    assert [part["model"] for part in json.loads(said.out)["published"]] == ["a", "b", "c"]
    assert "not compared: a and b have no samples in common" in said.err
    assert main(["compare", *files]) != 0


def test_an_unknown_reference_is_named(tmp_path, capsys):
    write_result(result("mine", "cifar100", {"acc1": 0.9}), [], tmp_path / "own.json")

    assert main(["compare", str(tmp_path / "own.json"), "--reference", "openclip"]) != 0

    assert "open_clip" in capsys.readouterr().err
