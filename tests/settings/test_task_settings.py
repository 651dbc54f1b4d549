"""Tasks get typed settings; a job keeps what can change its numbers, and they come back from it."""

import pytest

from eyechart.config import make_config
from eyechart.errors import UsageError
from eyechart.plan import Planner, plan_jobs
from eyechart.settings.tasks import (
    KnnSettings,
    OpenSettings,
    ProbeSettings,
    QuestionTaskSettings,
    TextRetrievalSettings,
    ZeroshotRetrievalSettings,
)
from eyechart.tasks.registry import TASKS, load_task

OWN = """
from eyechart.tasks.base import Task, TaskSettings
from eyechart.types import Metric, Outcome
from eyechart.tasks.base import Prediction

class Typed(Task):
    name = "typed"
    kinds = frozenset({"classification"})

    class Settings(TaskSettings):
        margin: float = 0.05
        seed: int = 0

    def predict(self, context, settings):
        return Prediction(context.info, tuple(context.manifest.entries), ())

    def score(self, prediction, settings):
        return Outcome({"margin": Metric(settings.margin, primary=True)}, records=())

class Loose(Typed):
    Settings = Task.Settings

    def score(self, prediction, settings):
        return Outcome({"margin": Metric(settings.get("margin", 0.05) + settings["seed"], primary=True)}, records=())
"""
DEMO = {"dataset": ["demo/garments"], "model": ["eyechart-tiny"]}


@pytest.mark.parametrize("name", TASKS.names())
def test_settings_come_back_from_what_a_job_keeps(name):
    task = load_task(name)
    record = task.recorded(task.Settings())

    assert task.recorded(task.Settings.restored({**record, "task_version": 1})) == record


def test_what_has_no_effect_is_not_kept():
    assert "fewshot_repeats" not in ProbeSettings().recorded()
    assert ProbeSettings(fewshot_curve=[4, 2]).recorded()["fewshot_curve"] == [2, 4]
    assert ProbeSettings(folds=3).recorded()["train_split"] is None
    assert KnnSettings.restored(KnnSettings(val_split="val").recorded()).splits == ("train",)
    assert TextRetrievalSettings(top_k=3).recorded() == {}
    assert TextRetrievalSettings(top_k=3, reranker="r").recorded() == {"top_k": 3, "reranker_prompt": ""}
    assert ZeroshotRetrievalSettings(main_metric="mean_recall@1").recorded()["recall_k"] == [1, 5]
    assert "main_metric" not in ZeroshotRetrievalSettings(main_metric="acc1").recorded()


def test_judges_are_kept_by_name_and_the_blind_run_is_another_job():
    assert QuestionTaskSettings().recorded()["judge"] == "exact_matching"
    assert QuestionTaskSettings(judge=["a", "b"], blind="swapped").recorded()["judge"] == ["a", "b"]
    assert QuestionTaskSettings(blind="swapped").recorded()["blind"] == ""


class TestTasksOfUsers:
    @pytest.fixture(autouse=True)
    def own(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "own_typed_tasks.py").write_text(OWN)

    def plan(self, task, **settings):
        return plan_jobs(make_config({**DEMO, "task": [f"python:own_typed_tasks:{task}"], **settings}))

    def test_a_field_gets_the_option_or_the_flag_of_its_name(self):
        (job,) = self.plan("Typed", task_options={"margin": 0.2}, seed=4)

        assert {name: job.settings[name] for name in ("margin", "seed")} == {"margin": 0.2, "seed": 4}

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"margn": 0.2}, "Unknown task option: 'margn'"),
            ({"margin": "wide"}, "margin: Input should be a valid number"),
        ],
    )
    def test_other_options_and_types_are_refused(self, options, message):
        with pytest.raises(UsageError, match=message):
            self.plan("Typed", task_options=options)

    def test_without_a_class_all_options_are_read_like_a_dict(self):
        (job,) = self.plan("Loose", task_options={"margin": 0.2, "seed_of_mine": 1, "knn_k": 3})
        settings = load_task(job.task).settings_of(job)

        assert isinstance(settings, OpenSettings)
        assert (settings["margin"], settings.get("other", 5), "margin" in settings) == (0.2, 5, True)
        assert "knn_k" not in job.settings  # a flag of another task
        with pytest.raises(KeyError):
            settings["other"]


def test_planning_resolves_each_dataset_and_model_once(monkeypatch, tmp_path):
    import eyechart.plan
    import eyechart.plan_models

    counts = {"dataset": 0, "model": 0, "check": 0}

    def counted(kind, function):
        def call(*args, **more):
            counts[kind] += 1
            return function(*args, **more)

        return call

    monkeypatch.setattr(eyechart.plan, "resolve_dataset", counted("dataset", eyechart.plan.resolve_dataset))
    monkeypatch.setattr(eyechart.plan_models, "resolve_model", counted("model", eyechart.plan_models.resolve_model))
    tasks = ["zeroshot_classification", "clustering"]

    jobs = plan_jobs(
        make_config({**DEMO, "task": tasks, "output": f"{tmp_path}/{{task}}.json"}), str, Planner().datasets
    )

    assert len(jobs) == 2
    assert (counts["dataset"], counts["model"]) == (1, 1)
