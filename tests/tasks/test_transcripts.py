"""Transcripts: what was sent and answered, by model and judge, from the server or the cache, and what it costs."""

import json
import re
from pathlib import Path

import pytest

from eyechart import evaluate
from eyechart.cli import main
from support.openai_server import OpenAIServer, Status
from support.vlm_data import image_cell, write_benchmark

KEY = "sk-proj-0123456789abcdef0123456789"
HOSTILE = "<img src=x onerror=alert(1)> \x1b[31mred\x1b[0m \u202e" + "long " * 3000
PETS = [
    {"index": i, "question": f"Which animal is number {i}?", "A": "cat", "B": "dog", "answer": "A"}
    | {"image": image_cell(color=(i, 0, 9))}
    for i in range(4)
]
USED = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}}


class World:
    """A model with reasoning, and a judge that cannot read the fourth answer until it is told how."""

    def __init__(self):
        self.readable = False

    def __call__(self, body):
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else content[-1]["text"]
        if body["model"] == "judge":
            return "A" if "feline" in text or self.readable else HOSTILE
        number = next(i for i, row in enumerate(PETS) if row["question"] in text)
        said = ["A", "B", "a small feline", HOSTILE][number]
        return {"role": "assistant", "content": said, "reasoning_content": f"thought {number}"}


