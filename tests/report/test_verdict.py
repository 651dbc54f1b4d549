"""The verdict says in plain words what the numbers can carry: who is ahead, where, and what is chance."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from eyechart.io.terminal import text_width
from eyechart.report.compare_text import verdict_text
from eyechart.report.loader import PUBLISHED, LoadedResult, load_results
from eyechart.report.page.payload import make_payload
from eyechart.report.paired_records import RecordsCache
from eyechart.report.result_table import make_table
from eyechart.report.table_formats import matrix
from eyechart.report.verdict import make_verdict
from eyechart.results import Result
from eyechart.results.result import write_result
from eyechart.stats import mean_interval, paired_suite_test
from eyechart.types import MeanOf, Metric
from support.make_results import sit


def judged(*arguments, metric=None):
    table = make_table(load_results(list(arguments)).found)
    return table, make_verdict(RecordsCache(table), metric)


def made(model, dataset="photos", value=0.5, low=None, high=None, origin="eyechart", **known):
    metric = Metric(value, low, high, primary=True, **known)
    return LoadedResult(Result(dataset, model, "", "zeroshot_classification", "en", {"acc1": metric}), origin)


def said(*found):
    table = make_table(list(found))
    return list(map(str, make_verdict(RecordsCache(table)).sentences))


@pytest.fixture
def taken(tmp_path):
    """Write results of given scores, {(model, dataset): scores}, with records, and judge them."""

    def judge(scores, names="s{}", **known):
        for (model, dataset), values in scores.items():
            low, high = mean_interval(values) or (None, None)
            mean_of = MeanOf("score")
            metric = Metric(float(np.mean(values)), low, high, primary=True, mean_of=mean_of, **known)
            result = Result(dataset, model, "", "zeroshot_classification", "en", {"acc1": metric})
            records = [{"id": names.format(i, model=model), "score": float(x)} for i, x in enumerate(values)]
            write_result(result, records, tmp_path / "taken" / f"{model}_{dataset}.json")
        return judged(tmp_path / "taken")

    return judge


@pytest.fixture
def two(exam_data, tmp_path):
    def sit_both(strong, weak):
        sit(exam_data, tmp_path / "r" / "strong.json", "strong", strong)
        sit(exam_data, tmp_path / "r" / "weak.json", "weak", weak)
        return judged(tmp_path / "r")

    return sit_both


def test_two_models_that_nobody_can_tell_apart(two):
    _, verdict = two(range(10), range(5, 20))

    (sentence,) = verdict.sentences
    assert re.fullmatch(
        r"strong is ahead of weak by 5\.0 points on exam \(95 %: \u2212\d+\.\d to \d+\.\d\): not separable; "
        r"about \d+ more images would decide\.",
        sentence,
    )
    assert [verdict.cells[m, 0].mark for m in range(2)] == ["best", "tied"]
    assert verdict.cells[1, 0].difference == pytest.approx(-0.05)


def test_two_models_far_apart(two):
    _, verdict = two((), range(40))

    (sentence,) = verdict.sentences
    assert re.fullmatch(
        r"strong is ahead of weak by 40\.0 points on exam \(95 %: \d.* to \d.*\): separable\.", sentence
    )
    assert verdict.cells[1, 0].mark == "behind"


def test_two_models_that_make_the_same_mistakes(two):
    _, verdict = two(range(10), range(10))

    assert re.fullmatch(
        r"strong and weak are equal on exam \(95 %: \u2212.* to .*\): not separable\.", verdict.sentences[0]
    )


def test_models_that_guess_get_no_winner(two):
    """Of 100 images one model gets 44 right and the other 50, others."""
    _, verdict = two(range(44, 100), range(50))

    assert verdict.sentences == ("No model is above chance on exam.",)
    assert {cell.mark for cell in verdict.cells.values()} == {"tied"}
    assert {cell.above_chance for cell in verdict.cells.values()} == {False}


def test_one_model_hears_only_about_chance(exam_data, tmp_path):
    sit(exam_data, tmp_path / "good" / "a.json", "a")
    sit(exam_data, tmp_path / "bad" / "a.json", "a", range(50))

    assert judged(tmp_path / "good")[1].sentences == ()
    assert judged(tmp_path / "bad")[1].sentences == ("a is not above chance on exam.",)


def test_of_many_models_the_best_or_those_not_separable_from_it(exam_data, tmp_path):
    for name, misses in {"a": range(2), "b": range(1, 4), "c": range(70, 75), "d": range(30), "e": range(60)}.items():
        sit(exam_data, tmp_path / f"{name}.json", name, misses)
    _, verdict = judged(tmp_path)

    first, chance = verdict.sentences
    assert re.fullmatch(
        r"a is first of 5 models on exam, but not separable from b and c; about [\d,]+ more .*\.", first
    )
    assert chance == "e is not above chance on exam."

    far = judged(*(tmp_path / f"{name}.json" for name in "ade"))[1].sentences[0]
    assert re.fullmatch(r"a is the best of 3 models on exam: 28\.0 points ahead of d \(95 %: .* to .*\)\.", far)


def test_the_average_of_two_models_counts_the_columns(small_suite):
    _, verdict = judged(small_suite)

    sentence = verdict.sentences[0]
    assert re.search(r"on average over \d+ of \d+ benchmarks \(95 %: .*\): .*separable.* of 11 columns", sentence)
    for average in verdict.averages.values():
        assert 0 <= average.low < average.value < average.high <= 1


def test_languages_of_one_dataset_share_their_images(small_suite, tmp_path):
    """The same numbers twice are not twice the evidence."""
    files = sorted(small_suite.glob("stamps_*_en_*"))
    once = judged(*(file for file in files if file.suffix == ".json"))[1]
    again = [
        replace(item.result, language="de") for item in load_results([f for f in files if f.suffix == ".json"]).found
    ]
    table = make_table(
        [LoadedResult(r) for r in again] + list(load_results([f for f in files if f.suffix == ".json"]).found)
    )
    twice = make_verdict(RecordsCache(table))

    assert twice.ranking.lead.p_value == pytest.approx(once.ranking.lead.p_value)
    for model, average in once.averages.items():
        assert (twice.averages[model].low, twice.averages[model].high) == pytest.approx((average.low, average.high))


def test_without_records_intervals_are_compared_and_published_rows_are_no_contestants():
    far = [made("a", value=0.9, low=0.85, high=0.95, chance=0.1), made("b", value=0.5, low=0.4, high=0.6, chance=0.1)]
    assert said(*far) == ["a is the best of 2 models on photos."]
    assert said(*far, made("paper", value=0.99, origin=PUBLISHED)) == ["a is the best of 2 models on photos."]
    assert said(made("a", value=0.9), made("b", value=0.5))[0].startswith("No difference can be tested")


def test_lower_is_better_and_other_scales():
    low = {"lower_is_better": True, "points": True}
    loss = [made("a", value=1.2, low=1.1, high=1.3, **low), made("b", value=2.5, low=2.4, high=2.6, **low)]
    table = make_table(loss)
    verdict = make_verdict(RecordsCache(table))

    assert verdict.cells[1, 0].difference == pytest.approx(-1.3)
    assert said(*loss) == ["a is the best of 2 models on photos."]


def test_two_hundred_models_take_a_few_sentences():
    many = [made(f"m{i:03d}", value=0.1 + i / 1e4, low=0.05, high=0.2, chance=0.1) for i in range(200)]

    (chance,) = said(*many)
    assert chance == "No model is above chance on photos."
    mixed = said(*many, made("good", value=0.9, low=0.8, high=0.95, chance=0.1))
    assert mixed[0] == "good is the best of 201 models on photos."
    assert mixed[1] == "m000, m001, m002 and 197 more are not above chance on photos."


def test_groups_at_chance_beyond_the_three_largest_are_counted_in_columns():
    weak = {"e": ["n"], "d": ["o"], "c": ["p"], "b": ["q"], "a": ["y", "z"]}
    sets = [name for names in weak.values() for name in names]
    values = {True: {"value": 0.1, "low": 0.05, "high": 0.2}, False: {"value": 0.9, "low": 0.8, "high": 0.95}}
    found = said(*(made(m, name, chance=0.1, **values[name in names]) for m, names in weak.items() for name in sets))

    assert "a is not above chance on y and z." in found
    assert found[-1] == "On 2 more columns some models are not above chance."


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_matrix_fits_the_terminal_and_shows_every_number(suite, width):
    table, verdict = judged(suite)

    text = verdict_text(table, verdict, width)

    assert max(map(text_width, text.splitlines())) <= width
    for (model, column), cell in verdict.cells.items():
        scale = 100 if table.in_per_cent(verdict.columns[column]) else 1
        assert f"{scale * cell.value:.2f}" in text, (model, column)
    assert "● best ○ not separable from the best" in " ".join(text.split())
    assert str(verdict.sentences[0]).split()[-1] in text


def test_negative_values_have_a_real_minus():
    table = make_table([made("a", value=-0.25, points=True), made("b", value=0.5, points=True)])

    assert "\u22120.2500" in verdict_text(table, make_verdict(RecordsCache(table)))


def test_names_from_outside_cannot_control_the_terminal():
    found = [made("evil\x1b[2J", value=0.9, low=0.8, high=0.95), made("b\u202e", value=0.2, low=0.1, high=0.3)]
    table = make_table(found)

    text = verdict_text(table, make_verdict(RecordsCache(table)), 60)

    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_matrix_of_many_models_is_cut_with_a_note():
    found = [made(f"m{i}", f"d{j}", value=(i + 1) / 40) for i in range(30) for j in range(30)]
    table = make_table(found)

    text = verdict_text(table, make_verdict(RecordsCache(table)), 100)

    assert "10 more models: " in text
    assert "6 more columns: " in text
    assert "m29" in text


def test_the_lead_is_that_of_the_suites_paired_test(small_suite):
    """Fractions only: the interval and the ranks come from one test."""
    _, verdict = judged(small_suite)
    lead, (first, second) = verdict.ranking.lead, verdict.ranking.ranks

    assert (first == (1, 1)) == (lead.p_value < 0.05) == (second == (2, 2))
    assert (lead.interval.low > 0) == (lead.p_value < 0.05)
    assert paired_suite_test([[[1] * 30, [0] * 30]]).difference == 1


def test_of_many_equal_models_none_is_behind_and_of_many_that_guess_none_is_above_chance(taken):
    """In at most one of 20 tables; the best and the worst of ten are the largest of 45 differences."""
    rng = np.random.default_rng(0)
    behind = above = unlike = 0
    for _ in range(60):
        scores = {(f"m{m}", "d"): rng.random(100) < 0.5 for m in range(10)}
        _, verdict = taken(scores, chance=0.5)
        behind += any(cell.mark == "behind" for cell in verdict.cells.values())
        above += any(cell.above_chance for cell in verdict.cells.values())
        firsts = {m for m, ranks in zip(verdict.ranking.models, verdict.ranking.ranks, strict=True) if ranks[0] == 1}
        unlike += firsts != {m for (m, _), cell in verdict.cells.items() if cell.mark != "behind"}
    assert behind <= 5
    assert above <= 5
    assert unlike <= 1


def test_the_best_is_not_called_the_best_of_models_it_was_not_tested_against(taken, tmp_path):
    """The third has other samples: nothing is known about its distance."""
    scores = {("a", "d"): [1] * 90 + [0] * 10, ("b", "d"): [1] * 30 + [0] * 70}
    taken(scores)
    table, verdict = taken({("c", "d"): [1] * 88 + [0] * 12}, names="{model}{}")

    assert verdict.sentences == (
        "a is the best of 2 models on d.",
        "Not ranked, without records of the same samples: c.",
    )
    assert not matrix(table, verdict.columns, verdict=verdict).best
    (benchmark,) = make_payload(load_results([tmp_path / "taken"]).found).overview["benchmarks"]
    assert [(marks["best"], marks["ahead"]) for marks in benchmark["marks"]] == [([0], False)]
    (tmp_path / "taken" / "c_d.json").unlink()
    table, verdict = judged(tmp_path / "taken")
    assert matrix(table, verdict.columns, verdict=verdict).best == {(0, 1), (0, 2)}


def test_the_average_is_bold_only_if_the_ranks_are_those_of_the_average(taken, tmp_path):
    """On d2, without records, the other is far ahead: so it is on average."""
    taken({("a", "d1"): [1] * 90 + [0] * 10, ("b", "d1"): [1] * 60 + [0] * 40})
    rest = [made("a", "d2", value=0.1), made("b", "d2", value=0.9)]
    table = make_table([*load_results([tmp_path / "taken"]).found, *rest])
    verdict = make_verdict(RecordsCache(table))

    assert verdict.averages[1].value > verdict.averages[0].value
    assert matrix(table, verdict.columns, verdict=verdict).best == {(0, 1)}


def test_the_matrix_of_errors_has_the_fewest_first(taken):
    errors = {"bad": 50, "good": 20, "mid": 30}
    scores = {(m, d): [1] * k + [0] * (100 - k) for m, k in errors.items() for d in ("d1", "d2")}
    text = verdict_text(*taken(scores, lower_is_better=True))

    assert re.findall(r"^(bad|good|mid) ", text, re.MULTILINE)[:3] == ["good", "mid", "bad"]


def test_columns_won_by_the_second_are_counted(taken):
    wins = {("a", "d1"): 90, ("b", "d1"): 20, ("a", "d2"): 40, ("b", "d2"): 80, ("a", "d3"): 50, ("b", "d3"): 50}
    _, verdict = taken({place: [1] * k + [0] * (100 - k) for place, k in wins.items()})

    assert verdict.sentences[0].endswith("separable on 2 of 3 columns, 1 of them won by b.")


def test_a_single_column_is_not_an_average(taken):
    """Points are not averaged with fractions, so that one of three columns is ranked."""
    taken({("a", "photos"): [1] * 60 + [0] * 40, ("b", "photos"): [0, 1] * 50})
    _, verdict = taken({(m, d): [x] * 50 for m, x in (("a", 0.9), ("b", 0.4)) for d in ("d1", "d2")}, points=True)

    assert "points on photos (" in verdict.sentences[0]
    assert "not separable there, but on 2 of 3 columns; about" in verdict.sentences[0]


def test_copies_of_a_model_share_the_first_place(taken):
    _, verdict = taken({(m, "d"): [0, 1] * 40 for m in "abc"})

    assert verdict.sentences[0] == "a shares the first place of 3 models on d with b and c: not separable."


def test_with_as_many_more_images_the_first_of_many_models_is_separable(taken):
    """The number is for the test that ranks use, corrected for all pairs."""
    rng = np.random.default_rng(4)
    rates = [0.8, 0.76, *[0.74] * 6]
    drawn = {(f"m{i}", "d"): rng.permutation(np.arange(200) < round(200 * p)) for i, p in enumerate(rates)}
    _, verdict = taken(drawn)
    more = int(re.search(r"about ([\d,]+) more", verdict.sentences[0])[1].replace(",", ""))

    times = 1 + round(more / 200)
    _, verdict = taken({place: np.tile(values, times) for place, values in drawn.items()})
    assert re.match("m0 is the best of 8 models", verdict.sentences[0])
