"""Captions from a server on its worst days: none lost, none paid twice, and the exit code tells."""

import itertools
import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PIL import Image

from eyechart import run_task
from eyechart.api.errors import ApiError, KeyRefusedError, ServerBusyError
from eyechart.api.limiter import RepeatedFailureError
from eyechart.cli import main
from eyechart.errors import IncompleteError
from support.openai_server import Cut, OpenAIServer, Raw, Status
from support.retrieval_data import caption_config, many_images, read_rows, sent_image

MODEL = "internvl2-8b"
KEY = "sk-proj-Zx81-very-secret-0123456789"
DATA = Path(f"outputs/{MODEL}/custom/retrieval_data")
ERROR_BODY = {"error": {"message": f"upstream is gone, says {KEY}", "type": "server_error"}}
FAULTS = (
    Status(429, headers={"Retry-After": "0.01"}),
    Status(429, headers={"retry-after-ms": "5"}),
    Status(503, {"error": {"message": f"busy with {KEY}"}}, headers={"Retry-After": "0"}),
    Raw(json.dumps(ERROR_BODY).encode()),
    Raw(b'{"choices": [{"message": {"role": "assistant", "content": "An image of'),
    Raw(b""),
    Cut(),
    Cut(in_body=False),
)


def hostile(seed):
    """Spoil the first attempt of every other request, and some later ones."""
    generator, lock = random.Random(seed), threading.Lock()

    def fault(path, body, attempt):
        with lock:
            spoiled = body is not None and attempt <= 2 and generator.random() < 0.5
            return generator.choice(FAULTS) if spoiled else None

    return fault


def rambling(body):
    return "An image, as it is said, " + "and more of it, " * (len(json.dumps(body)) % 400) + "at last."


def run_command(config, **environment):
    """Run a config by the command line in a process of its own."""
    Path("config.json").write_text(json.dumps(config))
    path = str(Path(__file__).parents[2] / "src")
    return subprocess.run(
        [sys.executable, "-m", "eyechart", "run", "config.json"],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_caption_is_lost_and_none_is_paid_twice(here):
    data = many_images(Path("d"), 60)
    with OpenAIServer(models=(MODEL,), answer=rambling, fault=hostile(3), key=KEY) as server:
        config = caption_config(server, data, limit=None, concurrency=16)
        del config["eval_config"]["eval"]["models"][0]["api_key"]
        done = run_command(config, OPENAI_API_KEY=KEY)

    assert done.returncode == 0, done.stderr
    assert len(read_rows(DATA / "corpus.jsonl")) == 60
    assert (len(server.paid), set(server.paid.values())) == (60, {1})
    assert len([request for request in server.requests if request.outcome != "200"]) > 20
    assert "captions have more than about 512 tokens" in done.stderr
    written = [path for path in here.rglob("*") if path.is_file()]
    assert len(written) > 60
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []
    assert KEY not in done.stdout + done.stderr


@pytest.mark.parametrize("way", ["api_key", "api_key_variable", "EYECHART_API_KEY", "OPENAI_API_KEY"])
def test_wherever_the_key_is_given_it_is_in_no_file_and_no_message(here, monkeypatch, capfd, way):
    data = many_images(Path("d"), 4)
    refusal = Status(400, {"error": {"message": f"{KEY} may not see that"}}, headers={"Location": KEY})
    with OpenAIServer(models=(MODEL,), key=KEY, answer=lambda body: f"It says {KEY}.") as server:
        server.fault = lambda path, body, attempt: refusal if body and len(server.requests) % 2 else None
        config = caption_config(server, data, concurrency=1, verbose=True)
        model = config["eval_config"]["eval"]["models"][0]
        del model["api_key"]
        if way == "api_key":
            model["api_key"] = KEY
        else:
            model |= {"api_key_variable": "MY_KEY"} if way == "api_key_variable" else {}
            monkeypatch.setenv("MY_KEY" if way == "api_key_variable" else way, KEY)
        with pytest.raises(IncompleteError) as lost:
            run_task(config)

    shown = capfd.readouterr()
    assert "*** may not see that" in str(lost.value)
    assert KEY not in str(lost.value) + shown.out + shown.err
    assert [path for path in here.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()] == []


def test_500_captions_at_a_server_that_takes_eight_at_once(here):
    data = many_images(Path("d"), 500)
    with OpenAIServer(models=(MODEL,), delay=0.004, at_once=8) as server:
        [result] = run_task(caption_config(server, data, limit=None, concurrency=64))

    asked = [request for request in server.requests if request.method == "POST"]
    assert result.facts["conversion_successful"] is True
    assert (len(server.paid), set(server.paid.values())) == (500, {1})
    assert len(asked) <= 560


def test_the_size_of_a_batch_is_not_the_number_of_requests_at_a_time(here):
    data = many_images(Path("d"), 60)
    with OpenAIServer(models=(MODEL,), delay=0.02) as server:
        run_task(caption_config(server, data, limit=None, batch_size=128))

    assert server.most_in_flight <= 8


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Status(401), KeyRefusedError),
        (Status(404), ApiError),
        (Status(429, headers={"Retry-After": "0"}), ServerBusyError),
        (Status(400, {"error": {"message": "temperature is not supported"}}), RepeatedFailureError),
    ],
)
def test_a_server_that_refuses_everything_is_left_alone_soon(here, capfd, fault, kind):
    data = many_images(Path("d"), 100)
    with OpenAIServer(models=(MODEL,)) as server:
        server.fault = lambda path, body, attempt: fault if body else None
        config = caption_config(server, data, limit=None, tries=2)
        with pytest.raises(kind):
            run_task(config)
        Path("config.json").write_text(json.dumps(config))
        assert main(["run", "config.json", "--quiet"]) == 1

    asked = [request for request in server.requests if request.method == "POST"]
    assert len(asked) <= 2 * 40
    assert not DATA.exists()


