"""Two hundred captions: quickly, over a bad line, and with the process killed on the way."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from eyechart import run_task
from support.openai_server import Cut, OpenAIServer, Status, random_faults
from support.retrieval_data import caption_config, many_images, read_rows

ROOT = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
MODEL = "internvl2-8b"
DATA = Path("outputs") / MODEL / "custom" / "retrieval_data"
COUNT = 200


@pytest.mark.parametrize("concurrency", [1, 32])
def test_as_many_captions_are_asked_for_at_a_time_as_the_config_says(here, concurrency):
    """A run begins with few requests at a time and adds one for each answer: after those, answers wait for the rest."""
    data, full = many_images(Path("d"), COUNT), threading.Event()

    def answer(body):
        if server.in_flight == concurrency:
            full.set()
        if sum(server.paid.values()) >= concurrency:
            full.wait(60)
        return "An image."

    with OpenAIServer(models=(MODEL,), answer=answer) as server:
        [result] = run_task(caption_config(server, data, limit=COUNT, concurrency=concurrency))

    assert result.details["spent"]["model"]["asked"] == COUNT
    assert server.most_in_flight == concurrency


@pytest.mark.slow
def test_a_fifth_of_bad_answers_loses_no_caption_and_pays_none_twice(here):
    data = many_images(Path("d"), COUNT)
    faults = random_faults(
        0.2, Status(429, headers={"Retry-After": "0"}), Status(500), Cut(), Cut(in_body=False), seed=1
    )
    with OpenAIServer(models=(MODEL,), delay=0.02) as server:
        server.fault = lambda path, body, attempt: faults(path, body, attempt) if body else None
        [result] = run_task(caption_config(server, data, limit=None, concurrency=32))

    spoiled = [request for request in server.requests if request.outcome != "200"]
    assert result.facts["conversion_successful"] is True
    assert len(read_rows(DATA / "corpus.jsonl")) == COUNT
    assert len(spoiled) > COUNT / 10
    assert set(server.paid.values()) == {1}
    assert len(server.paid) == COUNT


def start_client(config):
    """Start the command line on a config in a process of its own."""
    Path("config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "eyechart", "run", "config.json", "--quiet"]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": PYTHONPATH})


def files():
    return {path.name: path.read_bytes() for path in DATA.rglob("*") if path.is_file()}


KILLS = int(os.environ.get("EYECHART_KILLS", "3"))
"""How often the run is killed; set the variable for more."""


@pytest.mark.slow
def test_kill_9_at_random_moments_costs_only_what_was_in_flight(here, monkeypatch):
    data = many_images(Path("d"), COUNT)
    concurrency, moments = 32, random.Random(7)
    with OpenAIServer(models=(MODEL,), delay=0.2, answer=lambda body: f"Caption {len(json.dumps(body))}") as server:
        config = caption_config(server, data, limit=None, concurrency=concurrency)
        killed = 0
        for _ in range(KILLS):
            client = start_client(config)
            before, moment = sum(server.paid.values()), moments.randint(0, COUNT // (KILLS + 1))
            while sum(server.paid.values()) < before + moment and client.poll() is None:
                time.sleep(0.01)
            client.send_signal(signal.SIGKILL)
            killed += client.wait() == -signal.SIGKILL
        assert start_client(config).wait() == 0
        after_kills = files()

    twice = sum(count - 1 for count in server.paid.values())
    assert killed == KILLS
    assert len(server.paid) == COUNT
    assert twice <= killed * concurrency

    # The same as in one go, byte by byte.
    for path in (DATA / "corpus.jsonl", DATA / "queries.jsonl"):
        path.unlink()
    monkeypatch.setenv("EYECHART_CACHE", str(Path("fresh").absolute()))
    with OpenAIServer(models=(MODEL,), answer=lambda body: f"Caption {len(json.dumps(body))}") as server:
        run_task(caption_config(server, data, limit=None, concurrency=concurrency))
    assert files() == after_kills
