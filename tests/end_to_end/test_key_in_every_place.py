"""A key in the right place, in wrong places and in what a server echoes: nowhere in files, logs, titles or output."""

import base64
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from eyechart.cli import main
from support.openai_server import Drip, OpenAIServer, Raw, Status
from support.vlm_data import write_benchmark

KEY = "sk-proj-Zx81-very-secret-0123456789"
ODD_KEY = "Zx81/very+secret=0123456789"
ANSWERS = ["cat", "dog", "cow", "none", "EMPTY", "***"]
COATS = {
    "plain": str,
    "json slashes": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "json unicode": lambda key: "".join(f"\\u{ord(char):04x}" for char in key),
    "url": lambda key: quote(key, safe=""),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "hexadecimal": lambda key: key.encode().hex(),
}


@pytest.fixture(autouse=True)
def pets(lmu_data, tmp_path, monkeypatch):
    rows = [{"index": i, "question": f"question {i}?", "answer": answer} for i, answer in enumerate(ANSWERS)]
    write_benchmark(lmu_data / "Pets.tsv", rows)
    monkeypatch.chdir(tmp_path)
    for name in ("EYECHART_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def said(body):
    """Answer the question that a request holds."""
    [text] = [part["text"] for part in body["messages"][-1]["content"] if part["type"] == "text"]
    return ANSWERS[int(text.split()[1].removesuffix("?"))]


def command(server, *words):
    usual = ("eval", "Pets", "--model", "test-model", "--model-type", "api", "--api-base", server.api_base)
    return [*usual, "--tries", "1", "--concurrency", "1", "--output", "out/r.json", *words]


def leaks(folder, *texts, key=KEY):
    """Return the files and texts that hold the key in any coat."""
    found = [str(path) for path in folder.rglob("*") if key in path.name]
    coats = [coat(key) for coat in COATS.values()]
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "given.yaml":
            found += [str(path) for coat in coats if coat.encode() in path.read_bytes()]
    return found + [text for text in texts if any(coat in text for coat in coats)]


WRONG = {
    "flag": ["--api-key", KEY],
    "flag with an underscore": [f"--api_key={KEY}"],
    "another flag": ["--judge-key", KEY],
    "unknown flag": ["--hf-token", KEY],
    "name of a variable": ["--api-key-variable", KEY],
    "name of a judge's variable": ["--judge", "test-model", "--judge-key-variable", KEY],
    "model": ["--model", KEY],
    "user of a URL": ["--api-base", f"http://{quote(KEY, safe='')}@127.0.0.1:1/v1"],
    "password of a URL": ["--api-base", f"http://me:{KEY}@127.0.0.1:1/v1"],
    "query of a URL": ["--api-base", f"http://127.0.0.1:1/v1?api_key={KEY}"],
    "path of a URL": ["--api-base", f"http://127.0.0.1:1/{KEY}"],
    "no URL": ["--api-base", KEY],
    "URL of a judge": ["--judge", "j", "--judge-api-base", f"https://me:{KEY}@127.0.0.1:1/v1"],
    "pretrained": ["--pretrained", f"http://127.0.0.1:1/v1#{KEY}"],
    "option of the model": ["--model-option", f"api_key={KEY}"],
    "request field": ["--model-option", f"settings={json.dumps({'api_key': KEY})}"],
    "header": ["--model-option", f"headers={json.dumps({'Authorization': f'Bearer {KEY}'})}"],
    "prompt": ["--system-prompt", f"Your key is {KEY}."],
    "judge": ["--judge", KEY],
    "dataset": ["--dataset", KEY],
    "output": ["--output", f"out/{KEY}.json"],
    "number": ["--max-tokens", KEY],
    "number or word": ["--temperature", KEY],
    "duration": ["--max-age", KEY],
    "choice": ["--extractor", KEY],
    "language": ["--language", KEY],
    "config": ["--config", "given.yaml"],
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_a_key_in_a_wrong_place_is_refused_and_not_repeated(words, tmp_path, capfd):
    Path("given.yaml").write_text(f"api_key: {KEY}\nmodel: {KEY}\n")
    with OpenAIServer(answer=said) as server:
        try:
            code = main(command(server, *words))
        except SystemExit as stop:
            code = stop.code

    shown = capfd.readouterr()
    assert (code, server.requests) == (2, [])
    assert leaks(tmp_path, shown.out, shown.err) == []


@pytest.mark.parametrize("words", [["--api-key", KEY], [f"--api_key={KEY}"], ["--api-key-variable", KEY]])
def test_no_command_expands_or_repeats_a_key(words, capfd):
    with pytest.raises(SystemExit) if "variable" not in words[0] else pytest.MonkeyPatch.context():
        assert main(["bench-api", "--api-base", "http://127.0.0.1:1/v1", *words]) == 2

    shown = capfd.readouterr()
    assert KEY not in shown.out + shown.err


def results(folder):
    """Read what a run leaves: its records, predictions and stored answers, without the time of an answer."""
    stored = [
        json.loads(line)
        for path in sorted(folder.rglob("responses/**/*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    texts = sorted((one["key"], one["text"], one["thinking"], one["finish_reason"]) for one in stored)
    files = ((folder / "out" / name).read_bytes() for name in ("r.records.jsonl", "r.jsonl"))
    records, predictions = (re.sub(rb'("seconds": )[\d.]+', rb"\1TIME", data) for data in files)
    return records, predictions, texts


@pytest.mark.parametrize("key", [None, "None", "EMPTY", "cat", "none", "***********", KEY])
def test_answers_without_the_key_are_the_same_bytes_with_and_without_it(key, tmp_path, monkeypatch):
    with OpenAIServer(answer=said) as server:
        monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "plain" / "cache"))
        assert main(command(server, "--output", "plain/out/r.json", "--quiet")) == 0
        monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "keyed" / "cache"))
        if key:
            monkeypatch.setenv("EYECHART_API_KEY", key)
        server.key = key
        assert main(command(server, "--output", "keyed/out/r.json", "--quiet")) == 0

    assert results(tmp_path / "keyed") == results(tmp_path / "plain")
    assert json.loads(Path("keyed/out/r.json").read_text())["metrics"]["accuracy"] == 1.0


PLACES = {
    "content": '{"choices": [{"message": {"content": "ECHO"}, "finish_reason": "stop"}]}',
    "reasoning": '{"choices": [{"message": {"content": "a", "reasoning_content": "It is ECHO."}}]}',
    "model": '{"model": "ECHO", "choices": [{"message": {"content": "a"}}]}',
    "fingerprint": '{"system_fingerprint": "ECHO", "choices": [{"message": {"content": "a"}}]}',
    "error of a success": '{"error": {"message": "ECHO"}}',
    "no JSON": "ECHO",
}


@pytest.mark.parametrize("coat", COATS.values(), ids=COATS)
def test_an_echoed_key_is_a_failed_request_and_nothing_else_changes(coat, tmp_path, monkeypatch, capfd):
    """Each question is answered with the key in another place, except for the first, which is answered well."""
    monkeypatch.setenv("EYECHART_API_KEY", ODD_KEY)
    texts = [text.replace("ECHO", coat(ODD_KEY)) for text in PLACES.values()]

    def fault(path, body, attempt):
        number = ANSWERS.index(said(body)) if body else 0
        return Raw(texts[number].encode(), {"X-Echo": ODD_KEY}) if number else None

    with OpenAIServer(answer=said, key=ODD_KEY, fault=fault) as server:
        words = command(server, "--on-error", "skip", "--min-success", "0")
        assert main(words) == 0
        first = json.loads(Path("out/r.json").read_text())
        server.fault = None
        assert main(words) == 0

    shown = capfd.readouterr()
    assert leaks(tmp_path, shown.out, shown.err, key=ODD_KEY) == []
    assert (first["counts"]["failed"], first["metrics"]["accuracy"]) == (len(ANSWERS) - 1, pytest.approx(1 / 6))
    assert json.loads(Path("out/r.json").read_text())["metrics"]["accuracy"] == 1.0  # failed ones were asked again


@pytest.mark.parametrize("status", [302, 400, 401, 404, 422, 429, 500])
def test_an_error_response_shows_no_key(status, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("MY_KEY", KEY)
    text = " ".join(coat(KEY) for coat in COATS.values())
    headers = {"Location": f"http://127.0.0.1:1/{KEY}", "Retry-After": "0", "X-Echo": KEY}
    fault = Status(status, {"error": {"message": text, "code": KEY, "param": KEY}}, headers)
    with OpenAIServer(answer=said, fault=lambda path, body, attempt: fault if body else None) as server:
        main(command(server, "--api-key-variable", "MY_KEY", "--on-error", "skip", "--min-success", "0"))

    shown = capfd.readouterr()
    assert leaks(tmp_path, shown.out, shown.err) == []


def test_a_key_in_chunks_is_found(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("EYECHART_API_KEY", KEY)
    with OpenAIServer(answer=lambda body: f"It is {KEY}.", fault=Drip(0), key=KEY) as server:
        code = main(command(server, "--limit", "1"))

    shown = capfd.readouterr()
    assert code == 1
    assert "contains the API key" in shown.err
    assert leaks(tmp_path, shown.out, shown.err) == []


def test_no_process_has_the_key_in_its_title(tmp_path):
    """Look at the command lines of a run and of all processes below it while it runs."""
    with OpenAIServer(answer=said, key=KEY, delay=0.1) as server:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "EYECHART_API_KEY": KEY}
        words = [sys.executable, "-m", "eyechart", *command(server, "--processes", "2", "--verbose")]
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        titles = set()
        while process.poll() is None:
            titles |= {_title(pid) for pid in _below(process.pid)}
            time.sleep(0.01)
        out, err = process.communicate()

    assert (process.returncode, len(server.requests) >= len(ANSWERS)) == (0, True)
    assert any("eyechart" in title for title in titles)
    assert leaks(tmp_path, out, err, *titles) == []


def _below(parent):
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    left, found = [parent], []
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


def _title(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
