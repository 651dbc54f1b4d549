"""A metric says what it is: the mean of which records, how sure, whether it stands for the benchmark."""

import json
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from eyechart import evaluate
from eyechart.io.safe_parse import to_json
from eyechart.metrics.agreement import pearson, spearman
from eyechart.results import read_result
from eyechart.tasks.base import TaskContext
from eyechart.tasks.label_metrics import group_rules, score_with_groups
from eyechart.tasks.registry import load_task
from eyechart.types import Answer, DatasetInfo, RecordForm
from support.data import write_classification, write_retrieval
from support.encoders import random_encoder
from support.makers import MAKERS, OPTIONS
from support.tasks import make_context

SCORED_BY_TEXT_RETRIEVAL = {"collection"}
"""The metrics of collections are made with those of text retrieval, and tested there."""
OWN = [name for name in MAKERS if name not in SCORED_BY_TEXT_RETRIEVAL]
MEASURES = {
    "text_retrieval": "text retrieval",
    "zeroshot_classification": "classification",
    "zeroshot_retrieval": "retrieval",
    "image_caption_selection": "selection",
    "visual_sts": "similarity",
    "clustering": "clustering",
    "knn": "probe",
    "logistic_probe": "probe",
    "linear_probe": "probe",
    "captioning": "captioning",
}
FORMS = {
    "text_retrieval": "ranking",
    "zeroshot_classification": "label",
    "zeroshot_retrieval": "ranking",
    "image_caption_selection": "question",
    "visual_sts": "",
    "clustering": "question",
    "knn": "label",
    "logistic_probe": "label",
    "linear_probe": "label",
    "captioning": "",
}
NO_MEANS = {
    "f1_macro", "ece", "mean_average_precision", "nmi", "ari", "spearman", "pearson",
    "knn_f1_macro", "lp_f1_macro", "mean_recall@1", "mean_recall@5", "mean_recall@10",
    "image_retrieval_median_rank", "text_retrieval_median_rank", "Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4",
    "main_score",  # MTEB's own figure, as it rounds it
}  # fmt: skip


