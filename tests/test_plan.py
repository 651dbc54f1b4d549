import pytest

from eyechart.cli import make_parser
from eyechart.cli.flags.eval_flags import settings_of
from eyechart.config import make_config
from eyechart.errors import EyechartError, UsageError
from eyechart.plan import dataset_names, plan_jobs
from eyechart.settings.tasks import task_flags
from eyechart.tasks.registry import load_task
from support.data import png, write_classification, write_retrieval

TINY = {"model_type": "onnx", "model": ["eyechart-tiny"], "pretrained": ["eyechart-tiny"]}


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_classification(tmp_path / "data" / "vtab-x")
    write_retrieval(tmp_path / "data" / "captions", captions=[["a"], ["b"]])
    return tmp_path


def plan(**settings):
    return plan_jobs(make_config({**TINY, **settings}))


def test_jobs_are_models_times_datasets_times_languages(data):
    (data / "data" / "vtab-x" / "classnames.de.txt").write_text("a\nb\nc\n")
    (data / "data" / "vtab-x" / "zeroshot_classification_templates.de.txt").write_text("{c}\n")

    jobs = plan(dataset=["wds/vtab/x"], dataset_root="data/{dataset_cleaned}", language=["en", "de"])

    assert [(job.dataset.name, job.dataset.language) for job in jobs] == [("wds/vtab/x", "en"), ("wds/vtab/x", "de")]


def test_planning_twice_gives_the_same_jobs(data):
    settings = {"dataset": ["wds/vtab/x"], "dataset_root": "data/vtab-x"}

    assert plan(**settings) == plan(**settings)
    assert [job.digest for job in plan(**settings)] == [job.digest for job in plan(**settings)]


def test_auto_reads_the_type_of_the_dataset(data):
    jobs = plan(dataset=["wds/vtab-x", "wds/captions"], dataset_root="data/{dataset}")

    assert [job.task for job in jobs] == ["zeroshot_classification", "zeroshot_retrieval"]


def test_the_output_is_named_after_the_dataset_without_wds_and_without_slashes(data):
    (job,) = plan(dataset=["wds/vtab/x"], dataset_root="data/vtab-x")

    assert str(job.output) == "results/vtab_x_eyechart-tiny.json"


def test_a_checkpoint_path_becomes_its_name_or_a_flat_path(data):
    from eyechart.demo import model_folder

    folder = str(model_folder())

    (short,) = plan(dataset=["wds/x"], dataset_root="data/vtab-x", pretrained=[folder], output="{pretrained}.json")
    (full,) = plan(
        dataset=["wds/x"], dataset_root="data/vtab-x", pretrained=[folder], output="{pretrained_full_path}.json"
    )

    assert str(short.output) == "model.json"
    assert str(full.output) == folder.strip("/").replace("/", "_") + ".json"


def test_files_list_datasets_and_models_one_a_line(data):
    (data / "datasets.txt").write_text("wds/vtab-x\n# a comment\n\nwds/captions\n")
    (data / "models.txt").write_text("eyechart-tiny,eyechart-tiny\n")

    jobs = plan(dataset=["datasets.txt"], pretrained_model=["models.txt"], dataset_root="data/{dataset}")

    assert [job.dataset.name for job in jobs] == ["wds/vtab-x", "wds/captions"]
    assert {job.model.label for job in jobs} == {"eyechart-tiny"}


@pytest.mark.parametrize("name", ["list", "datasets.list", "my.datasets", "lists/all"])
def test_a_list_may_have_any_name(data, name):
    (data / name).parent.mkdir(exist_ok=True)
    (data / name).write_text("wds/vtab-x\r\nwds/captions\r\n")
    (data / f"{name}.models").write_text("eyechart-tiny,eyechart-tiny\n")

    jobs = plan(dataset=[name], pretrained_model=[f"{name}.models"], dataset_root="data/{dataset}")

    assert [job.dataset.name for job in jobs] == ["wds/vtab-x", "wds/captions"]


def test_a_file_that_is_called_like_a_dataset_is_no_list(data):
    (data / "cifar10").write_text("wds/vtab-x\n")

    assert dataset_names(make_config({"dataset": ["cifar10"]})) == ["cifar10"]


def test_a_list_that_is_no_text_is_refused(data):
    (data / "list").write_bytes(b"\xff\xfe\x00\xd8")

    with pytest.raises(UsageError, match="not UTF-16"):
        plan(dataset=["list"])


