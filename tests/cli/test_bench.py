"""`eyechart bench-api`: a real server on the loopback, a bounded number of requests, and what is said of them."""

import json
import threading

import pytest

from eyechart.cli import main
from support.openai_server import OpenAIServer, Status


def bench(server, *words):
    return main(["bench-api", "--api_base", server.api_base, "--model", "test-model", *words])


@pytest.mark.parametrize(("kind", "field"), [("embeddings", "input"), ("rerank", "documents")])
def test_so_many_requests_of_so_many_texts_are_sent(kind, field, tmp_path, capsys):
    with OpenAIServer() as server:
        code = bench(server, "--kind", kind, "--requests", "12", "--batch_size", "5", "--words", "7",
                     "--concurrency", "3", "--output", str(tmp_path / "speed.json"))  # fmt: skip

    sent = [request.body[field] for request in server.requests]
    assert code == 0
    assert len(sent) == 13  # one to warm up
    assert {len(texts) for texts in sent} == {5}
    assert {len(text.split()) for texts in sent for text in texts} == {7}
    assert len({text for texts in sent for text in texts}) == 13 * 5  # nothing that a cache could answer
    assert server.most_in_flight <= 3
    found = json.loads((tmp_path / "speed.json").read_text())
    assert (found["requests"], found["failed"], found["retried"]) == (12, 0, 0)
    assert found["items_per_second"] == pytest.approx(5 * found["requests_per_second"], rel=1e-3)
    assert set(found["latency_seconds"]) == {"p50", "p90", "p95", "max"}  # 12 requests have no 99th percentile
    assert "12 requests of 5" in capsys.readouterr().out


@pytest.mark.parametrize(("model", "precision"), [("eyechart-tiny", "fp32"), ("eyechart-tiny-int8", "int8")])
def test_an_encoder_is_measured_alone_and_in_batches(model, precision, tmp_path, capsys):
    assert main(["bench", model, "--requests", "100", "--batch-size", "4", "--output", str(tmp_path / "b.json")]) == 0

    found = json.loads((tmp_path / "b.json").read_text())
    assert (found["model"], found["precision"], found["device"]) == (model, precision, "cpu")
    assert found["device_name"]
    assert found["peak_memory"] > 20_000_000
    assert [(one["kind"], one["batch_size"]) for one in found["measurements"]] == [
        ("image", 1), ("image", 4), ("text", 1), ("text", 4)]  # fmt: skip
    for one in found["measurements"]:
        points = one["latency_seconds"]
        assert 0 < points["p50"] <= points["p95"] <= points.get("p99", points["max"]) <= points["max"]
        assert one["items_per_second"] == pytest.approx(one["batch_size"] * one["requests_per_second"], rel=1e-3)
    assert f"{model}, {precision}, cpu, {found['device_name']}, peak memory" in capsys.readouterr().out


def test_an_encoder_is_measured_at_least_once_however_short_the_time(tmp_path):
    words = ["--seconds", "1e-9", "--batch-size", "2", "--output", str(tmp_path / "b.json")]

    assert main(["bench", "eyechart-tiny", *words]) == 0

    measured = json.loads((tmp_path / "b.json").read_text())["measurements"]
    assert [one["requests"] for one in measured] == [1, 1, 1, 1]


def test_something_must_be_named_to_be_measured(capsys):
    assert main(["bench", "--requests", "3"]) == 2
    assert "There is no model to measure.\nName one, or a server with --api-base URL." in capsys.readouterr().err