def with_scale():
    """Return an encoder that has a scale of its own, so that its probabilities are judged too."""
    encoder = random_encoder()
    encoder.card = replace(encoder.card, logit_scale=10.0)
    return encoder


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Run every benchmark once, records as they come back from a file."""
    known = {}

    def run(name):
        if name not in known:
            place = tmp_path_factory.mktemp("run")
            found = (
                captioned(place)
                if name == "captioning"
                else MAKERS[name].run(MAKERS[name].write(place / "data"), with_scale(), place / "store")
            )
            known[name] = replace(found, records=json.loads(to_json(list(found.records))))
        return known[name]

    return run


def captioned(place):
    truth = [[f"a {colour} {thing}", f"the {thing}"] for colour in ("red", "old", "big") for thing in ("dog", "car")]
    manifest = make_context(write_retrieval(place / "data", captions=truth), random_encoder(), place).manifest

    class Says:
        def generate(self, prompts, repeat=0):
            return ((prompt.id, Answer(f"a red {('dog', 'car', 'house')[i % 3]}")) for i, prompt in enumerate(prompts))

        def spent(self):
            return {}

    task = load_task("captioning")
    settings = task.Settings.picked({})
    return task.score(task.predict(TaskContext(manifest, Says(), None, place / "r.json"), settings), settings)


def mean_over(records, of):
    """Compute a metric from records as `MeanOf` describes it."""
    chosen = [r for r in records if all(r.get(key) == value for key, value in of.where.items()) and of.field in r]
    numbers = [
        float(r[of.field]) if of.at_most is None else float(r[of.field] is not None and r[of.field] <= of.at_most)
        for r in chosen
    ]
    if not of.balance:
        return np.mean(numbers)
    groups = {}
    for record, number in zip(chosen, numbers, strict=True):
        groups.setdefault(record[of.balance], []).append(number)
    return np.mean([np.mean(group) for group in groups.values()])


@pytest.mark.parametrize("name", [*OWN, "captioning"])
class TestEveryTask:
    def test_a_mean_is_the_mean_of_its_records(self, outcomes, name):
        found = outcomes(name)

        means = {metric: value for metric, value in found.metrics.items() if value.mean_of}
        assert set(found.metrics) - set(means) <= NO_MEANS
        for metric, value in means.items():
            assert mean_over(found.records, value.mean_of) == pytest.approx(value.value, abs=1e-9), metric

    def test_an_interval_says_what_it_covers(self, outcomes, name):
        for metric, value in outcomes(name).metrics.items():
            assert value.covers == (() if value.low is None else ("test samples",)), metric

    def test_units_of_the_interval_are_those_that_the_records_name(self, outcomes, name):
        found = outcomes(name)

        for metric, value in found.metrics.items():
            of = value.mean_of
            if of:
                chosen = [r for r in found.records if of.field in r and all(r.get(k) == v for k, v in of.where.items())]
                units = {record[of.cluster] for record in chosen} if of.cluster else chosen
                assert value.n == len(units), metric

    def test_the_interval_holds_the_value(self, outcomes, name):
        intervals = {metric: value for metric, value in outcomes(name).metrics.items() if value.low is not None}

        assert intervals or name.startswith("clustering")
        for metric, value in intervals.items():
            assert value.low <= value.value <= value.high, metric

    def test_exactly_the_right_metrics_stand_for_the_benchmark(self, outcomes, name):
        primary = {metric for metric, value in outcomes(name).metrics.items() if value.primary}

        assert primary == (MAKERS[name].primary if name in MAKERS else {"CIDEr"})

    def test_nothing_exceeds_what_can_be_reached(self, outcomes, name):
        for metric, value in outcomes(name).metrics.items():
            if value.best is not None:
                assert max(value.value, value.chance) <= value.best < 1, metric

    def test_the_task_says_what_it_measures_and_what_its_records_show(self, outcomes, name):
        task = load_task(MAKERS[name].task if name in MAKERS else name)
        kind = "multilabel" if name.startswith("several labels") else "classification"

        form = task.record_form(DatasetInfo("data", kind))

        assert task.measures == MEASURES[task.name]
        assert form == ("labels" if kind == "multilabel" else FORMS[task.name])
        assert form in get_args(RecordForm)


@pytest.mark.parametrize(("metric", "measure"), [("spearman", spearman), ("pearson", pearson)])
def test_a_correlation_is_that_of_its_records(outcomes, metric, measure):
    found = outcomes("similarity")

    value = found.metrics[metric]
    assert value.function == metric
    columns = [[record[field] for record in found.records] for field in ("score", "cosine")]
    assert measure(*columns) == pytest.approx(value.value, abs=1e-9)


def test_average_precision_names_its_function(outcomes):
    assert outcomes("several labels").metrics["mean_average_precision"].function == "mean_average_precision"


def test_lower_is_better_where_it_is(outcomes):
    lower = {
        metric
        for name in (*OWN, "captioning")
        for metric, value in outcomes(name).metrics.items()
        if value.lower_is_better
    }

    assert lower == {"ece", "nll", "brier", "image_retrieval_median_rank", "text_retrieval_median_rank"}


def test_the_worst_group_is_no_mean_over_all_records_and_stands_for_nothing(tmp_path):
    maker = MAKERS["classification"]
    context = make_context(maker.write(tmp_path / "data"), random_encoder(), tmp_path)
    manifest = context.manifest
    entries = tuple(replace(entry, meta={"site": i % 2}) for i, entry in enumerate(manifest.entries))
    task = load_task(maker.task)
    settings = task.Settings.picked({**OPTIONS, "groups": group_rules(["site"], {})})

    prediction = task.predict(replace(context, listed=replace(manifest, entries=entries)), settings)
    found = score_with_groups(task, prediction, settings).metrics

    worst = {name: metric for name, metric in found.items() if name.endswith("_worst_site")}
    assert {"acc1_worst_site", "mean_per_class_recall_worst_site"} <= set(worst)
    for metric in worst.values():
        assert (metric.primary, metric.mean_of, metric.function) == (False, None, "")
    assert found["acc1"].primary


@pytest.mark.parametrize(
    ("dataset", "primary"), [("wds/vtab/flowers", "mean_per_class_recall"), ("wds/vtab/cifar10", "acc1")]
)
def test_the_metric_that_the_catalogue_quotes_is_the_primary_one(tmp_path, dataset, primary):
    write_classification(tmp_path / "data")
    (result,) = evaluate(
        model_type="onnx",
        model=["eyechart-tiny"],
        pretrained=["eyechart-tiny"],
        dataset=[dataset],
        dataset_root=str(tmp_path / "data"),
        output=str(tmp_path / "result.json"),
    )

    assert result.primary == read_result(tmp_path / "result.json").primary == (primary,)
