"""The API key goes to the server and nowhere else: no file, log, traceback, result or terminal has it."""

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from eyechart import run_task
from eyechart.compat.evalscope import TaskConfig
from eyechart.errors import EyechartError, UsageError
from eyechart.io.files import cache_root
from support.openai_server import OpenAIServer, Raw, Status
from support.retrieval_data import caption_config

KEY = "sk-proj-Zx81-very-secret-0123456789"
ROOT = Path(__file__).parents[2]
MODEL = ("internvl2-8b",)


def config(server, data, **model):
    whole = caption_config(server, data, verbose=True)
    entry = whole["eval_config"]["eval"]["models"][0]
    del entry["api_key"]
    entry |= model
    return whole


def holders(folder: Path, *texts: str) -> list[str]:
    """Return the files and texts that hold the key, as it is or in another coat."""
    coats = [KEY.encode(), KEY.encode().hex().encode(), KEY[::-1].encode()]
    files = [
        str(path) for path in folder.rglob("*") if path.is_file() and any(coat in path.read_bytes() for coat in coats)
    ]
    return files + [text for text in texts if KEY in text]


def test_a_good_run_leaves_the_key_nowhere(custom, here, capfd):
    with OpenAIServer(models=MODEL, key=KEY) as server:
        [result] = run_task(config(server, custom, api_key=KEY))

    shown = capfd.readouterr()
    assert result.facts["conversion_successful"] is True  # the server took the key
    assert holders(here, repr(result), shown.out, shown.err) == []
    assert "api_key: '***'" in Path("outputs/configs/task_config.yaml").read_text()


def test_a_refused_key_is_not_repeated_though_the_server_repeats_it(custom, here, capfd):
    with OpenAIServer(models=MODEL, key="another") as server, pytest.raises(EyechartError) as refusal:
        run_task(config(server, custom, api_key=KEY))

    shown = capfd.readouterr()
    everything = "".join(traceback.format_exception(refusal.value))
    assert "Incorrect API key provided: ***" in everything
    assert holders(here, everything, shown.out, shown.err) == []


@pytest.mark.parametrize("echo", [KEY, KEY.replace("-", "%2D"), "".join(f"\\u{ord(char):04x}" for char in KEY)])
def test_an_answer_that_contains_the_key_is_a_failure_and_not_stored(custom, here, echo):
    with OpenAIServer(models=MODEL, key=KEY) as server:
        body = b'{"choices": [{"message": {"content": "An image of %s"}}]}' % echo.encode()
        server.fault = lambda path, sent, attempt: Raw(body) if sent else None
        whole = config(server, custom, api_key=KEY)
        whole["eval_config"]["eval"]["min_success"] = 0
        [result] = run_task(whole)

    assert {"contains the API key" in failure["reason"] for failure in result.failures} == {True}
    assert len(result.failures) == 5
    assert holders(here, repr(result)) == []
    assert list((cache_root() / "responses").rglob("*.jsonl")) == []


def test_an_answer_that_contained_the_key_is_asked_for_again(custom, here):
    with OpenAIServer(models=MODEL, key=KEY) as server:
        calls = iter(range(100))
        server.answer = lambda body: KEY if next(calls) == 0 else f"An image of {len(json.dumps(body))} characters."
        whole = config(server, custom, api_key=KEY)
        whole["eval_config"]["eval"] |= {"min_success": 0, "concurrency": 1}
        [first] = run_task(whole)
        asked = len([request for request in server.requests if request.body])
        [second] = run_task(whole)

    assert (len(first.failures), first.counts["scored"], asked) == (1, 4, 5)
    assert (len(second.failures), second.counts["scored"]) == (0, 5)
    assert len([request for request in server.requests if request.body]) == 6


@pytest.mark.parametrize("key", ["None", "EMPTY", "image"])
def test_a_placeholder_for_a_key_changes_no_answer(custom, here, key):
    with OpenAIServer(models=MODEL, key=key, answer=lambda _: f"None of the images is EMPTY: {key}") as server:
        [result] = run_task(config(server, custom, api_key=key))

    said = [json.loads(line) for line in (Path(result.facts["save_path"]) / "corpus.jsonl").read_text().splitlines()]
    assert {one["text"] for one in said} == {f"None of the images is EMPTY: {key}"}