def test_chat_completions_are_measured_with_prompts_and_images_of_their_own(tmp_path, capsys):
    with OpenAIServer(delay=0.02, usage={"prompt_tokens": 30, "completion_tokens": 10}) as server:
        code = bench(server, "--kind", "chat", "--requests", "12", "--words", "7", "--max-tokens", "9",
                     "--image-size", "64", "--concurrency", "3", "--output", str(tmp_path / "speed.json"))  # fmt: skip

    bodies = [request.body for request in server.requests]
    contents = [body["messages"][0]["content"] for body in bodies]
    assert (code, len(bodies)) == (0, 13)
    assert {body["max_tokens"] for body in bodies} == {9}
    assert {tuple(part["type"] for part in content) for content in contents} == {("image_url", "text")}
    assert len({str(content[0]) for content in contents}) == len({str(content[1]) for content in contents}) == 13
    assert 1 < server.most_in_flight <= 3
    found = json.loads((tmp_path / "speed.json").read_text())
    assert (found["kind"], found["requests"], found["failed"]) == ("chat", 12, 0)
    assert found["latency_seconds"]["p50"] >= 0.02
    assert found["tokens_per_second"] == pytest.approx(4 * found["completion_tokens_per_second"], rel=1e-3)
    assert found["completion_tokens_per_second"] == pytest.approx(10 * found["requests_per_second"], rel=1e-3)
    shown = capsys.readouterr().out
    assert "12 requests of 1 prompt, 3 concurrent" in shown
    assert "completion tokens/s" in shown
    assert "(complete answers)" in shown


def test_a_chat_server_that_answers_nonsense_fails_and_its_words_are_inert(capsys):
    with OpenAIServer(
        fault=lambda path, body, attempt: Status(400, {"error": {"message": "\x1b[31mno\x07"}})
    ) as server:
        assert bench(server, "--kind", "chat", "--requests", "3") == 1

    printed = capsys.readouterr()
    assert "no" in printed.out + printed.err
    assert not {"\x1b", "\x07"} & set(printed.out + printed.err)


def test_percentiles_are_latencies_that_were_seen(tmp_path):
    from eyechart.cli.bench import speed_figures

    speed = speed_figures(
        "rerank",
        2,
        seconds=10.0,
        latencies=[i / 1000 for i in range(1, 101)],
        retried=2,
        errors=["it broke"],
        tokens=50,
    )

    assert speed["latency_seconds"] == {"p50": 0.05, "p90": 0.09, "p95": 0.095, "p99": 0.099, "max": 0.1}
    assert speed["requests_per_second"] == 10
    assert speed["items_per_second"] == 20
    assert speed["tokens_per_second"] == 5


def test_failures_are_counted_and_tell_in_the_exit_code(capsys):
    seen, lock = [], threading.Lock()

    def every_third(path, body, attempt):
        with lock:
            seen.append(body)
            return Status(500) if len(seen) % 3 == 0 else None

    with OpenAIServer(fault=every_third) as server:
        code = bench(server, "--requests", "8", "--batch_size", "1", "--concurrency", "1")

    shown = capsys.readouterr().out
    assert code == 1
    assert "3 failed" in shown
    assert "first error" in shown


def test_nothing_more_is_sent_when_the_time_is_over(capsys):
    with OpenAIServer() as server:
        code = bench(server, "--requests", "1000", "--seconds", "1e-9")

    assert code == 0
    assert len(server.requests) == 1  # to warm up, before the clock starts
    assert "0 requests of 16 texts" in capsys.readouterr().out


def test_a_server_of_text_embeddings_inference_is_asked_in_its_form():
    with OpenAIServer() as server:
        code = bench(server, "--kind", "rerank", "--rerank_form", "tei", "--requests", "2", "--batch_size", "3")

    assert code == 0
    assert all(len(request.body["texts"]) == 3 for request in server.requests)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--requests", "0"], "--requests must be 1 or more"),
        (["--requests", "1000000"], "at most 100000"),
        (["--texts", "nowhere.txt"], "Cannot read the texts"),
        (["--api_key_variable", "NO_SUCH_KEY"], "NO_SUCH_KEY is not set"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_sent(words, said, capsys):
    with OpenAIServer() as server:
        assert bench(server, *words) == 2

    assert said in capsys.readouterr().err
    assert server.requests == []


def test_a_wrong_model_and_a_missing_server_are_told(capsys):
    with OpenAIServer(models=("other",)) as server:
        assert bench(server) == 1
    assert "test-model" in capsys.readouterr().err
    assert main(["bench-api", "--api_base", "http://127.0.0.1:9/v1", "--model", "x"]) == 1
    assert "Cannot connect to" in capsys.readouterr().err
