"""Comparisons are paired on sample ids, corrected for many benchmarks, and refused where they would mislead."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from itertools import product

import pytest
from PIL import Image

from eyechart import evaluate, read_result
from eyechart.cli import compare as command
from eyechart.errors import UsageError
from eyechart.report.comparison import compare
from eyechart.report.loader import load_results
from eyechart.report.paired_records import ASPECTS, RecordsCache
from eyechart.report.result_table import Column, make_table
from eyechart.report.verdict import make_verdict
from eyechart.results import write_result
from eyechart.stats import holm
from support.make_results import exam, sit


def run(*arguments):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(argument) for argument in arguments]))


def table_of(folder):
    return make_table(load_results([folder]).found)


@pytest.fixture
def two(exam_data, tmp_path):
    """Let a weak and a strong model sit the exam; return the folder of their results."""

    def sit_both(weak=(), strong=(), **settings_of_strong):
        sit(exam_data, tmp_path / "weak.json", "weak", weak)
        sit(exam_data, tmp_path / "strong.json", "strong", strong, **settings_of_strong)
        return tmp_path

    return sit_both


def compare_two(folder, **options):
    """Compare the strong model with the weak one, which is the baseline."""
    table = table_of(folder)
    rows = {model.name: row for row, model in enumerate(table.models)}
    return compare(RecordsCache(table), rows["weak"], rows["strong"], **options).lines


def tied_with_best(table, column):
    """The best of a column and the models that are not separable from it."""
    verdict = make_verdict(RecordsCache(table), column.metric)
    place = verdict.columns.index(column)
    return [
        m for m in range(len(table.models)) if (cell := verdict.cells.get((m, place))) and cell.mark in ("best", "tied")
    ]


def rewrite(path, **changes):
    """Write a result again with other facts, as a run with other settings would have."""
    result = read_result(path)
    write_result(replace(result, **changes), list(result.iter_records()), path)


def test_the_difference_is_that_of_the_samples_on_which_the_models_differ(two):
    (line,) = compare_two(two(weak=range(40), strong=range(30, 45)))

    assert (line.paired.only_first, line.paired.only_second) == (5, 30)
    assert line.paired.difference == pytest.approx(0.25)
    assert line.paired.low < 0.25 < line.paired.high
    assert line.verdict == "better"


@pytest.mark.parametrize("missed", [0, 2, 5, 8, 12, 30])
def test_the_interval_and_the_p_value_agree(two, missed):
    (line,) = compare_two(two(weak=range(missed), strong=[99]))

    assert (line.paired.p_value < 0.05) == (line.paired.low > 0 or line.paired.high < 0)


def test_samples_are_paired_by_id_not_by_position(two, tmp_path):
    two(weak=range(30), strong=range(30))
    path = tmp_path / "strong.json"
    result = read_result(path)
    write_result(result, list(result.iter_records())[::-1], path)

    (line,) = compare_two(tmp_path)

    assert (line.paired.only_first, line.paired.only_second, line.paired.difference) == (0, 0, 0)
    assert line.verdict == "not separable"


def test_samples_that_one_model_could_not_see_are_left_out_and_counted(exam_data, tmp_path, capsys):
    sit(exam_data, tmp_path / "weak.json", "weak", range(9))
    sit(exam_data, tmp_path / "strong.json", "strong", blind=[1, 2, 3], on_error="skip")

    (line,) = compare_two(tmp_path)

    assert (line.paired.n, line.left_out, line.fewer) == (97, 3, ("", "3 failed"))
    assert line.first == pytest.approx(91 / 97)
    run(tmp_path / "weak.json", tmp_path / "strong.json")
    out = capsys.readouterr().out
    assert "exam, acc1: 3 samples were left out because only one of the two models has a value." in out
    assert "exam, acc1: lost samples: B 3 failed." in out


def test_captions_of_one_image_count_as_one(small_suite):
    table = table_of(small_suite)
    lines = {line.metric: line for line in compare(RecordsCache(table), 0, 1).lines}

    by_caption, by_image = lines["image_retrieval_recall@1"], lines["text_retrieval_recall@1"]
    assert (by_caption.paired.n, by_caption.paired.units) == (56, 28)
    assert (by_image.paired.n, by_image.paired.units) == (28, 28)


def test_mean_average_precision_is_compared_by_the_function_that_made_the_metric(small_suite):
    table = table_of(small_suite)
    (line,) = compare(RecordsCache(table), 0, 1, metric="mean_average_precision").lines

    written = [table.metrics_in(Column(table.benchmarks.index(line.benchmark), line.metric))[m].value for m in (0, 1)]
    assert [line.first, line.second] == pytest.approx(written, abs=1e-4)  # records hold six digits of each score
    assert line.paired.difference == pytest.approx(line.second - line.first)


def test_p_values_are_corrected_over_the_benchmarks(tmp_path):
    for name, missed in (("easy", 3), ("hard", 12), ("same", 0)):
        data = exam(tmp_path / "data" / name)
        sit(data, tmp_path / f"{name}-weak.json", "weak", range(missed))
        sit(data, tmp_path / f"{name}-strong.json", "strong")

    lines = compare_two(tmp_path)

    assert [line.p_holm for line in lines] == holm([line.paired.p_value for line in lines])
    assert {line.benchmark.dataset: line.verdict for line in lines} == {
        "easy": "not separable",
        "hard": "better",
        "same": "not separable",
    }


def test_where_lower_is_better_the_smaller_number_wins(suite):
    table = table_of(suite)
    rows = {model.name: row for row, model in enumerate(table.models)}
    weak, strong = rows["Tumbling-E"], rows["Snellen-L"]

    lines = compare(RecordsCache(table), weak, strong, metric="nll").lines

    assert len(lines) == 4
    assert all(line.paired.difference < 0 and line.verdict == "better" for line in lines)
    assert {line.verdict for line in compare(RecordsCache(table), strong, weak, metric="nll").lines} == {"worse"}
    tied = tied_with_best(table, Column(table.benchmarks.index(lines[0].benchmark), "nll"))
    assert strong in tied
    assert weak not in tied
    ranking = make_verdict(RecordsCache(table), "nll").ranking
    assert ranking.means == tuple(sorted(ranking.means))
    assert (ranking.models[-1], ranking.ranks[-1]) == (weak, (6, 6))


# ------------------------------------------------------------------------------------------------ what is refused


def test_other_data_under_the_same_name_are_refused(two, tmp_path):
    two()
    sit(exam(tmp_path / "exam", n=90), tmp_path / "strong.json", "strong")

    with pytest.raises(UsageError, match="exam: dataset"):
        compare_two(tmp_path)


def test_other_prompts_and_fewer_samples_are_refused_and_named(two, tmp_path):
    templates = tmp_path / "templates.txt"
    templates.write_text("it is {c}\n")

    with pytest.raises(UsageError, match="exam: dataset, samples, prompts"):
        compare_two(two(custom_template_file=templates, limit=50))


@pytest.mark.parametrize(
    ("job", "named"),
    [
        ({"settings": {"task_version": 2}}, "task version"),
        ({"settings": {"extractor": "strict"}}, "extractor"),
        ({"settings": {"judge": "gpt"}}, "judge"),
        ({"others": {"judge": {"name": "gpt"}}}, "judge"),
    ],
)
def test_another_version_judge_or_extractor_is_refused_and_named(two, tmp_path, job, named):
    two()
    rewrite(
        tmp_path / "weak.json",
        job={"settings": {"task_version": 1, "extractor": "vlmeval", "judge": "no"}, "others": {}},
    )
    known = read_result(tmp_path / "weak.json").job
    rewrite(tmp_path / "strong.json", job={key: known[key] | job.get(key, {}) for key in known})

    with pytest.raises(UsageError, match=f"exam: {named}\n"):
        compare_two(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"fewshot_k": 1, "seed": 1},
        {"normalize": False},
        {"val_proportion": 0.5},
        {"val_split": "val"},
        {"folds": 2},
        {},
    ],
)
def test_what_a_probe_learnt_from_must_be_the_same(tmp_path, settings):
    """Without other settings, an image more in the training split must do."""
    data = tmp_path / "data"
    for i, (split, name) in enumerate(product(("train", "val", "test"), ("red", "blue") * 3)):
        (data / split / name).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (10 * i, 0, 255 * (name == "blue"))).save(data / split / name / f"{i}.png")
    shots = {"fewshot_k": 1} if "seed" in settings else {}
    for name, chosen in (("one", shots), ("same", shots), ("other", settings)):
        if name == "other" and not settings:
            Image.new("RGB", (16, 16), "white").save(data / "train" / "red" / "new.png")
        evaluate(
            dataset=[str(data)], model_type="onnx", model=["eyechart-tiny"], task=["logistic_probe"],
            output=str(tmp_path / f"{name}.json"), seed=chosen.get("seed", 0),
            task_options={key: value for key, value in chosen.items() if key != "seed"},
        )  # fmt: skip

    assert run(tmp_path / "one.json", tmp_path / "same.json") == 0
    with pytest.raises(UsageError, match="data: training\n") as caught:
        run(tmp_path / "one.json", tmp_path / "other.json")
    assert "--allow-different training" in caught.value.advice


def test_a_classifier_that_was_loaded_stands_for_other_prompts(exam_data, tmp_path):
    sit(exam_data, tmp_path / "strong.json", "strong", save_clf=str(tmp_path / "classifier.npz"))
    sit(exam_data, tmp_path / "weak.json", "weak", range(9), load_clfs=[str(tmp_path / "classifier.npz")])

    with pytest.raises(UsageError, match="exam: prompts"):
        compare_two(tmp_path)


def test_what_only_one_result_tells_cannot_be_checked(two, tmp_path):
    two()
    result = read_result(tmp_path / "weak.json")
    rewrite(tmp_path / "weak.json", data={key: v for key, v in result.data.items() if key != "prompts_digest"})

    assert compare_two(tmp_path)


def test_prompts_may_differ_on_purpose(two, tmp_path, capsys):
    templates = tmp_path / "templates.txt"
    templates.write_text("it is {c}\n")
    folder = two(custom_template_file=templates)

    assert run(folder / "weak.json", folder / "strong.json", "--allow-different", "prompts") == 0
    assert "not separable" in capsys.readouterr().out


def test_another_dataset_cannot_be_allowed(suite):
    with pytest.raises(UsageError, match="cannot be paired"):
        run(suite, "--allow-different", "dataset")
    with pytest.raises(UsageError, match="Unknown aspect"):
        run(suite, "--allow-different", "prompt")


def test_every_aspect_can_be_named_in_the_help(capsys):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parser.print_help()

    out = " ".join(capsys.readouterr().out.split())
    assert all(aspect in out for aspect in ASPECTS if aspect not in ("dataset", "split"))


def test_results_of_different_benchmarks_are_refused(suite):
    with pytest.raises(UsageError, match="no benchmark in common: digits against garden"):
        run(
            suite / "digits_Snellen-B_en_zeroshot_classification.json",
            suite / "garden_Snellen-L_en_zeroshot_classification.json",
        )


def test_results_without_records_cannot_be_paired(tmp_path):
    for model in ("a", "b"):
        body = {"dataset": "cars", "model": model, "pretrained": "", "metrics": {"acc1": 0.5}}
        (tmp_path / f"{model}.json").write_text(json.dumps(body | {"task": "zeroshot_classification"}))

    with pytest.raises(UsageError, match="no samples in common"):
        run(tmp_path / "a.json", tmp_path / "b.json")


@pytest.mark.parametrize("name", ["empty", "r.records.jsonl"])
def test_a_first_argument_without_a_result_is_refused(suite, tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "r.records.jsonl").write_text("")

    with pytest.raises(UsageError, match=f"No baseline result in .*{name}"):
        run(tmp_path / name, suite)


def test_one_model_alone_is_refused(suite):
    with pytest.raises(UsageError, match="Only one model"):
        run(suite / "digits_Snellen-B_en_zeroshot_classification.json")


# --------------------------------------------------------------------------------------------------- the command


def test_the_same_model_from_two_folders_is_compared(exam_data, tmp_path, capsys):
    sit(exam_data, tmp_path / "before" / "result.json", "same", range(10))
    sit(exam_data, tmp_path / "after" / "result.json", "same")

    assert run(tmp_path / "before", tmp_path / "after", "--json") == 0

    (comparison,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert "before" in comparison["baseline"]
    assert comparison["lines"][0]["difference"] == pytest.approx(0.1)


def test_in_a_folder_of_several_models_the_first_is_the_baseline(exam_data, tmp_path, capsys):
    sit(exam_data, tmp_path / "results" / "a.json", "a-model", range(10))
    sit(exam_data, tmp_path / "results" / "b.json", "b-model")

    assert run(tmp_path / "results", "--json") == 0

    (comparison,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert (comparison["baseline"], comparison["lines"][0]["difference"] > 0) == ("a-model", True)


def test_the_json_goes_to_a_file_and_holds_every_number(suite, tmp_path, capsys):
    output = tmp_path / "comparison.json"

    assert run(suite, "--baseline", "Snellen-L", "--output", output) == 0

    body = json.loads(output.read_text())
    assert len(body["comparisons"]) == 5
    assert {len(comparison["lines"]) for comparison in body["comparisons"]} == {11}
    assert len(body["ranking"]["models"]) == 6
    text = capsys.readouterr().out
    assert "corrected by Holm over 55 lines of all compared models" in text
    lines = [line for comparison in body["comparisons"] for line in comparison["lines"]]
    assert [line["p_holm"] for line in lines] == holm([line["p_value"] for line in lines])
    assert "rank: simultaneous 95 % intervals over 9 benchmarks." in text
    assert body["verdict"]["sentences"][0] in text


def test_an_unknown_baseline_is_named_with_the_nearest(suite):
    with pytest.raises(UsageError, match="Snellen-L"):
        run(suite, "--baseline", "Snellen-LL")


def test_rank_intervals_part_the_weak_from_the_strong(suite):
    table = table_of(suite)

    ranking = make_verdict(RecordsCache(table)).ranking

    ranks = {table.models[m].name: rank for m, rank in zip(ranking.models, ranking.ranks, strict=True)}
    assert ranks["Tumbling-E"] == (6, 6)
    assert ranks["Snellen-L"][0] == 1


def test_ranks_are_over_numbers_of_one_scale(answers, capsys):
    """CIDEr goes up to ten: its mean with accuracies would be its own."""
    table = table_of(answers)
    assert max(table.values(table.columns("CIDEr")[0])) > 1

    ranking = make_verdict(RecordsCache(table)).ranking

    assert {table.benchmarks[b].task for b in ranking.benchmarks} == {"questions"}
    assert max(ranking.means) <= 1
    run(answers, "--metric", "CIDEr")
    best = max(table.values(table.columns("CIDEr")[0]))
    assert f"support.chart_models:SharpVLM    {best:.4f} ●" in capsys.readouterr().out


def test_a_benchmarks_best_and_those_not_separable_from_it(exam_data, tmp_path):
    for name, misses in (("best", range(10)), ("close", range(1, 12)), ("far", range(70))):
        sit(exam_data, tmp_path / f"{name}.json", name, misses)
    table = table_of(tmp_path)

    tied = tied_with_best(table, Column(0, "acc1"))

    assert [table.models[m].name for m in tied] == ["best", "close"]


def test_the_best_by_mean_average_precision_is_marked_by_the_test_that_compares(small_suite):
    table = table_of(small_suite)
    column = next(column for column in table.columns() if column.metric == "mean_average_precision")
    (line,) = compare(RecordsCache(table), 0, 1, metric=column.metric).lines

    tied = tied_with_best(table, column)

    assert (len(tied) == 2) == (line.verdict == "not separable")
    assert table.leader(column) in tied


def test_a_number_is_of_one_scale_whatever_it_is_compared_with(suite, capsys):
    """A loss of 0.3 is not 30 % beside one of 0.2 and 0.3 beside one of 2."""
    run(*sorted(suite.glob("garden_*_en_*.json")), "--metric", "nll", "--baseline", "Snellen-L")

    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("garden")]

    assert len(rows) == 5
    sides = [row[row.index("/") - 1 : row.index("/") + 2 : 2] for row in rows]
    assert {first for first, _ in sides} == {f"{loss(suite, 'Snellen-L'):.2f}"}
    assert max(float(second) for _, second in sides) > 1


def loss(suite, model):
    return read_result(suite / f"garden_{model}_en_zeroshot_classification.json").metrics["nll"]


def test_a_metric_that_nobody_has_is_refused(small_suite):
    with pytest.raises(UsageError, match="No result has the metric 'acc7'"):
        run(small_suite, "--metric", "acc7")


def test_a_metric_that_is_not_computed_sample_by_sample_is_named(suite):
    with pytest.raises(UsageError, match="in common for ece"):
        run(*sorted(suite.glob("garden_*_en_*.json")), "--metric", "ece")


def test_what_both_have_but_cannot_be_paired_is_named(small_suite, tmp_path, capsys):
    for file in [*small_suite.glob("garden_*"), *small_suite.glob("digits_*_zeroshot_*")]:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    path = tmp_path / "garden_Snellen-B_en_zeroshot_classification.json"
    body = json.loads(path.read_text())
    names = ("dataset", "model", "pretrained", "task", "metrics", "language")
    path.write_text(json.dumps({key: body[key] for key in names} | {"schema": 1}))

    run(tmp_path, "--output", tmp_path / "out")

    shown = capsys.readouterr().out
    assert "garden: both models have results, but no records of the same samples." in shown
    assert "Not in these ranks: garden." in shown
    assert json.loads((tmp_path / "out").read_text())["comparisons"][0]["unpaired"] == ["garden"]


def test_another_task_on_ranked_data_is_named_with_its_task(small_suite, tmp_path, capsys):
    for file in small_suite.glob("digits_*_zeroshot_*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    body = json.loads(next(path for path in tmp_path.glob("*.json")).read_text())
    one = {key: body[key] for key in ("dataset", "model", "pretrained", "language")}
    (tmp_path / "more.json").write_text(json.dumps(one | {"task": "clustering", "metrics": {"nmi": 0.5}, "schema": 1}))

    run(tmp_path)

    assert "Not in these ranks: digits [clustering]." in capsys.readouterr().out


def test_too_few_samples_for_an_interval_have_no_detectable_difference(tmp_path):
    for name, misses in (("weak", range(5)), ("strong", ())):
        sit(exam(tmp_path / "exam", n=5), tmp_path / "out" / f"{name}.json", name, misses)

    (line,) = compare_two(tmp_path / "out")

    assert (line.paired.low, line.paired.detectable) == (None, None)


def few_shot(folder, model, missed_by_draw):
    """Let a model sit the exam once per training draw; the records hold its rank in each."""
    path, drawn = folder / f"{model}.json", {}
    for number, missed in reversed(list(enumerate(missed_by_draw, 1))):
        sit(folder / "data", path, model, missed)
        ranks = [record["rank"] for record in read_result(path).iter_records()]
        drawn[f"rank_{number}"] = ranks
    result = read_result(path)
    fields = ("rank", *(f"rank_{number}" for number in range(2, len(missed_by_draw) + 1)))
    values = {
        name: replace(metric, mean_of=metric.mean_of and replace(metric.mean_of, draws=fields))
        for name, metric in result.values.items()
    }
    further = [{name: drawn[name][i] for name in fields[1:]} for i in range(len(ranks))]
    records = [{**record, **more} for record, more in zip(result.iter_records(), further, strict=True)]
    write_result(replace(result, values=values), records, path)


@pytest.fixture
def drawn_folder(tmp_path):
    exam(tmp_path / "data")
    return tmp_path


def results_in(folder):
    return [folder / f"{name}.json" for name in ("weak", "strong")]


def test_few_shot_results_are_compared_over_all_draws(drawn_folder, capsys):
    """The first draw alone favours the strong model; over the draws it is as often worse."""
    few_shot(drawn_folder, "weak", [range(12), range(2), range(3)])
    few_shot(drawn_folder, "strong", [(), range(9), range(6)])

    assert run(*results_in(drawn_folder), "--json") == 0

    (line,) = json.loads(capsys.readouterr().out)["comparisons"][0]["lines"]
    n = line["n"]
    assert line["draws"] == 3
    assert line["difference"] == pytest.approx((17 - 15) / 3 / n)
    assert (line["first"], line["second"]) == pytest.approx((1 - 17 / 3 / n, 1 - 15 / 3 / n))
    assert line["p_value"] > 0.5
    assert line["low"] < -12 / n
    assert line["verdict"] == "not separable"
    assert run(*results_in(drawn_folder)) == 0
    assert "means over 3 draws of training images" in capsys.readouterr().out


def test_a_few_shot_difference_in_every_draw_is_found(drawn_folder):
    few_shot(drawn_folder, "weak", [range(i, i + 15) for i in range(4)])
    few_shot(drawn_folder, "strong", [range(1)] * 4)

    (line,) = compare_two(drawn_folder)

    assert line.verdict == "better"
    table = table_of(drawn_folder)
    column = table.columns()[0]
    strong = [row for row, model in enumerate(table.models) if model.name == "strong"]
    assert tied_with_best(table, column) == strong


@pytest.mark.parametrize("draws", [1, 2])
def test_one_or_two_draws_have_no_p_value_and_the_reason_is_given(drawn_folder, draws, capsys):
    few_shot(drawn_folder, "weak", [range(20)] * draws)
    few_shot(drawn_folder, "strong", [()] * draws)

    assert run(*results_in(drawn_folder), "--json") == 0

    (line,) = json.loads(capsys.readouterr().out)["comparisons"][0]["lines"]
    assert (line["p_value"], line["p_holm"], line["low"], line["verdict"]) == (None, None, None, "not tested")
    assert run(*results_in(drawn_folder)) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"no interval and no p-value: {draws} draw{'s' if draws > 1 else ''} of training images" in text
    assert "--fewshot-repeats 3" in text
    table = table_of(drawn_folder)
    assert len(tied_with_best(table, table.columns()[0])) == 2
    assert make_verdict(RecordsCache(table)).ranking is None


def test_the_draws_that_both_have_are_compared(drawn_folder):
    few_shot(drawn_folder, "weak", [range(3), range(4), range(5), range(30), range(30)])
    few_shot(drawn_folder, "strong", [(), (), ()])

    (line,) = compare_two(drawn_folder)

    assert line.paired.draws == 3
    assert line.paired.difference == pytest.approx(4 / line.paired.n)


def test_a_folder_of_several_models_has_its_first_as_the_baseline(two, capsys):
    folder = two(weak=range(10))
    labels = [model.label for model in table_of(folder).models]

    assert run(folder, "--json") == 0

    (comparison,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert [comparison["baseline"], comparison["model"]] == labels