def test_errors_for_single_images_do_not_hold_the_key(custom, here):
    with OpenAIServer(models=MODEL, key=KEY) as server:
        server.fault = lambda path, body, attempt: Status(400, {"error": {"message": f"bad {KEY}"}}) if body else None
        whole = config(server, custom, api_key=KEY)
        whole["eval_config"]["eval"]["min_success"] = 0
        [result] = run_task(whole)

    assert len(result.failures) == 5
    assert holders(here, repr(result)) == []


@pytest.mark.parametrize("broken", [False, True])
def test_the_command_line_with_the_key_in_a_variable(custom, here, broken):
    with OpenAIServer(models=MODEL, key="another" if broken else KEY) as server:
        Path("task.json").write_text(json.dumps(config(server, custom, api_key_variable="MY_KEY")))
        path = os.pathsep.join([str(ROOT / "src")])
        done = subprocess.run(
            [sys.executable, "-m", "eyechart", "run", "task.json"],
            env={**os.environ, "PYTHONPATH": path, "MY_KEY": KEY},
            capture_output=True,
            text=True,
            check=False,
        )

    assert (done.returncode != 0) == broken
    assert holders(here, done.stdout, done.stderr) == []
    assert ("rejected the API key" in done.stderr) == broken


def test_a_missing_variable_is_said_by_its_name(custom):
    with OpenAIServer(models=MODEL) as server, pytest.raises(EyechartError, match="MY_KEY is not set"):
        run_task(config(server, custom, api_key_variable="MY_KEY"))


def test_other_secrets_of_a_config_are_hidden_too(here):
    from eyechart.io.secrets import redact_settings, secrets_in

    settings = {"model_kwargs": {"token": KEY, "max_tokens": 5}, "headers": {"Authorization": KEY}, "hf_token": KEY}

    assert redact_settings(settings) == {
        "model_kwargs": {"token": "***", "max_tokens": 5},
        "headers": {"Authorization": "***"},
        "hf_token": "***",
    }
    assert [secret.reveal() for secret in secrets_in(settings)] == [KEY] * 3


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ({"extra_body": {"api_key": KEY}}, "extra_body.api_key"),
        ({"extra_body": {"headers": {"Authorization": f"Bearer {KEY}"}}}, "extra_body.headers.Authorization"),
        ({"api_base": "http://localhost:1/v1/hunter2x", "api_key": "hunter2x"}, "api_base"),
        ({"model_name": "sk-THIS-IS-MY-SECRET"}, "model_name"),
        ({"model_name": "of-my-variable", "api_key_variable": "MY_KEY"}, "model_name"),
    ],
)
def test_a_key_that_would_be_kept_with_the_results_is_refused_by_its_place(model, field, custom, monkeypatch):
    monkeypatch.setenv("MY_KEY", "of-my-variable")
    with OpenAIServer(models=MODEL) as server, pytest.raises(UsageError, match="looks like an API key") as refused:
        run_task(config(server, custom, **model))
    assert field in str(refused.value)
    assert not any(secret in str(refused.value) for secret in (KEY, "hunter2x", "SECRET", "of-my-variable"))
    assert server.requests == []


def test_fields_of_a_request_that_are_only_called_so_are_sent(custom):
    with OpenAIServer(models=MODEL) as server:
        run_task(config(server, custom, extra_body={"prompt_cache_key": "captions-of-today"}))
    assert {request.body["prompt_cache_key"] for request in server.requests if request.body} == {"captions-of-today"}


def test_a_typed_config_shows_no_secret_however_deep_it_lies():
    model = {"model_name": "a/b", "api_key": KEY, "model_kwargs": {"token": KEY}}
    typed = TaskConfig(eval_config={"tool": "MTEB", "models": [model], "eval": {"tasks": ["STS16"]}})
    assert KEY not in repr(typed) + str(typed)
    assert "'token': '***'" in repr(typed)
    assert typed.model_dump(mode="json")["eval_config"]["models"][0]["api_key"] == "***"
