"""What zero-shot classification tells besides its metrics: prompts, calibration, duplicate classes, F1."""

import dataclasses

import numpy as np
import pytest

from eyechart.errors import UsageError
from eyechart.metrics.classification import f1_macro, first_choices, predicted_classes, rank_labels, rank_scores
from eyechart.metrics.vectors import unit
from support.data import write_classification, write_multilabel
from support.encoders import constant_encoder, random_encoder
from support.tasks import make_context, run_task, values

TEMPLATES = ("a photo of a {c}.", "a drawing of a {c}.", "{c}")


def classify(root, tmp_path, encoder=None, **options):
    return run_task("zeroshot_classification", make_context(root, encoder or random_encoder(), tmp_path), **options)


def with_scale(scale, bias=None):
    encoder = random_encoder()
    encoder.card = dataclasses.replace(encoder.card, logit_scale=scale, logit_bias=bias)
    return encoder


def test_every_sample_that_ties_is_counted(tmp_path):
    outcome = classify(write_classification(tmp_path / "data", n=12), tmp_path, constant_encoder())

    notices = {notice.kind: (notice.count, str(notice.message)) for notice in outcome.notices}
    assert notices["ties"] == (12, "12 samples tie with another class; ties count as wrong.")


class TestPromptSensitivity:
    def test_each_template_has_the_accuracy_that_it_has_alone(self, tmp_path):
        root = write_classification(tmp_path / "all", n=60, templates=TEMPLATES)

        study = classify(root, tmp_path).details["prompt_sensitivity"]

        for i, template in enumerate(TEMPLATES):
            alone = classify(write_classification(tmp_path / str(i), n=60, templates=(template,)), tmp_path)
            assert study["acc1"][i] == values(alone)["acc1"]
        assert study["templates"] == list(TEMPLATES)

    def test_the_ensemble_is_acc1_and_its_gain_is_over_the_mean(self, tmp_path):
        outcome = classify(write_classification(tmp_path / "data", n=60, templates=TEMPLATES), tmp_path)

        study = outcome.details["prompt_sensitivity"]
        assert study["ensemble"] == values(outcome)["acc1"]
        assert study["gain"] == pytest.approx(study["ensemble"] - np.mean(study["acc1"]))
        assert (study["min"], study["max"]) == (min(study["acc1"]), max(study["acc1"]))

    def test_nothing_is_encoded_for_it(self, tmp_path):
        encoder = random_encoder()

        classify(write_classification(tmp_path / "data", n=12, templates=TEMPLATES), tmp_path, encoder)

        assert encoder.encoded_images == 12
        assert len(encoder.encoded_texts) == 3 * len(TEMPLATES)

    @pytest.mark.parametrize(("templates", "options"), [(TEMPLATES[:1], {}), (TEMPLATES, {"prompt_sensitivity": "no"})])
    def test_one_template_or_no_wish_means_no_study(self, tmp_path, templates, options):
        root = write_classification(tmp_path / "data", templates=templates)

        assert "prompt_sensitivity" not in classify(root, tmp_path, **options).details

    def test_auto_leaves_large_studies_out(self, tmp_path, monkeypatch):
        monkeypatch.setattr("eyechart.tasks.zeroshot_classification.AUTO_SCORES", 12 * 3 * 3 - 1)
        root = write_classification(tmp_path / "data", n=12, templates=TEMPLATES)

        assert "prompt_sensitivity" not in classify(root, tmp_path).details
        assert "prompt_sensitivity" in classify(root, tmp_path, prompt_sensitivity="yes").details

    def test_another_wish_is_refused(self, tmp_path):
        with pytest.raises(UsageError, match="prompt-sensitivity: Input should be 'auto', 'yes' or 'no'"):
            classify(write_classification(tmp_path / "data"), tmp_path, prompt_sensitivity="maybe")


