"""A real OpenAI-compatible server: ``transformers serve`` with a tiny random LLaVA."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from eyechart import run_task
from eyechart.api import ApiError
from eyechart.io.images import ImageRef
from eyechart.models.local_generators import TransformersGeneratorFamily
from eyechart.types import Message, ModelSpec
from support.retrieval_data import caption_config, many_images, read_rows
from support.tiny_vlm import save_tiny_vlm

pytest.importorskip("uvicorn")
pytest.importorskip("fastapi")
PROMPT = "What is this?"


@pytest.fixture(scope="module")
def vlm(tmp_path_factory):
    return save_tiny_vlm(tmp_path_factory.mktemp("served") / "tiny-vlm")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The server's address; it has an empty cache of its own, and no network."""
    home = tmp_path_factory.mktemp("home")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = shutil.which("transformers", path=str(Path(sys.executable).parent)) or "transformers"
    command = [program, "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(port, process, home / "log")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()


def wait_for(port, process, log):
    for _ in range(600):
        if process.poll() is not None:
            pytest.fail(log.read_text()[-2000:])
        try:
            httpx2.get(f"http://127.0.0.1:{port}/health", timeout=2, trust_env=False)
        except httpx2.TransportError:
            time.sleep(0.3)
        else:
            return
    pytest.fail("the server did not start")


@pytest.mark.slow
def test_its_captions_are_those_of_the_same_model_on_this_machine(here, server, vlm):
    data = many_images(Path("d"), 4)
    config = caption_config(server, data, timeout=120)
    config["eval_config"]["eval"]["models"] = [
        {"model_name": str(vlm), "api_base": server, "prompt": PROMPT, "max_tokens": 8}
    ]

    [result] = run_task(config)

    generator = TransformersGeneratorFamily().load(
        ModelSpec("transformers", str(vlm), options={"settings": {"max_tokens": 8}})
    )
    rows = read_rows("outputs/tiny-vlm/custom/retrieval_data/corpus.jsonl")
    expected = [
        generator.generate([Message("user", (ImageRef.from_path(Path(f"d/{i}.png")), PROMPT))]) for i in range(4)
    ]
    assert result.facts["conversion_successful"] is True
    assert [row["text"] for row in rows] == [answer.text for answer in expected]
    assert result.details["spent"]["model"]["completion_tokens"] >= 4 * 8


@pytest.mark.slow
def test_a_model_that_it_cannot_load_is_an_error_of_the_run(here, server):
    data = many_images(Path("d"), 2)
    config = caption_config(server, data, tries=1, timeout=120)
    config["eval_config"]["eval"]["models"][0]["model_name"] = "nobody/no-such-model"

    with pytest.raises(ApiError):
        run_task(config)

    assert not Path("outputs/no-such-model").exists()