def test_a_task_may_go_by_the_name_that_internvl_s_fork_has_for_it():
    assert type(load_task("mscoco_generative")) is type(load_task("captioning"))


def test_a_path_is_recognised_by_what_it_holds(data):
    (data / "plain" / "cat").mkdir(parents=True)
    (data / "plain" / "cat" / "1.png").write_bytes(png())
    (data / "table.csv").write_text("image,label\nplain/cat/1.png,cat\n")
    (data / "custom").mkdir()
    (data / "custom" / "image_queries.jsonl").write_text('{"image_path": "plain/cat/1.png", "query": ["cat"]}\n')

    jobs = plan(dataset=["data/vtab-x", "plain", "table.csv", "custom/image_queries.jsonl"])

    assert [job.dataset.reader for job in jobs] == ["wds", "folder", "table", "jsonl"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset": ["demo/garment"]}, "Did you mean demo/garments"),
        ({"dataset": ["wds/x"], "dataset_root": "nowhere"}, "There is no dataset at nowhere"),
        ({"dataset": ["wds/x"], "dataset_root": "data/vtab-x", "split": "val"}, "no split 'val'"),
        ({"dataset": ["demo/scenes"], "model": ["eyechart-tinny"], "pretrained": [""]}, "Did you mean eyechart-tiny"),
        ({"dataset": ["demo/scenes"], "model_type": "onxx"}, "Did you mean onnx"),
        ({"dataset": ["demo/scenes"], "task": "zeroshot_retrieva"}, "Did you mean zeroshot_retrieval"),
        ({"dataset": ["demo/scenes"], "task": "zeroshot_classification"}, "is a retrieval dataset"),
        ({"dataset": ["demo/scenes"], "recall_k": [0]}, "recall-k must be 1 or more"),
        ({"dataset": ["demo/scenes"], "output": "{datset}.json"}, r"Did you mean \{dataset\}"),
        ({"dataset": ["demo/scenes", "demo/garments"], "output": "r.json"}, "Two jobs would write r.json"),
        ({"dataset": ["demo/garments"], "custom_template_file": "gone.txt"}, "no file gone.txt"),
        ({"dataset": ["demo/garments"], "load_clfs": ["gone.safetensors"]}, "The classifier file gone"),
        (
            {"dataset": ["demo/garments"], "language": ["en", "de"], "save_clf": "x.clf", "output": "{language}.json"},
            "2 jobs would write x.clf",
        ),
        ({"dataset": ["demo/garments"], "save_clf": "x.clf", "load_clfs": ["y.clf"]}, "cannot be combined"),
        ({"dataset": ["demo/scenes"], "output": "data/vtab-x/classnames.txt/r.json"}, "Cannot write results"),
        ({"pretrained_model": ["ViT-B-32"]}, "not 'model,pretrained'"),
        ({"dataset": ["demo/garments"], "language": ["fr"]}, "no class names for language 'fr'"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(data, settings, message):
    with pytest.raises(EyechartError, match=message):
        plan(**settings)


def test_a_language_that_a_dataset_lacks_is_left_out_and_told(data):
    """Webdatasets and folders as much as names of the catalogue: one pair must not refuse the whole run."""
    (data / "plain" / "cat").mkdir(parents=True)
    (data / "plain" / "cat" / "1.png").write_bytes(png())
    said = []

    jobs = plan_jobs(
        make_config({**TINY, "dataset": ["wds/vtab-x", "plain", "demo/garments"], "dataset_root": "data/{dataset}",
                     "language": ["en", "de"], "output": "{dataset}_{language}.json"}),
        said.append,
    )  # fmt: skip

    pairs = [(job.dataset.name, job.dataset.language) for job in jobs]
    assert pairs == [("wds/vtab-x", "en"), ("plain", "en"), ("demo/garments", "en"), ("demo/garments", "de")]
    assert [line.startswith("Skipped: ") and "'de'" in line for line in said] == [True, True]


def test_a_template_without_place_for_the_class_is_refused(data):
    (data / "data" / "vtab-x" / "zeroshot_classification_templates.txt").write_text("a photo\n")

    with pytest.raises(EyechartError, match=r"has no \{c\}"):
        plan(dataset=["wds/x"], dataset_root="data/vtab-x")


def test_an_unknown_setting_names_the_nearest_one():
    with pytest.raises(UsageError, match="batchsize: unknown setting; did you mean batch_size"):
        make_config({"batchsize": 3})


@pytest.mark.parametrize("settings", [{"batch_size": 0}, {"limit": 0}, {"language": []}, {"precision": "fp8"}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(UsageError):
        make_config(settings)


@pytest.mark.parametrize(("given", "used"), [([0.3], [0.3, 0.3]), ([0.2, 0.4], [0.2, 0.4])])
def test_what_a_probe_learns_from_is_said_once_for_all_datasets_or_once_for_each(data, given, used):
    jobs = plan_probes(data, val_proportion=given)

    assert [job.settings["val_proportion"] for job in jobs] == used


def test_two_datasets_do_not_take_three_values(data):
    with pytest.raises(UsageError, match="3 values for 2 datasets"):
        plan_probes(data, val_proportion=[0.1, 0.2, 0.3])


def plan_probes(data, **options):
    write_classification(data / "data" / "vtab-y")
    return plan(
        dataset=["wds/vtab/x", "wds/vtab/y"],
        dataset_root="data/{dataset_cleaned}",
        task="linear_probe",
        task_options={"train_split": ["test"], **options},
    )


def test_a_task_option_that_nothing_would_read_is_refused():
    def planned(*tasks, **options):
        return plan(dataset=["demo/garments"], task=list(tasks), task_options=options, output="{task}.json")

    assert planned("zeroshot_classification", "knn", folds=2, knn_k=3)
    with pytest.raises(UsageError, match="Unknown task option: 'knnk'") as caught:
        planned("zeroshot_classification", "knn", folds=2, knnk=3)
    assert "knn_k" in caught.value.advice
    with pytest.raises(UsageError, match="seed is not a task option") as caught:
        planned("knn", folds=2, seed=3)
    assert "--seed" in caught.value.advice


def test_the_flags_of_tasks_are_task_options():
    parser = make_parser("eyechart", "eval")

    words = ["--fewshot_draw", "eyechart", "--empty_classes", "zero", "--knn-k", "3"]
    options = settings_of(parser.parse_args(["eval", *words]))["task_options"]
    assert options == {"fewshot_draw": "eyechart", "empty_classes": "zero", "knn_k": 3}
    assert options.keys() <= task_flags().keys()


class TestInstructions:
    def prompts(self, **settings):
        jobs = plan(dataset=["wds/vtab-x", "wds/captions"], dataset_root="data/{dataset}", **settings)
        names = ("query_prompt", "document_prompt")
        return [tuple(job.settings.get(name) for name in names) for job in jobs]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("i.json", '{"wds/vtab-*": "Which class?", "wds/captions": {"query": "Find", "document": "Show"}}'),
            ("i.yaml", "wds/vtab-*: Which class?\nwds/captions: {query: Find, document: Show}\n"),
            ("i.toml", '"wds/vtab-*" = "Which class?"\n["wds/captions"]\nquery = "Find"\ndocument = "Show"\n'),
        ],
    )
    def test_a_file_has_prompts_by_benchmark_and_role(self, data, name, text):
        (data / name).write_text(text)

        assert self.prompts(instructions=name) == [("Which class?", None), ("Find", "Show")]

    def test_a_flag_wins_and_an_exact_name_comes_before_a_pattern(self, data):
        (data / "i.json").write_text('{"*": "any", "wds/captions": {"document": "exact"}}')

        assert self.prompts(instructions="i.json") == [("any", None), (None, "exact")]
        found = self.prompts(instructions="i.json", task_options={"query_prompt": "flag"})
        assert found == [("flag", None), ("flag", "exact")]

    def test_they_are_part_of_the_identity(self, data):
        jobs = [
            plan(dataset=["wds/captions"], dataset_root="data/{dataset}", task_options=options)[0]
            for options in ({}, {"query_prompt": "a"}, {"query_prompt": "b"})
        ]

        assert len({job.digest for job in jobs}) == 3

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ('{"x": {"question": "?"}}', "invalid entry 'x'"),
            ('{"x": 5}', "invalid entry 'x'"),
            ("[]", "is not a mapping of benchmarks to prompts"),
            ('{"other": "?"}', "no entry for any"),
        ],
    )
    def test_a_bad_file_is_refused(self, data, text, reason):
        (data / "i.json").write_text(text)

        with pytest.raises(UsageError, match=reason):
            self.prompts(instructions="i.json")
