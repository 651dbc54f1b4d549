"""The task `questions`: what its settings do, what its metrics say of themselves, what is refused."""

import json
import sys

import pytest

from eyechart import evaluate
from eyechart.cli import main
from eyechart.config import make_config
from eyechart.datasets.questions.question_reader import open_questions
from eyechart.datasets.registry import open_dataset
from eyechart.errors import DataError, EyechartError, ModelError, UsageError
from eyechart.plan import plan_jobs
from eyechart.run import run_or_skip
from eyechart.session import Session
from eyechart.stats import mean_interval, proportion
from eyechart.tasks.question_prompts import PromptRunner
from eyechart.types import Answer, DatasetSpec, Message
from eyechart.vlm import dump, load
from support.vlm_data import image_cell, write_benchmark

MODEL = """
import json
from pathlib import Path
from eyechart.vlm import BaseModel

SAID = json.loads((Path(__file__).parent / "said.json").read_text())


class Scripted(BaseModel):
    def generate_inner(self, message, dataset=None):
        said = next(text for question, text in SAID.items() if question in message[-1]["value"])
        return said.pop(0) if isinstance(said, list) else said


class Declared(Scripted):
    eyechart_identity = "what it says"


class Talking(Scripted):
    def chat_inner(self, message, dataset=None):
        words = [f"{turn['role']}:{turn['content'][-1]['value']}" for turn in message]
        with (Path(__file__).parent / "heard.jsonl").open("a") as stream:
            stream.write(json.dumps(words) + "\\n")
        return self.generate_inner(message[-1]["content"])
"""