def test_when_no_image_gets_a_caption_the_run_fails_and_good_captions_stay(here, monkeypatch):
    data = many_images(Path("d"), 5)
    with OpenAIServer(models=(MODEL,), answer=lambda body: f"Caption {len(json.dumps(body))}.") as server:
        run_task(caption_config(server, data))
        good = (DATA / "corpus.jsonl").read_bytes()
        monkeypatch.setenv("EYECHART_CACHE", "another machine's cache")
        server.answer = lambda _: ""
        with pytest.raises(IncompleteError, match=r"5 of 5 samples are lost.*d/0\.png: The caption is empty"):
            run_task(caption_config(server, data))

    assert (DATA / "corpus.jsonl").read_bytes() == good


def test_just_the_share_that_is_asked_for_is_enough(here):
    data = many_images(Path("d"), 20)
    numbers = itertools.count()
    with OpenAIServer(models=(MODEL,)) as server:
        server.fault = lambda path, body, attempt: Status(400) if body and next(numbers) < 11 else None
        [result] = run_task(caption_config(server, data, limit=None, concurrency=1, min_success=0.45))
    assert result.counts["failed"] == 11


def test_fewer_captions_than_before_go_beside_them(here, monkeypatch):
    data = many_images(Path("d"), 5)
    broken = Image.open("d/0.png").getpixel((0, 0))
    with OpenAIServer(models=(MODEL,)) as server:
        run_task(caption_config(server, data))
        good = (DATA / "corpus.jsonl").read_bytes()
        monkeypatch.setenv("EYECHART_CACHE", "another machine's cache")
        server.answer = lambda body: "" if sent_image(body).getpixel((0, 0)) == broken else "A caption."
        [result] = run_task(caption_config(server, data, min_success=0.8))

    assert (DATA / "corpus.jsonl").read_bytes() == good
    beside = Path(result.facts["save_path"])
    assert (beside.name, len(read_rows(beside / "corpus.jsonl"))) == ("retrieval_data_incomplete", 4)
    assert "the earlier ones are kept" in next(
        notice["message"] for notice in result.notices if notice["kind"] == "fuller_captions_kept"
    )


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            {"content": None, "refusal": "I cannot describe this."},
            "The model refused to describe the image: 'I cannot desc",
        ),
        ({"content": "\u200b\u200b\u2060\ufeff"}, "The caption is empty except for invisible characters"),
        ({"content": "\u3164\u2800 \u00ad"}, "The caption is empty except for invisible characters"),
        ({"content": "very " * 300_000}, "The caption has 1500000 characters, more than the limit of 1000000"),
        ({"content": "<think>The user wants me to"}, "The reasoning was truncated before the caption"),
        ({"content": ""}, "The caption is empty."),
    ],
)
def test_what_is_no_caption_is_told_with_the_image_and_the_models_words(here, message, said):
    data = many_images(Path("d"), 1)
    with OpenAIServer(models=(MODEL,), answer=lambda _: {"role": "assistant", **message}) as server:
        [result] = run_task(caption_config(server, data, min_success=0))

    [failure] = result.failures
    assert failure["reason"].startswith(f"d/0.png: {said}")
    assert not DATA.exists()


