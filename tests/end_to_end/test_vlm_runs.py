"""Whole runs on 50 real photos: a scripted server, a real architecture with random weights, kill -9 and resume."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from eyechart import evaluate, vlm
from eyechart.cli import main
from eyechart.datasets.questions.prediction_files import load_table
from eyechart.errors import EyechartError, IncompleteError, UsageError
from eyechart.stats import proportion
from support.coco_qa import write_coco_qa
from support.openai_server import OpenAIServer, Status
from support.vlm_data import image_cell, write_benchmark


@pytest.fixture
def coco(lmu_data):
    write_coco_qa(lmu_data / "COCOQA.tsv")
    return vlm.build_dataset("COCOQA")


def asked(body):
    return [part["text"] for part in body["messages"][-1]["content"] if part["type"] == "text"][-1]


def answers_of(dataset, wrong=()):
    """Make a server's script: the right answer, except for some questions."""
    right = {row["question"]: row["answer"] for row in dataset.questions.rows}
    bad = {dataset.questions.rows[i]["question"] for i in wrong}
    return lambda body: "no idea" if asked(body) in bad else f"<think>let me see</think>{right[asked(body)].title()}."


def settings(tmp_path, server, **questions):
    return {
        "dataset": ["COCOQA"],
        "model": ["test-model"],
        "model_type": "api",
        "output": str(tmp_path / "out" / "{model}_{dataset}.json"),
        "questions": {"api_base": server.api_base, "tries": 2, **questions},
    }


def test_photos_and_questions_through_a_server(coco, tmp_path):
    with OpenAIServer(answer=answers_of(coco, wrong=range(10))) as server:
        [result] = evaluate(**settings(tmp_path, server))
        requests = list(server.requests)

    low, high = proportion(40, 50)
    assert len(requests) == 50
    assert result.metrics["accuracy"] == 0.8
    assert result.intervals["accuracy"] == pytest.approx((low, high), abs=0.02)
    assert result.counts["scored"] == 50
    assert result.details["metric"] == "normalized_exact"
    records = list(result.iter_records())
    assert [record["correct"] for record in records] == [0.0] * 10 + [1.0] * 40
    assert records[20]["transcript"]["messages"][-1]["reasoning"] == "let me see"
    assert set(records[0]) == {
        "id", "question", "options", "answer", "prediction", "extracted", "rule", "correct", "category", "transcript",
        "digest",
    }  # fmt: skip
    sent = requests[0].body["messages"][-1]["content"][0]["image_url"]["url"]
    assert sent.startswith("data:image/jpeg;base64,")
    sheet, lines = (load_table(tmp_path / "out" / f"test-model_COCOQA.{suffix}") for suffix in ("xlsx", "jsonl"))
    assert sheet["prediction"] == lines["prediction"]
    assert sheet["index"] == list(range(50))
    assert "image" not in sheet


def test_a_finished_run_asks_nothing_again_and_can_be_scored_otherwise(coco, tmp_path):
    with OpenAIServer(answer=answers_of(coco)) as server:
        evaluate(**settings(tmp_path, server, mode="infer"))
        paid = len(server.requests)
        [scored] = evaluate(**settings(tmp_path, server, mode="eval", metric="anls"))
        [again] = evaluate(**settings(tmp_path, server))
        assert len(server.requests) == paid == 50

    assert scored.details["metric"] == "anls"
    assert again.metrics["accuracy"] == 1.0