@pytest.fixture
def world(lmu_data, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    write_benchmark(lmu_data / "Pets.tsv", PETS)
    (tmp_path / "prices.toml").write_text('["*"]\nprompt = 10\ncompletion = 100\n')
    with OpenAIServer(answer=World(), models=("vlm", "judge"), usage=USED, key=KEY) as server:

        def run(**changes):
            questions = {"api_base": server.api_base, "judge": "judge", "system_prompt": "Be brief.", "tries": 2}
            questions |= {"prices": str(tmp_path / "prices.toml"), **changes.pop("questions", {})}
            output, chosen = str(tmp_path / "r.json"), {"dataset": ["Pets"], "model": ["vlm"], "model_type": "api"}
            [result] = evaluate(**chosen, output=output, min_success=0.0, questions=questions, **changes)
            return result

        server.run = run
        yield server


def transcripts(result):
    return {record["id"]: record["transcript"] for record in result.iter_records()}


def test_a_transcript_holds_what_was_sent_and_answered_by_model_and_judge(world):
    world.fault = lambda path, body, attempt: Status(500) if "number 2" in str(body) and attempt == 1 else None

    found = transcripts(world.run())

    sent = next(r.body["messages"] for r in world.requests if "number 2?" in str(r.body) and r.body["model"] == "vlm")
    system, user, answer = found["2"]["messages"]
    assert found["2"]["version"] == 1
    assert system == {"role": "system", "content": ["Be brief."]} == {**sent[0], "content": [sent[0]["content"]]}
    image, text = user["content"]
    assert text == sent[1]["content"][1]["text"]
    assert (image.keys(), len(image["image"]), image["name"]) == ({"image", "name"}, 32, "2.png")
    assert answer.pop("seconds") > 0
    assert answer == {
        "role": "assistant",
        "content": ["a small feline"],
        "reasoning": "thought 2",
        "finish_reason": "stop",
        "tokens": {"prompt": 100, "completion": 5, "cached": 64},
        "retries": 1,
    }
    [judged] = found["2"]["judges"]
    asked = [r.body["messages"][0]["content"] for r in world.requests if r.body["model"] == "judge"]
    assert judged["question"] in asked
    assert "a small feline" in judged["question"]
    assert (judged["judge"], judged["repeat"], judged["verdict"]) == ("judge", 0, 1.0)
    assert [reply["content"] for reply in judged["replies"]] == [["A"]]
    [unread] = found["3"]["judges"]
    assert (unread["verdict"], [reply["content"] for reply in unread["replies"]]) == (None, [[HOSTILE]] * 3)
    assert "judges" not in found["0"]


def test_cached_answers_have_the_same_transcript_and_no_file_holds_the_key(world, tmp_path):
    first, again = transcripts(world.run()), transcripts(world.run())

    assert first.keys() == again.keys()
    for name, record in first.items():
        assert again[name]["messages"] == record["messages"]
    assert first["2"]["judges"] == again["2"]["judges"]
    text = "".join(path.read_text() for path in tmp_path.rglob("*.json*"))
    assert KEY not in text
    assert "base64" not in text


def test_answers_of_an_old_store_have_what_was_stored_and_null_for_the_rest(world, tmp_path):
    """Stores of earlier versions have neither seconds nor retries; their checksums still hold."""
    from eyechart.store import answer_store

    kept, old = answer_store.asdict, {"seconds", "retries"}
    with pytest.MonkeyPatch.context() as patch:
        without = lambda answer: {k: v for k, v in kept(answer).items() if k not in old}  # noqa: E731
        patch.setattr(answer_store, "asdict", without)
        world.run()
    sent = len(world.requests)

    found = transcripts(world.run())

    assert len(world.requests) == sent + 1  # the verdict that could not be read
    for record in found.values():
        answer = record["messages"][-1]
        assert (answer["seconds"], answer["retries"], answer["tokens"]["prompt"]) == (None, None, 100)


@pytest.mark.parametrize("skip_existing", [False, True])
def test_a_repeated_run_asks_again_for_unreadable_verdicts_and_failed_requests(world, skip_existing):
    world.fault = lambda path, body, attempt: Status(500) if "number 0" in str(body) else None
    first = world.run(on_error="skip")
    failed = transcripts(first)["0"]["messages"]
    world.fault, world.answer.readable = None, True
    before = len(world.requests)

    again = world.run(on_error="skip", skip_existing=skip_existing)

    asked = [request.body for request in world.requests[before:] if request.body]
    assert [("number 0" in str(body), body["model"]) for body in asked] == [(True, "vlm"), (False, "judge")]
    assert first.details["lost"] == {"failed": 1, "unreadable verdict": 1}
    assert "lost" not in again.details
    assert (first.metrics["accuracy"], again.metrics["accuracy"]) == (0.25, 0.75)
    assert (failed[1]["role"], failed[-1]["content"]) == ("user", [""])
    assert "scripted failure 500" in failed[-1]["error"]
    assert (
        world.run(on_error="skip", skip_existing=True).metrics == again.metrics
    )  # now it is complete: nothing is asked
    assert len(world.requests) == before + len(asked)


def test_the_benchmark_costs_the_same_whether_its_answers_are_new_or_cached(world):
    world.answer.readable = True
    first, again = (world.run().details["spent"] for _ in range(2))

    for part, n in (("model", 4), ("judge", 2)):
        new, cached = (spent["model"] if part == "model" else spent["judges"]["judge"] for spent in (first, again))
        price = round(n * (100 * 10 + 5 * 100) / 1e6, 6)
        assert (new["asked"], new["answers"], cached["asked"], cached["answers"]) == (n, n, 0, n)
        assert (new["cost"], new["cost_of_answers"]) == (price, price)
        assert (cached["cost"], cached["cost_of_answers"]) == (0, price)
        assert new["tokens_of_answers"] == cached["tokens_of_answers"]
        assert new["tokens_of_answers"]["prompt_tokens"] == 100 * n


def test_questions_that_are_sent_once_cost_once(world, lmu_data):
    write_benchmark(lmu_data / "Pets.tsv", [{**PETS[1], "index": i} for i in range(3)])

    spent = [world.run().details["spent"]["model"] for _ in range(2)]

    assert [one["tokens_of_answers"]["prompt_tokens"] for one in spent] == [100, 100]


def test_the_terminal_shows_both_costs_and_how_to_give_a_price(world, tmp_path, capsys):
    world.answer.readable = True
    flags = ["eval", "--dataset", "Pets", "--model", "vlm", "--model-type", "api", "--api-base", world.api_base]
    flags += ["--output", str(tmp_path / "t.json"), "--min-success", "0"]
    for more in ([], ["--prices", str(tmp_path / "prices.toml")]):
        assert main([*flags, *more]) == 0
    shown = " ".join(capsys.readouterr().out.split())

    whole = "model: whole benchmark: answers 4, prompt tokens 400, completion tokens 20"
    new = "requests 4, prompt tokens 400, completion tokens 20"
    assert f"{whole}; new in this run: {new}" in shown
    assert shown.count("For the cost, give the prices of tokens: --prices FILE.") == 1
    assert f"{whole}, cost 0.0060 USD; new in this run: nothing, all is cached" in shown
    assert "\x1b" not in shown


def test_a_captioner_has_transcripts_too(tmp_path):
    from support.data import write_retrieval

    write_retrieval(tmp_path / "data", captions=[["a red dog"], ["an old car"]])
    with OpenAIServer(answer=lambda body: "a dog") as server:
        for task in ("captioning", "image_caption"):
            [result] = evaluate(
                dataset=[str(tmp_path / "data")],
                model=["test-model"],
                model_type="api",
                task=task,
                output=str(tmp_path / f"{task}.json"),
                questions={"api_base": server.api_base},
            )
            for record in result.iter_records():
                user, answer = record["transcript"]["messages"]
                assert [type(part) for part in user["content"]] == [dict, str]
                assert (answer["content"], answer["tokens"]["prompt"]) == (["a dog"], 10)
            assert result.details["spent"]["model"]["answers"] == 2


def test_each_turn_of_a_dialogue_has_its_own_messages(lmu_data, tmp_path):
    from eyechart.scorers.scoring import score_rows
    from support.vlm_data import benchmark_of_kind

    answer = {"role": "assistant", "finish_reason": "stop"}
    turns = [[{"role": "user", "content": [f"q{i}"]}, {**answer, "content": [f"r{i}"]}] for i in range(2)]
    row = {"index": 7, "question": "['q0', 'q1']", "answer": "['a', 'b']", "prediction": "['r0', 'r1']"}
    row["transcript"] = [message for turn in turns for message in turn]

    scored = score_rows([row], benchmark_of_kind("dialogue", "optional"))

    assert [part["transcript"] for part in scored.rows] == turns


def names_in(value):
    """Return the keys of all objects within a JSON value."""
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    return value.keys() | names_in(list(value.values())) if isinstance(value, dict) else set()


def test_the_documented_schema_has_every_written_field_and_no_other(world):
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text("utf-8").partition("## Transcripts")[2]
    section = page.partition("\n## ")[0]
    example = json.loads(section.partition("```json\n")[2].partition("```")[0])
    table = "\n".join(line for line in section.splitlines() if line.startswith("| `"))

    written = transcripts(world.run())["2"]

    assert names_in(example) == names_in(written)
    assert [one.keys() for one in example["messages"]] == [one.keys() for one in written["messages"]]
    assert example["judges"][0].keys() == written["judges"][0].keys()
    assert example["judges"][0]["replies"][0].keys() == written["judges"][0]["replies"][0].keys()
    optional = {"refusal", "error"}
    assert set(re.findall(r"`(\w+)`", table)) >= names_in(written) | optional