def test_a_model_that_says_the_same_of_every_image_is_noticed(here):
    data = many_images(Path("d"), 4)
    with OpenAIServer(models=(MODEL,), answer=lambda _: "I cannot describe this.") as server:
        [result] = run_task(caption_config(server, data))
    assert [(notice["kind"], notice["count"]) for notice in result.notices] == [
        ("model_note", 1),
        ("equal_captions", 4),
    ]
    assert "'I cannot describe this.'" in result.notices[1]["message"]


def test_a_missing_file_is_skipped_like_one_that_cannot_be_read(here):
    data = many_images(Path("d"), 4)
    Path("d/1.png").unlink()
    Path("d/2.png").write_bytes(b"no image")
    with OpenAIServer(models=(MODEL,)) as server:
        [result] = run_task(caption_config(server, data, on_error="skip"))
        Path("d/1.png").write_bytes(Path("d/3.png").read_bytes())
        with pytest.raises(IncompleteError, match="1 of 4 samples are lost"):
            run_task(caption_config(server, data))

    assert result.counts == {"listed": 4, "scored": 2, "failed": 2, "skipped": 2}
    reasons = sorted(failure["reason"] for failure in result.failures)
    assert reasons[0].startswith("d/1.png: cannot read the image")
    assert reasons[1].startswith("d/2.png: cannot decode the image")


def test_captions_made_in_another_way_do_not_replace_the_first(here):
    data = many_images(Path("d"), 3)
    with OpenAIServer(models=(MODEL,), answer=lambda body: json.dumps(body)[-200:]) as server:
        config = caption_config(server, data)
        model = config["eval_config"]["eval"]["models"][0]
        [first] = run_task(config)
        kept = (DATA / "corpus.jsonl").read_bytes()
        others = [{"prompt": "In one word?"}, {"temperature": 0.7}, {"prompt_role": "system"}]
        folders = set()
        for other in others:
            config["eval_config"]["eval"]["models"] = [model | other]
            [result] = run_task(config)
            folders.add(result.facts["save_path"])
        config["eval_config"]["eval"]["models"] = [model]
        [again] = run_task(config)

    assert (DATA / "corpus.jsonl").read_bytes() == kept
    assert again.facts["save_path"] == first.facts["save_path"] == str(DATA)
    assert len(folders | {str(DATA)}) == 4


def test_the_prompt_may_be_the_systems_as_evalscope_sends_it(here):
    data = many_images(Path("d"), 1)
    with OpenAIServer(models=(MODEL,)) as server:
        config = caption_config(server, data)
        config["eval_config"]["eval"]["models"][0]["prompt_role"] = "system"
        run_task(config)

    [request] = [request for request in server.requests if request.method == "POST"]
    system, user = request.body["messages"]
    assert system == {"role": "system", "content": "Describe this image in English"}
    assert [part["type"] for part in user["content"]] == ["image_url"]