@pytest.fixture
def run(lmu_data, tmp_path, monkeypatch):
    """Write a table, and a model that says what is told; return what `evaluate` makes of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(rows, said, *, name="Pets", model="Scripted", **settings):
        write_benchmark(lmu_data / f"{name}.tsv", rows)
        (tmp_path / "said.json").write_text(json.dumps(said))
        (tmp_path / "scripted.py").write_text(MODEL)
        sys.modules.pop("scripted", None)
        output = {"output": str(tmp_path / "{model}_{dataset}.json")}
        chosen = {"dataset": [name], "model": [f"python:scripted:{model}"], **output, **settings}
        [result] = evaluate(**chosen)
        return result

    yield run
    sys.modules.pop("scripted", None)


OPEN = [
    {"index": i, "image": image_cell(8 + i // 2, 8), "question": f"q{i}?", "answer": "horse", "category": "ab"[i % 2]}
    for i in range(12)
]
"""Twelve open questions, two about each image."""
SAID = {
    "q0?": "horse",
    "q1?": "hors",
    "q2?": "horse",
    "q3?": "h",
    "q4?": "cow",
    "q5?": "horses",
    "q6?": "x",
    "q7?": "y",
    "q8?": "horse",
    "q9?": "horse",
    "q10?": "no",
    "q11?": "no",
}
ANLS = [1, 0.8, 1, 0, 0, 5 / 6, 0, 0, 1, 1, 0, 0]


def test_a_fractional_metric_is_the_mean_of_a_field_of_the_records(run):
    result = run(OPEN, SAID, questions={"metric": "anls"})

    metric = result.values["anls"]
    records = list(result.iter_records())
    assert [record[metric.mean_of.field] for record in records] == pytest.approx(ANLS)
    assert metric.value == pytest.approx(sum(ANLS) / 12) == result.metrics["accuracy"]
    assert (metric.low, metric.high) == pytest.approx(tuple(mean_interval(ANLS, [i // 2 for i in range(12)])))
    assert 0 < metric.low < metric.value < metric.high < 1
    assert result.primary == ("accuracy",)


def test_questions_about_one_image_are_one_cluster_in_the_records_too(run):
    result = run(OPEN, SAID)

    clusters = [record[result.values["accuracy"].mean_of.cluster] for record in result.iter_records()]
    assert len(set(clusters)) == 6
    assert clusters[::2] == clusters[1::2]
    # Two questions about an image are not two images: the interval is wider than that of twelve images.
    assert result.values["accuracy"].high > proportion(4, 12).high


def test_questions_with_images_of_their_own_need_no_clusters(run):
    rows = [{**row, "image": image_cell(8 + i, 8)} for i, row in enumerate(OPEN)]

    result = run(rows, SAID)

    assert result.values["accuracy"].mean_of.cluster == ""
    assert result.intervals["accuracy"] == pytest.approx(tuple(proportion(4, 12)))
    assert all("cluster" not in record for record in result.iter_records())


def test_full_metrics_are_the_accuracy_of_each_category(run):
    result = run(OPEN, SAID, metrics="full", questions={"metric": "anls"})

    found = result.values["accuracy: b"]
    assert found.value == pytest.approx(sum(ANLS[1::2]) / 6)
    assert found.n == 6
    assert found.mean_of.where == {"category": "b"}
    assert not found.primary


def test_full_metrics_are_refused_where_there_is_nothing_to_add(run):
    with pytest.raises(UsageError, match="no categories"):
        run([{**row, "category": None} for row in OPEN], SAID, metrics="full")
    with pytest.raises(UsageError, match="adds nothing"):
        run(OPEN, SAID, metrics="full", questions={"mode": "infer"})
    captions = [{"index": 0, "answer": "a cat"}]
    with pytest.raises(UsageError, match="adds nothing"):
        run(captions, {"describe": "a cat"}, name="Captions", metrics="full")


def test_groups_are_columns_of_the_table(run):
    result = run(OPEN, SAID, group_by=["category"], questions={"metric": "anls"})

    groups = result.details["groups"]["category"]
    assert groups["a"]["anls"] == pytest.approx(sum(ANLS[::2]) / 6)
    assert result.metrics["anls_worst_category"] == pytest.approx(sum(ANLS[1::2]) / 6)


def test_a_column_that_no_row_has_is_refused(run):
    with pytest.raises(DataError, match="column 'categroy'") as caught:
        run(OPEN, SAID, group_by=["categroy"])

    assert "category" in caught.value.advice


@pytest.mark.parametrize("change", [{"language": ["de"]}, {"split": "val"}, {"caption_cleaning": "internvl"}])
def test_settings_that_a_table_cannot_follow_are_refused(run, change):
    with pytest.raises(UsageError):
        run(OPEN, SAID, **change)


def test_a_run_in_several_languages_leaves_the_others_out(run):
    with pytest.warns(UserWarning, match="original language only"):
        result = run(OPEN, SAID, language=["en", "de"])

    assert result.language == "en"


def test_a_limit_counts_rows(run):
    result = run(OPEN, SAID, limit=3)

    assert [record["id"] for record in result.iter_records()] == ["0", "1", "2"]
    assert result.counts["listed"] == 3


def test_thumbnails_are_of_the_worst_answers(run):
    result = run(OPEN, SAID, thumbnails=3, questions={"metric": "anls"})

    shown = [record["id"] for record in result.iter_records() if "thumbnail" in record]
    assert shown == ["3", "4", "6"]


CHOICE = [
    {"index": 5, "question": "one", "A": "cat", "B": "dog", "answer": "A", "g_index": 5},
    {"index": 1000005, "question": "two", "A": "dog", "B": "cat", "answer": "B", "g_index": 5},
    {"index": 6, "question": "three", "A": "cat", "B": "dog", "answer": "A", "g_index": 6},
    {"index": 1000006, "question": "four", "A": "dog", "B": "cat", "answer": "B", "g_index": 6},
]


def test_a_rotation_has_a_hit_and_its_question_the_verdict(run):
    result = run(CHOICE, {"one": "A", "two": "A", "three": "A", "four": "B"})

    records = {record["id"]: record for record in result.iter_records()}
    assert [records[name]["correct"] for name in ("5", "1000005", "6", "1000006")] == [0, None, 1, None]
    assert [records[name].get("hit") for name in ("5", "1000005", "6", "1000006")] == [1.0, 0.0, None, 1.0]
    assert result.values["accuracy"].n == 2
    assert result.values["accuracy"].chance == 0.25


DIALOGUE = [{"index": 7, "question": "['first', 'second', 'third']", "answer": "['a', 'b', 'c']", "category": "x"}]
REPLIES = {"first": "one", "second": "two", "third": "three"}


def dialogue(run, **settings):
    return run(DIALOGUE, REPLIES, name="MMDU", questions={"mode": "infer"}, **settings)


def test_each_turn_of_a_dialogue_hears_every_earlier_reply(run, tmp_path):
    dialogue(run, model="Talking")

    heard = [json.loads(line) for line in (tmp_path / "heard.jsonl").read_text().splitlines()]
    assert heard == [
        ["user:first", "assistant:one", "user:second"],
        ["user:first", "assistant:one", "user:second", "assistant:two", "user:third"],
    ]


def test_a_model_that_cannot_chat_says_so_before_it_answers(run, tmp_path):
    with pytest.raises(EyechartError, match="Scripted does not support conversations") as caught:
        dialogue(run)

    assert "chat_inner" in caught.value.advice
    assert not (tmp_path / "scripted:Scripted_MMDU.jsonl").exists()


def test_a_dialogue_that_failed_is_not_gone_on_with(lmu_data):
    """The first reply fails: nothing that follows is asked, and nobody pays for it."""
    write_benchmark(lmu_data / "MMDU.tsv", [*DIALOGUE, {**DIALOGUE[0], "index": 8}])
    asked = []

    def generate(prompts):
        for prompt in prompts:
            asked.append((prompt.id, len(prompt.messages)))
            yield prompt.id, Answer("", error="no") if prompt.id == "7" else Answer("fine")

    dataset = open_questions(DatasetSpec("MMDU", "questions", ""))
    found = PromptRunner(dataset, generate, system="be brief").answer(dataset.table.rows)

    assert [failure.id for failure in found.failures] == ["7"]
    assert asked == [("7", 2), ("8", 2), ("8", 4), ("8", 6)]
    assert found.rows[0]["prediction"] == "['fine', 'fine', 'fine']"


def test_questions_about_one_image_are_asked_one_after_the_other(lmu_data):
    write_benchmark(lmu_data / "SimpleVQA.tsv", OPEN[:5])
    dataset = open_questions(DatasetSpec("SimpleVQA", "questions", ""))
    asked = []

    def generate(prompts):
        for prompt in prompts:
            asked.append(prompt.id)
            yield prompt.id, Answer("a")

    found = PromptRunner(dataset, generate).answer(dataset.table.rows, [b"x", b"y", b"x", b"z", b"y"])

    assert asked == ["0", "2", "1", "4", "3"]
    assert [row["index"] for row in found.rows] == [row["index"] for row in dataset.table.rows]


def test_one_question_without_an_answer_ends_the_run_with_its_reason(run):
    with pytest.raises(ModelError, match=r"1 question has no answer; the first: 7: .*StopIteration"):
        run(OPEN, {name: text for name, text in SAID.items() if name != "q7?"})


def test_a_history_is_what_was_said_in_turn():
    from eyechart.tasks.question_prompts import history

    users = [Message("user", (text,)) for text in "abc"]

    found = [(turn.role, turn.parts[0]) for turn in history(users, [Answer("1"), Answer("2")])]

    assert found == [("user", "a"), ("assistant", "1"), ("user", "b"), ("assistant", "2"), ("user", "c")]


def test_the_mean_over_repeats_is_what_the_records_hold(run):
    rows = [{"index": i, "question": f"q{i}?", "answer": "yes"} for i in range(2)]
    said = {"q0?": ["yes", "yes", "yes", "no"], "q1?": ["no", "no", "yes", "no"]}

    result = run(rows, said, questions={"repeats": 4})

    values, records = result.values, list(result.iter_records())
    assert [record["repeats"] for record in records] == [[1, 1, 1, 0], [0, 0, 1, 0]]
    assert [record["correct"] for record in records] == [0.75, 0.25]
    assert [record["pass@2"] for record in records] == [1.0, 0.5]
    assert values["accuracy"].value == 0.5
    assert (values["pass@2"].value, values["pass@2"].mean_of.field) == (0.75, "pass@2")


def job_of(tmp_path, **questions):
    settings = {"dataset": ["Pets"], "model": ["gone-model"], "model_type": "api", "questions": questions}
    [job] = plan_jobs(make_config({**settings, "output": str(tmp_path / "r.json")}))
    return job


def test_predictions_are_scored_without_the_model(lmu_data, tmp_path):
    """There is no server, not even an address; a result is made again only if the predictions are others."""
    write_benchmark(lmu_data / "Pets.tsv", OPEN)
    lines = [json.dumps({"index": row["index"], "prediction": "horse"}) for row in OPEN]
    (tmp_path / "r.jsonl").write_text("\n".join(lines))

    def report():
        return run_or_skip(job_of(tmp_path, mode="eval"), Session(), skip_existing=True)

    first, second = report(), report()
    (tmp_path / "r.jsonl").write_text("\n".join(lines).replace("horse", "cow"))
    third = report()

    assert first.error is None
    assert first.result.metrics["accuracy"] == 1.0
    assert [one.skipped for one in (first, second, third)] == [False, True, False]
    assert third.result.metrics["accuracy"] == 0.0


def test_a_finished_job_is_skipped_until_a_question_changes(run):
    settings = {"skip_existing": True, "model": "Declared"}
    first = run(OPEN, SAID, **settings)
    written = first.path.stat().st_mtime_ns

    again = run(OPEN, SAID, **settings)
    untouched = first.path.stat().st_mtime_ns == written
    changed = run([{**OPEN[0], "answer": "cow"}, *OPEN[1:]], SAID, **settings)

    assert untouched
    assert again.metrics == first.metrics
    assert changed.metrics["accuracy"] == pytest.approx(first.metrics["accuracy"] - 1 / 12)
    assert changed.data["fingerprint"] != first.data["fingerprint"]


def test_the_command_line_shows_what_is_wrong(lmu_data, capsys):
    write_benchmark(lmu_data / "Pets.tsv", OPEN)

    model = ["--model_type", "api", "--model", "m", "--api_base", "http://127.0.0.1:9/v1"]

    assert main(["eval", "--dataset", "Pets", "--language", "de", *model]) == 2
    assert "original language only" in capsys.readouterr().err


YES_NO = [
    {"index": i, "question": f"q{i}?", "answer": answer} for i, answer in enumerate(["Yes ", "['yes']", " no", "No"])
]


def test_yes_and_no_count_however_a_table_writes_them(run):
    result = run(YES_NO, {"q": "Yes."})

    assert result.details["scorer"] == "rules.yes_no:yes_no"
    assert result.metrics["accuracy"] == 0.5


def test_scores_of_whole_sets_are_means_over_repeats(run):
    rows = [{"index": i, "answer": f"a {animal} runs"} for i, animal in enumerate(("cat", "dog"))]

    result = run(rows, {"": ["a cat runs", "a dog runs", "no", "no"]}, questions={"repeats": 2})

    assert [line["table"]["ROUGE_L"] for line in result.details["repeats"]] == [100.0, 0.0]
    assert result.metrics["ROUGE_L"] == pytest.approx(50.0)


PAIR = [
    {"index": i, "question": "Which?", "A": "cat", "B": "dog", "answer": "AB"[i], "image": image_cell(8 + i, 8)}
    for i in range(2)
]
INFER, EVAL = {"questions": {"mode": "infer"}}, {"questions": {"mode": "eval"}}


def kinds(result):
    """Return the notices of a result: their counts by kind."""
    return {notice["kind"]: notice["count"] for notice in result.notices}


def test_predictions_for_another_question_are_not_scored(run):
    run(PAIR, {"Which?": "A"}, **INFER)

    with pytest.raises(DataError, match="'0' answers a different question than the dataset has now: 'A' differs"):
        run([{**row, "A": "horse"} for row in PAIR], {}, **EVAL)
    assert run([{**row, "question": " which?"} for row in PAIR], {}, **EVAL).metrics["accuracy"] == 0.5


def test_predictions_about_other_images_are_counted(run):
    run(PAIR, {"Which?": "A"}, **INFER)
    moved = [{**row, "image": other["image"]} for row, other in zip(PAIR, PAIR[::-1], strict=True)]

    assert kinds(run(moved, {}, **EVAL))["other_images"] == 2
    assert "other_images" not in kinds(run(PAIR, {}, **EVAL))


def test_two_files_of_predictions_must_agree(run, tmp_path):
    lines = run(PAIR, {"Which?": "A"}, **INFER).path.with_suffix(".jsonl")
    edited = load(lines.with_suffix(".xlsx"))
    edited["prediction"] = ["B", "A"]
    dump(edited, lines.with_suffix(".xlsx"))

    with pytest.raises(DataError, match="have different predictions for 1 question, for example index '0'"):
        run(PAIR, {}, **EVAL)
    lines.unlink()
    assert run(PAIR, {}, **EVAL).metrics["accuracy"] == 0.0


def test_an_index_that_looks_like_a_decimal_number_finds_its_prediction(run):
    rows = [{**row, "index": f"{row['index']}.0"} for row in PAIR]
    run(rows, {"Which?": "A"}, **INFER)

    assert run(rows, {}, **EVAL).metrics["accuracy"] == 0.5


def test_a_question_without_some_rotations_is_told(run):
    rows = [{**PAIR[0], "g_index": 0}, {**PAIR[1], "g_index": 1}]
    rows.append({**PAIR[0], "index": 1_000_000, "A": "dog", "B": "cat", "answer": "B", "g_index": 0})

    assert kinds(run(rows, {"Which?": "A"}))["missing_rotations"] == 1


def test_empty_answers_are_counted(run):
    assert kinds(run(OPEN, {**SAID, "q0?": " "}, min_success=0))["empty_answers"] == 1


@pytest.mark.parametrize(
    ("returned", "message"),
    [("{}['x']", "evaluate failed: KeyError"), ("{'Overall': float('nan'), 'b': 1.0}", "no number for Overall")],
)
def test_what_goes_wrong_in_a_class_of_ones_own_is_an_error_of_its_job(run, tmp_path, returned, message):
    (tmp_path / "own_bench.py").write_text(
        "from eyechart.vlm import ImageMCQDataset\n"
        f"class Pets(ImageMCQDataset):\n    def evaluate(self, eval_file, **kwargs):\n        return {returned}\n"
    )

    with pytest.raises(DataError, match=message):
        run(PAIR, {"Which?": "A"}, dataset=["python:own_bench:Pets"])
    sys.modules.pop("own_bench", None)


BENCH = """
from eyechart.vlm import ImageBaseDataset

class Own(ImageBaseDataset):
    TYPE = "VQA"
    {declared}

    def __init__(self, name):
        self.data = [{{"index": 0, "question": "q0?", "answer": "horse"}}]
        self.dataset_name = name

    def build_prompt(self, line):
        return [{{"type": "text", "value": line["question"]}}]

    def evaluate(self, file, **judge):
        return {{"score": 1.0}}
"""


@pytest.mark.parametrize(("declared", "known"), [("pass", False), ("eyechart_identity = 'v1'", True)])
def test_a_dataset_class_has_a_signature_only_if_it_declares_an_identity(tmp_path, monkeypatch, declared, known):
    monkeypatch.syspath_prepend(tmp_path)
    module = f"bench_{known}".lower()
    (tmp_path / f"{module}.py").write_text(BENCH.format(declared=declared))
    dataset = open_dataset(DatasetSpec("Own", "questions", f"python:{module}:Own"))

    assert (dataset.signature() is not None) == known