class TestCalibration:
    def test_a_model_without_a_scale_says_nothing_of_probabilities(self, tmp_path):
        assert "calibration" not in classify(write_classification(tmp_path / "data"), tmp_path).details

    def test_the_scale_is_the_models_own(self, tmp_path):
        root = write_classification(tmp_path / "data", n=30)

        mild, sharp = (classify(root, tmp_path, with_scale(s)).details["calibration"] for s in (1.0, 100.0))

        assert (mild["form"], mild["scale"]) == ("softmax", 1.0)
        assert mild["bins"][0]["confidence"] < 0.6 < sharp["bins"][-1]["confidence"]
        assert sharp["nll"] > mild["nll"]

    def test_a_bias_means_a_sigmoid(self, tmp_path):
        found = classify(write_classification(tmp_path / "data"), tmp_path, with_scale(10.0, -5.0)).details[
            "calibration"
        ]

        assert (found["form"], found["bias"]) == ("sigmoid", -5.0)

    def test_full_metrics_hold_it_and_lower_is_better(self, tmp_path):
        outcome = classify(write_classification(tmp_path / "data"), tmp_path, with_scale(10.0), metrics="full")

        for name in ("ece", "nll", "brier"):
            assert outcome.metrics[name].value == outcome.details["calibration"][name]
            assert outcome.metrics[name].lower_is_better


class TestDuplicateClasses:
    NAMES = ("crane", "dog", "crane")

    def test_merged_classes_are_one(self, tmp_path):
        root = write_classification(tmp_path / "data", n=30, classes=self.NAMES)

        outcome = classify(root, tmp_path, merge_duplicate_classes=True)

        assert outcome.details["classnames"] == ["crane", "dog"]
        assert {record["label"] for record in outcome.records} == {0, 1}
        assert outcome.metrics["acc1"].chance == 0.5
        assert [notice.kind for notice in outcome.notices] == ["no_acc5"]

    def test_images_of_the_second_class_can_be_right_then(self, tmp_path):
        root = write_classification(tmp_path / "data", n=30, classes=self.NAMES)

        apart, merged = (classify(root, tmp_path, merge_duplicate_classes=choice) for choice in (False, True))

        cranes = [record["prediction"] == 0 for record in apart.records[2::3]]
        assert [record["correct"] for record in merged.records[2::3]] == cranes
        assert not any(record["correct"] for record in apart.records[2::3])

    def test_several_labels_are_merged_too(self, tmp_path):
        root = write_multilabel(tmp_path / "data", labels=[[1, 0, 1], [0, 1, 0], [0, 0, 1]], classes=self.NAMES)

        outcome = classify(root, tmp_path, merge_duplicate_classes=True)

        assert [record["labels"] for record in outcome.records] == [[0], [1], [0]]


def test_no_class_finds_an_image_whose_vector_is_zero_before_another(tmp_path):
    from eyechart.manifest import Entry
    from eyechart.tasks.zeroshot_classification import ClassificationPrediction, ZeroshotClassification
    from eyechart.types import DatasetInfo

    # The zero image has the label; the other two point away from it, and would stand behind a cosine of 0.
    images = np.array([[0, 0], [-1, 0], [-0.6, 0.8]], np.float32)
    entries = tuple(Entry(str(i), None, (0,) if i == 0 else (), (), {}) for i in range(3))
    prediction = ClassificationPrediction(
        DatasetInfo("x", "multilabel", classnames=("a",)), entries, (), images, np.array([[1, 0]], np.float32), ()
    )

    outcome = ZeroshotClassification().score(prediction, ZeroshotClassification.Settings())

    assert outcome.metrics["mean_average_precision"].value == pytest.approx(1 / 3)


class TestF1:
    def test_it_is_scikit_learns_over_the_classes_in_the_labels(self):
        from sklearn.metrics import f1_score

        rng = np.random.default_rng(0)
        for _ in range(30):
            labels, predictions = rng.integers(0, 5, 20), rng.integers(0, 8, 20)
            theirs = f1_score(labels, predictions, average="macro", labels=np.unique(labels))
            assert f1_macro(predictions, labels) == pytest.approx(theirs)

    def test_a_tie_is_not_a_prediction(self):
        labels = np.array([0, 1, 2])
        ranking = rank_scores(np.ones((3, 3), np.float32), labels)

        assert f1_macro(predicted_classes(ranking, labels), labels) == 0

    def test_datacomps_name_is_given_when_the_catalogue_asks(self, tmp_path):
        root = write_classification(tmp_path / "data", n=30)

        outcome = values(classify(root, tmp_path, main_metric="F1-macro_all", metrics="full"))

        assert outcome["F1-macro_all"] == outcome["f1_macro"]


def test_first_choices_are_the_ranks_of_one():
    rng = np.random.default_rng(0)
    for _ in range(20):
        images, classes = (unit(rng.integers(-1, 2, (rows, 3)).astype(np.float32)) for rows in (30, 8))
        labels = rng.integers(0, 8, 30)
        np.testing.assert_array_equal(
            first_choices(images, classes, labels), rank_labels(images, classes, labels).ranks == 1
        )