KILLED = """
import sys
from eyechart.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_kill_9_and_resume_asks_no_answered_question_again(coco, tmp_path):
    script = answers_of(coco)
    with OpenAIServer(answer=script, delay=0.15) as server:
        command = [
            *(sys.executable, "-c", KILLED, "eval", "--dataset", "COCOQA", "--model", "test-model"),
            *("--model_type", "api", "--api_base", server.api_base, "--concurrency", "3", "--quiet"),
            *("--output", str(tmp_path / "r.json")),
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 100
        while len(server.requests) < 15 and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        while server.is_busy:  # what was sent before the kill counts, read or not
            time.sleep(0.02)
        stored = _stored(tmp_path / "cache")
        before = len(server.requests)
        assert 0 < len(stored) <= before < 50
        assert not (tmp_path / "r.json").exists()

        assert main(command[3:]) == 0
        after = len(server.requests)

    assert after - before == 50 - len(stored)  # exactly those without an answer on disk
    assert before - len(stored) <= 3  # at most what was under way
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["metrics"]["accuracy"] == 1.0
    assert result["counts"]["scored"] == 50


def _stored(cache):
    lines = (
        line for path in cache.rglob("responses/**/*.jsonl") for line in path.read_bytes().splitlines(keepends=True)
    )
    return [line for line in lines if line.endswith(b"\n")]


def test_photos_and_questions_through_a_transformers_model(coco, tmp_path, monkeypatch):
    from support.tiny_vlm import save_tiny_vlm

    folder = save_tiny_vlm(tmp_path / "tiny-llava")
    chosen = {
        "dataset": ["COCOQA"],
        "model": [str(folder)],
        "model_type": "transformers",
        "output": str(tmp_path / "out" / "{model}_{dataset}.json"),
        "min_success": 0,  # random weights never stop: all answers are cut
        "questions": {"max_tokens": 8},
    }

    [result] = evaluate(**chosen)
    import transformers

    monkeypatch.setattr(
        transformers.AutoModelForImageTextToText, "from_pretrained", lambda *args, **kwargs: pytest.fail("loaded again")
    )
    [again] = evaluate(**chosen)

    assert result.counts["scored"] == 50
    assert result.metrics["accuracy"] == 0
    assert result.counts["cut"] == 50
    assert result.details["answers"]["parameters"] == {"do_sample": False, "max_new_tokens": 8}
    assert result.values["accuracy"].best_case == 1.0
    assert result.intervals["accuracy"][1] > result.metrics["accuracy"]
    assert result.model_card["family"] == "transformers"
    assert len(load_table(tmp_path / "out" / "tiny-llava_COCOQA.xlsx")) == 50
    assert [r["prediction"] for r in again.iter_records()] == [r["prediction"] for r in result.iter_records()]


def test_failed_questions_are_asked_again_and_only_they(lmu_data, tmp_path):
    write_benchmark(lmu_data / "COCOQA.tsv", [{"index": i, "question": f"q{i}", "answer": f"a{i}"} for i in range(6)])
    broken = {"q2", "q4"}
    fault = lambda path, body, attempt: Status(400) if asked(body) in broken else None  # noqa: E731 - a table of one
    with OpenAIServer(answer=lambda body: asked(body).replace("q", "a"), fault=fault) as server:
        with pytest.raises(EyechartError, match="2 questions have no answer"):
            evaluate(**settings(tmp_path, server))
        with pytest.raises(IncompleteError, match=r"2 of 6 samples are lost \(2 failed\)"):
            evaluate(**settings(tmp_path, server), on_error="skip")
        [partial] = evaluate(**settings(tmp_path, server), on_error="skip", min_success=0.5)
        wrong = [record["rule"] for record in partial.iter_records() if not record["correct"]]
        server.requests.clear()
        server.fault = None
        [whole] = evaluate(**settings(tmp_path, server))
        assert sorted(asked(request.body) for request in server.requests) == sorted(broken)

    assert partial.counts == {"listed": 6, "scored": 4, "failed": 2, "unreadable": 0, "repeats": 1}
    assert partial.metrics["accuracy"] == 4 / 6  # what failed is wrong
    assert (partial.values["accuracy"].worst_case, partial.values["accuracy"].best_case) == (4 / 6, 1.0)
    assert wrong == ["failed", "failed"]
    assert whole.counts["scored"] == 6
    assert whole.metrics["accuracy"] == 1.0


def test_repeats_give_mean_variance_and_pass_at_k(lmu_data, tmp_path):
    write_benchmark(lmu_data / "COCOQA.tsv", [{"index": i, "question": f"q{i}", "answer": "yes"} for i in range(4)])
    times: dict[str, int] = {}

    def answer(body):
        question = asked(body)
        times[question] = times.get(question, 0) + 1
        # q0 is always right, q1 every other time, q2 once, q3 never
        right = {"q0": {1, 2, 3, 4}, "q1": {1, 3}, "q2": {4}, "q3": set()}[question]
        return "yes" if times[question] in right else "no"

    with OpenAIServer(answer=answer) as server:
        [result] = evaluate(**settings(tmp_path, server, repeats=4, temperature=1.0))
        assert len(server.requests) == 16

    assert result.metrics["accuracy"] == pytest.approx((4 + 2 + 1 + 0) / 16)
    runs = [2 / 4, 1 / 4, 2 / 4, 2 / 4]
    mean = sum(runs) / 4
    assert result.metrics["accuracy_variance"] == pytest.approx(sum((run - mean) ** 2 for run in runs) / 3)
    assert result.metrics["pass@1"] == pytest.approx(7 / 16)
    assert result.metrics["pass@2"] == pytest.approx((1 + (1 - 1 / 6) + (1 - 3 / 6) + 0) / 4)
    assert result.metrics["pass@4"] == 0.75
    assert [record["repeats"] for record in result.iter_records()][1] == [1.0, 0.0, 1.0, 0.0]
    assert (tmp_path / "out" / "test-model_COCOQA_repeat3.jsonl").is_file()


def test_cut_answers_are_counted(lmu_data, tmp_path):
    from support.tiny_vlm import save_tiny_vlm

    write_benchmark(lmu_data / "Pets.tsv", [{"index": i, "question": f"q{i}", "answer": "x"} for i in range(2)])
    folder = save_tiny_vlm(tmp_path / "tiny")

    [result] = evaluate(
        dataset=["Pets"],
        model=[str(folder)],
        model_type="transformers",
        output=str(tmp_path / "r.json"),
        min_success=0,
        questions={"max_tokens": 1},
    )

    assert ("cut_answers", 2) in [(notice["kind"], notice["count"]) for notice in result.notices]


def test_answers_that_were_cut_are_read_as_vlmevalkit_reads_them(lmu_data, tmp_path, capsys):
    """Three questions with the answers A, B and C, and one answer that breaks off after its letter."""
    rows = [
        {"index": i, "question": f"q{i}", "A": "red", "B": "blue", "C": "green", "answer": "ABC"[i]} for i in range(3)
    ]
    write_benchmark(lmu_data / "Pets.tsv", rows)
    with OpenAIServer(answer=lambda body: "A. red, because the", finish_reason="length") as server:
        words = ["eval", "Pets", "--model", "test-model", "--model-type", "api", "--api-base", server.api_base]
        codes = [
            main([*words, "--output", str(tmp_path / "read.json")]),
            main([*words, "--output", str(tmp_path / "wrong.json"), "--cut-answers", "wrong"]),
        ]
    shown = capsys.readouterr().out
    read, wrong = (json.loads((tmp_path / name).read_text()) for name in ("read.json", "wrong.json"))

    assert codes == [0, 1]  # counted as wrong, all answers are lost
    assert read["metrics"]["accuracy"] == pytest.approx(1 / 3)
    assert (read["metric_values"]["accuracy"]["if_wrong"], read["metric_values"]["accuracy"]["if_right"]) == (0, 1)
    assert (read["counts"]["cut"], read["counts"]["unreadable"]) == (3, 0)
    assert (wrong["metrics"]["accuracy"], wrong["counts"]["unreadable"]) == (0, 3)
    assert "3 truncated" in shown
    assert len(server.requests) == 3  # the same answers, read in two ways


def test_defaults_and_flags_of_generation_are_sent_and_stored_in_the_result(lmu_data, tmp_path):
    write_benchmark(lmu_data / "Pets.tsv", [{"index": 0, "question": "q", "answer": "x"}])
    flags = {
        (): {"max_tokens": 2048, "temperature": 0},
        ("--temperature", "default"): {"max_tokens": 2048},
        ("--temperature", "0.5", "--max-tokens", "7"): {"max_tokens": 7, "temperature": 0.5},
    }
    with OpenAIServer(answer=lambda body: "x") as server:
        for more, wanted in flags.items():
            words = ["eval", "Pets", "--model", "test-model", "--model-type", "api", "--api-base", server.api_base]
            assert main([*words, "--output", str(tmp_path / "r.json"), *more]) == 0
            body = server.requests[-1].body
            assert {name: body[name] for name in body if name not in ("model", "messages")} == wanted
            assert json.loads((tmp_path / "r.json").read_text())["details"]["answers"]["parameters"] == wanted

    assert len(server.requests) == len(flags)


def test_stored_answers_of_a_server_are_reported_and_requested_again_on_demand(lmu_data, tmp_path):
    write_benchmark(lmu_data / "Pets.tsv", [{"index": i, "question": f"q{i}", "answer": "old"} for i in range(3)])

    def run(*more):
        words = ["eval", "Pets", "--model", "test-model", "--model-type", "api", "--api-base", server.api_base]
        assert main([*words, "--output", str(tmp_path / "r.json"), *more]) == 0
        result = json.loads((tmp_path / "r.json").read_text())
        kinds = {notice["kind"]: notice["count"] for notice in result["notices"]}
        return result["metrics"]["accuracy"], kinds.get("stored_answers"), len(server.requests)

    with OpenAIServer(answer=lambda body: "old") as server:
        assert run() == (1.0, None, 3)
        server.answer = lambda body: "new"  # other weights under the same name
        assert run() == (1.0, 3, 3)
        assert run("--max-age", "1d") == (1.0, 3, 3)
        assert run("--skip-existing", "--refresh-answers") == (0.0, None, 6)
        assert run() == (0.0, 3, 6)
        assert run("--max-age", "0") == (0.0, None, 9)


def test_dialogues_in_a_run(lmu_data, tmp_path):
    rows = [{"index": 0, "question": "['<ImageHere>What is it?', 'Why?']", "answer": "['red', 'paint']"}]
    write_benchmark(lmu_data / "MMDU.tsv", rows)
    grades = json.dumps(dict.fromkeys(vlm_dimensions(), 6))
    replies = {"What is it?": "a red thing", "Why?": "because"}
    answer = lambda body: grades if "JSON object" in text_of(body) else replies[text_of(body)]  # noqa: E731 - a table
    with OpenAIServer(answer=answer) as server:
        [result] = evaluate(
            dataset=["MMDU"],
            model=["test-model"],
            model_type="api",
            output=str(tmp_path / "r.json"),
            questions={"api_base": server.api_base, "judge": "test-model", "judge_api_base": server.api_base},
        )
        second = server.requests[1].body["messages"]

    assert [turn["role"] for turn in second] == ["user", "assistant", "user"]
    assert text_of({"messages": second[:2]}) == "a red thing"
    assert result.metrics["accuracy"] == 0.6
    assert [record["prediction"] for record in result.iter_records()] == ["a red thing", "because"]


def text_of(body):
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def vlm_dimensions():
    from eyechart.scorers.rules.judged import DIMENSIONS

    return DIMENSIONS


HOSTILE = [
    "__import__('pathlib').Path('pwned').touch()",
    '=HYPERLINK("http://evil.example","click")',
    "\x00\x07\x1b[31mred",
    "x" * 100_000,
    "None",
    "NA",
    "nan",
    "<script>alert(1)</script>",
    "\u202eright to left",
    "../../etc/passwd",
]


def test_hostile_answers_are_kept_as_text_and_nothing_is_run(lmu_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"index": i, "question": f"q{i}", "answer": text} for i, text in enumerate(HOSTILE[:8])]
    rows += [{"index": i, "question": f"q{i}", "answer": "x"} for i in (8, 9)]
    write_benchmark(lmu_data / "COCOQA.tsv", rows)
    with OpenAIServer(answer=lambda body: HOSTILE[int(asked(body)[1:])]) as server:
        [result] = evaluate(**settings(tmp_path, server))

    records = list(result.iter_records())
    assert [record["prediction"] for record in records] == HOSTILE
    assert [record["correct"] for record in records][:8] == [1.0] * 8
    assert not (tmp_path / "pwned").exists()
    [cut] = [notice for notice in result.notices if notice["kind"] == "xlsx_cut"]
    assert cut["count"] == 2  # the long answer and the long prediction
    lines = load_table(tmp_path / "out" / "test-model_COCOQA.jsonl")
    assert lines["prediction"] == HOSTILE


def test_broken_rows_fail_alone_with_one_message_each(lmu_data, tmp_path):
    rows = [
        {"index": 0, "question": "q0", "answer": "yes"},
        {"index": 1, "image": "A" * 200, "question": "q1", "answer": "yes"},
        {"index": 2, "image_path": "../../../outside.png", "question": "q2", "answer": "yes"},
        {"index": 3, "image": "77", "question": "q3", "answer": "yes"},
    ]
    write_benchmark(lmu_data / "COCOQA.tsv", rows)
    with OpenAIServer(answer=lambda body: "yes") as server:
        [result] = evaluate(**settings(tmp_path, server), on_error="skip", min_success=0)

    reasons = {failure["id"]: failure["reason"] for failure in result.failures}
    assert "cannot decode the image" in reasons["1"]
    assert "is outside the folder" in reasons["2"]
    assert "neither base64 nor the index" in reasons["3"]
    assert result.counts["scored"] == 1
    assert result.metrics["accuracy"] == 0.25


def test_predictions_of_the_original_are_scored(lmu_data, tmp_path):
    """A spreadsheet as VLMEvalKit writes it, numbers and all, beside where our result goes."""
    from eyechart.datasets.questions.prediction_files import dump

    write_benchmark(lmu_data / "COCOQA.tsv", [{"index": i, "question": "q", "answer": str(i)} for i in range(3)])
    (tmp_path / "out").mkdir()
    rows = [{"index": i, "question": "q", "answer": i, "prediction": p} for i, p in enumerate([0, "1", "nan"])]
    dump(rows, tmp_path / "out" / "test-model_COCOQA.xlsx")
    with OpenAIServer() as server:
        [result] = evaluate(**settings(tmp_path, server, mode="eval"))
        assert not server.requests

    assert [record["correct"] for record in result.iter_records()] == [1.0, 1.0, 0.0]


def test_predictions_are_scored_by_name_alone(lmu_data, tmp_path, capsys):
    """Nobody is asked, so a name that belongs to no model here will do, without a model type or an address."""
    from eyechart.datasets.questions.prediction_files import dump

    table = write_benchmark(tmp_path / "Pets.tsv", [{"index": i, "question": "q", "answer": "cat"} for i in range(2)])
    dump([{"index": i, "prediction": said} for i, said in enumerate(["cat", "dog"])], tmp_path / "r.jsonl")
    words = ["eval", "--dataset", str(table), "--model", "our-model-of-may"]

    assert main([*words, "--mode", "eval", "--output", str(tmp_path / "r.json")]) == 0
    assert json.loads((tmp_path / "r.json").read_text())["metrics"]["normalized_exact"] == 0.5
    assert main([*words, "--mode", "eval", "--output", str(tmp_path / "none.json")]) == 1
    assert "There are no predictions to score" in capsys.readouterr().err
    assert main([*words, "--output", str(tmp_path / "x.json")]) == 2
    assert "Unknown model: 'our-model-of-may'" in capsys.readouterr().err


def test_incomplete_predictions_are_not_scored_as_if_complete(lmu_data, tmp_path):
    from eyechart.datasets.questions.prediction_files import dump

    write_benchmark(lmu_data / "COCOQA.tsv", [{"index": i, "question": "q", "answer": "x"} for i in range(3)])
    (tmp_path / "out").mkdir()
    dump([{"index": 1, "prediction": "x"}], tmp_path / "out" / "test-model_COCOQA.jsonl")
    with OpenAIServer() as server, pytest.raises(EyechartError, match="2 questions have no answer"):
        evaluate(**settings(tmp_path, server, mode="eval"))


@pytest.mark.parametrize(
    ("indices", "message"), [([0, 1, 7], "'7' has a prediction but no row"), ([0, 1, 1], "'1' has two predictions")]
)
def test_predictions_of_another_dataset_are_refused(lmu_data, tmp_path, indices, message):
    from eyechart.datasets.questions.prediction_files import dump

    write_benchmark(lmu_data / "COCOQA.tsv", [{"index": i, "question": "q", "answer": "x"} for i in range(2)])
    (tmp_path / "out").mkdir()
    dump([{"index": i, "prediction": "x"} for i in indices], tmp_path / "out" / "test-model_COCOQA.jsonl")
    with OpenAIServer() as server, pytest.raises(EyechartError, match=message):
        evaluate(**settings(tmp_path, server, mode="eval"))


OWN = """
from eyechart import vlm

class Own(vlm.ImageVQADataset):
    def evaluate(self, eval_file, **judge_kwargs):
        data = vlm.load(eval_file)
        return {"length": [sum(map(len, data["prediction"])) / len(data)]}
"""


@pytest.fixture
def own_class(lmu_data, tmp_path, monkeypatch):
    """A dataset class in the working folder; for one of an installed package see test_plugins."""
    (tmp_path / "own_bench.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    rows = [{"index": i, "question": "q", "answer": "x", "category": "c"} for i in range(3)]
    write_benchmark(lmu_data / "Own.tsv", rows)
    yield "python:own_bench:Own"
    sys.modules.pop("own_bench", None)


@pytest.mark.parametrize("xlsx", [True, False])
def test_a_class_with_its_own_evaluate_runs(own_class, tmp_path, xlsx):
    with OpenAIServer(answer=lambda body: "four") as server:
        [result] = evaluate(**settings(tmp_path, server, xlsx=xlsx) | {"dataset": [own_class]})

    assert (tmp_path / "out" / "test-model_Own.xlsx").is_file() == xlsx
    assert result.dataset == "Own"
    assert result.metrics == {"length": 4.0}
    assert result.primary == ("length",)
    assert result.details["decided_by"] == "Own.evaluate"
    assert [record["prediction"] for record in result.iter_records()] == ["four"] * 3


@pytest.mark.parametrize("judge", [{}, {"judge": "gpt-x"}])
def test_an_evaluate_of_its_own_gets_the_judges_arguments_of_run_py(own_class, tmp_path, judge):
    (tmp_path / "own_bench.py").write_text(
        OWN.replace("data = vlm", "self.told.update(judge_kwargs); data = vlm").replace(
            "def eval", "told = {}\n    def eval"
        )
    )
    told = {"concurrency": 3, "timeout": 7.5, **judge}
    with OpenAIServer(answer=lambda body: "four") as server:
        evaluate(**settings(tmp_path, server, **told) | {"dataset": [own_class]})
        first = dict(sys.modules["own_bench"].Own.told)
        evaluate(**settings(tmp_path, server, **told, mode="eval") | {"dataset": [own_class]})

    assert sys.modules["own_bench"].Own.told == first
    known = {"nproc": 3, "retry": 2, "timeout": 7.5, "verbose": False}
    named = {"model": "gpt-x", "api_base": server.api_base} if judge else {"model": "exact_matching"}
    assert sys.modules["own_bench"].Own.told == {**known, **named}
    assert judge == {} or vlm.build_judge(**sys.modules["own_bench"].Own.told).model == "gpt-x"


@pytest.mark.usefixtures("own_class")
def test_a_class_of_a_module_that_is_gone_answers_for_no_name(lmu_data, tmp_path, monkeypatch):
    """It may be in memory for as long as anything refers to it: here, the variable."""
    write_benchmark(lmu_data / "ChartQA_TEST.tsv", [{"index": 0, "question": "q", "answer": "x", "split": "human"}])
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("own_bench").Own
    while_loaded = type(vlm.build_dataset("ChartQA_TEST"))
    del sys.modules["own_bench"]

    assert while_loaded is own
    assert type(vlm.build_dataset("ChartQA_TEST")) is vlm.ImageVQADataset


@pytest.mark.parametrize("change", [{"group_by": ["category"]}, {"metrics": "full"}])
def test_what_a_class_scores_itself_cannot_be_cut_into_groups(own_class, tmp_path, change):
    with OpenAIServer() as server, pytest.raises(UsageError, match=r"Own"):
        evaluate(**settings(tmp_path, server) | {"dataset": [own_class], **change})


@pytest.mark.parametrize(
    ("family", "model", "message"),
    [
        ("open_clip", ["ViT-B-32", "--pretrained", "openai"], "no text decoder"),
        ("open_clip", ["coca_ViT-B-32", "--pretrained", "laion2b_s13b_b90k"], "does not answer questions"),
        ("onnx", ["eyechart-tiny"], "Unknown generator type: 'onnx'"),
    ],
)
def test_a_model_that_cannot_answer_is_refused_before_anything_is_read(lmu_data, capsys, family, model, message):
    """Also where the same run has a benchmark that the model could do."""
    write_benchmark(lmu_data / "Pets.tsv", [{"index": 0, "question": "q", "answer": "x"}])

    command = ["eval", "--dataset", "demo/garments", "Pets", "--quiet", "--model_type", family, "--model", *model]

    assert main(command) == 2
    assert message in capsys.readouterr().err


def test_images_in_memory_are_shared_by_content(lmu_data, tmp_path):
    """Questions on the same image are one cluster, too few for an interval, and equal prompts are asked once."""
    same = image_cell(20, 20)
    rows = [{"index": i, "image": same, "question": f"q{i % 2}", "answer": "yes"} for i in range(4)]
    write_benchmark(lmu_data / "COCOQA.tsv", rows)
    with OpenAIServer(answer=lambda body: "yes") as server:
        [result] = evaluate(**settings(tmp_path, server))
        assert len(server.requests) == 2

    assert result.metrics["accuracy"] == 1.0
    assert "accuracy" not in result.intervals
