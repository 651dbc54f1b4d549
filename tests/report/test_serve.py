"""The live page: a real server on loopback, a real browser, a run that goes on meanwhile."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from PIL import Image

from eyechart import evaluate, read_result
from eyechart.cli import serve
from eyechart.errors import UsageError
from eyechart.io.digests import file_digest
from eyechart.io.progress import EVERY, PROGRESS_PREFIX, NoProgress, ProgressFile, read_progress
from eyechart.io.stopwatch import JobClock
from eyechart.report.loader import load_results
from eyechart.report.page import html
from eyechart.report.page.html import HOST, LiveResults, make_server
from support.browser import Watched, expect

pytestmark = pytest.mark.slow  # a real browser


def arguments(*words):
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return parser.parse_args([str(word) for word in words])


def test_a_port_is_a_number():
    assert arguments("results", "--port", "0").port == 0
    with pytest.raises(SystemExit):
        arguments("results", "--port", "any")


@contextmanager
def serving(folder, *images):
    args = arguments(folder, "--no-browser", *(["--images", *images] if images else []))
    server = make_server(serve.live_results(args))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def get(port, path="/", host=None):
    connection = http.client.HTTPConnection(HOST, port, timeout=20)
    connection.request("GET", path, headers={"Host": host or f"{HOST}:{port}"})
    answer = connection.getresponse()
    return answer.status, answer.read(), dict(answer.getheaders())


def test_it_serves_the_page_and_its_status_and_nothing_else(small_suite):
    with serving(small_suite) as port:
        code, body, headers = get(port)
        status = json.loads(get(port, "/status.json")[1])

        assert code == 200
        assert b"connect-src &#x27;self&#x27;" in body
        assert headers["Cache-Control"] == "no-store"
        assert status["runs"] == []
        assert get(port, "/../../etc/passwd")[0] == 404


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Photos of one colour, half of them in the wrong class; and their result, in a folder next to them."""
    root = tmp_path_factory.mktemp("photos")
    for i, name in enumerate(("cat", "dog")):
        (root / "images" / name).mkdir(parents=True)
        for k in range(3):
            Image.new("RGB", (300, 100), (80 * k, 90 * i, 0)).save(root / "images" / name / f"{k}.png")
    settings = {"model_type": "onnx", "pretrained": ["eyechart-tiny"], "num_workers": 0}
    evaluate(model=["eyechart-tiny"], dataset=[str(root / "images")], output=str(root / "out" / "r.json"), **settings)
    return root


def test_originals_are_served_only_from_the_named_folder_and_only_the_evaluated_bytes(photos, tmp_path):
    records = list(read_result(photos / "out" / "r.json").iter_records())
    digest = {record["id"]: record["digest"] for record in records}
    folder = tmp_path / "images"
    shutil.copytree(photos / "images", folder)
    (folder / "cat" / "0.png").write_bytes((folder / "cat" / "1.png").read_bytes())  # other bytes under its name
    (folder / "dog" / "0.png").unlink()
    (folder / "dog" / "0.png").symlink_to(photos / "images" / "dog" / "0.png")  # leads out of the folder
    (folder / "dog" / "1.png").rename(folder / "dog" / "1.html")  # the name does not matter
    secret = folder / "secret.png"
    Image.new("RGB", (9, 9)).save(secret)  # in the folder, in no record
    with serving(photos / "out", folder) as port:
        before = get(port, f"/image/{digest['cat/1.png']}")[0]  # the page has not offered anything yet
        assert get(port)[0] == 200
        status = {name: get(port, f"/image/{value}")[0] for name, value in digest.items()}
        code, body, headers = get(port, f"/image/{digest['dog/1.png']}")
        other = [
            f"/image/{file_digest(secret).hex()}",
            f"/image/{secret}",
            "/image/../secret.png",
            "/image/",
            "/secret.png",
        ]
        refused = [get(port, path)[0] for path in other]
        foreign = get(port, f"/image/{digest['cat/1.png']}", host="evil.example")[0]
        (folder / "cat" / "2.png").write_bytes(secret.read_bytes())  # changed while serving
        changed = get(port, f"/image/{digest['cat/2.png']}")[0]
    with serving(photos / "out") as port:
        get(port)
        unnamed = get(port, f"/image/{digest['cat/1.png']}")[0]

    gone = {"cat/0.png", "dog/0.png"}
    assert status == {name: 404 if name in gone else 200 for name in digest}
    assert (code, body) == (200, (photos / "images" / "dog" / "1.png").read_bytes())
    assert headers["Content-Type"] == "image/png"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "sandbox" in headers["Content-Security-Policy"]
    assert (before, refused, foreign, changed, unnamed) == (404, [404] * 5, 403, 404, 404)


def test_the_dialog_shows_the_original_in_its_own_proportions(browser, photos):
    watched = Watched(browser)
    page = watched.page
    with serving(photos / "out", photos / "images") as port:
        page.goto(f"http://{HOST}:{port}/#/benchmark/0")
        page.locator(".card button").first.click()
        large = page.locator("dialog img.large")
        large.evaluate("node => node.decode()")
        shown = large.evaluate("node => [node.naturalWidth, node.naturalHeight, node.clientWidth / node.clientHeight]")
    watched.context.close()

    assert shown[:2] == [300, 100]
    assert abs(shown[2] - 3) < 0.05
    assert watched.problems == []


def test_a_foreign_name_for_this_address_is_refused(small_suite):
    with serving(small_suite) as port:
        assert get(port, host="evil.example")[0] == 403
        assert get(port, host=f"localhost:{port}")[0] == 200


def test_a_connection_without_a_request_is_closed(small_suite, monkeypatch):
    monkeypatch.setattr(html, "IDLE_SECONDS", 0.2)
    with serving(small_suite) as port:
        idle = [socket.create_connection((HOST, port), timeout=20) for _ in range(20)]
        half = socket.create_connection((HOST, port), timeout=20)
        half.sendall(b"GET / HTTP/1.1\r\nHost:")

        assert [connection.recv(1) for connection in (*idle, half)] == [b""] * 21
        assert get(port)[0] == 200
        for connection in (*idle, half):
            connection.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /status.json HTTP/1.1\r\nHo",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        b"\x16\x03\x01\x00\xff\n",
        b"\n",
        b"",
    ],
)
def test_clients_that_break_off_or_send_garbage_print_nothing(small_suite, capfd, request_bytes):
    with serving(small_suite) as port:
        for _ in range(3):
            connection = socket.create_connection((HOST, port), timeout=20)
            connection.sendall(request_bytes.replace(b"{port}", str(port).encode()))
            # Closing with this option resets the connection, so that reads and writes of the server fail.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        assert get(port)[0] == 200

    assert capfd.readouterr().err == ""


def test_only_loopback_is_bound(small_suite):
    source = LiveResults([str(small_suite)], lambda: b"")
    server = make_server(source)
    try:
        assert server.server_address[0] == "127.0.0.1"
    finally:
        server.server_close()


def test_the_page_is_made_anew_only_when_results_change(small_suite, tmp_path):
    made = []
    source = LiveResults([str(tmp_path)], lambda: made.append(1) or b"page")
    source.page()
    source.page()
    assert len(made) == 1

    shutil.copy(next(small_suite.glob("digits*.json")), tmp_path)
    source.page()

    assert len(made) == 2


def test_a_run_is_shown_with_its_progress_and_new_results_appear(browser, small_suite, tmp_path):
    watched = Watched(browser)
    page = watched.page
    with serving(tmp_path) as port, ProgressFile(NoProgress(), tmp_path, JobClock(2)) as progress:
        page.goto(f"http://{HOST}:{port}/")
        expect(page.locator("main")).to_contain_text("No results yet.")
        expect(page.locator("#live")).to_contain_text("0 of 2 results")

        with progress.step("images of stamps", 100) as bar:
            time.sleep(EVERY)
            bar.advance(40)
            expect(page.locator("#live")).to_contain_text("images of stamps 40/100")
            expect(page.locator("#live")).to_contain_text("left")

        for file in small_suite.glob("stamps*_en_*"):
            shutil.copy(file, tmp_path)
        progress.job_done()
        expect(page.locator("#matrix tbody tr")).to_have_count(2)
        expect(page.locator("#live")).to_contain_text("1 of 2 results")
        progress.__exit__(None, None, None)
        expect(page.locator("#live")).to_contain_text("Finished")
    watched.context.close()
    assert [url for url in watched.requests if not url.startswith((f"http://{HOST}:{port}/", "data:"))] == []
    assert watched.problems == []


def test_what_is_chosen_survives_the_reload(browser, small_suite, tmp_path):
    for file in small_suite.glob("digits*"):
        shutil.copy(file, tmp_path)
    watched = Watched(browser)
    page = watched.page
    with serving(tmp_path) as port:
        with page.expect_response("**/status.json"):  # the page knows which state of the results it shows
            page.goto(f"http://{HOST}:{port}/")
        page.get_by_label("Filter models").fill("Snellen-L")
        expect(page.locator("#matrix tbody tr")).to_have_count(1)
        page.wait_for_function("JSON.parse(sessionStorage['eyechart:Eyechart report']).query === 'Snellen-L'")

        for file in small_suite.glob("garden*"):
            shutil.copy(file, tmp_path)
        expect(page.locator("#matrix thead a.dataset")).to_have_count(2)

        expect(page.locator("#matrix tbody tr")).to_have_count(1)
    watched.context.close()


def test_a_run_that_gives_no_news_is_not_called_running(tmp_path):
    body = {"updated": time.time() - 3600, "jobs": {"done": 1, "total": 2}, "step": None}
    (tmp_path / f"{PROGRESS_PREFIX}1.progress").write_text(json.dumps(body))

    assert LiveResults([str(tmp_path)], lambda: b"").status()["runs"][0]["state"] == "stalled"


def test_what_somebody_else_wrote_as_progress_is_left_out(tmp_path):
    for number, text in enumerate(('{"updated": "now"}', "[]", "[" * 100_000, "{")):
        (tmp_path / f"{PROGRESS_PREFIX}{number}.progress").write_text(text)

    assert LiveResults([str(tmp_path)], lambda: b"").status()["runs"] == []


def test_a_page_that_cannot_be_made_says_why(small_suite, tmp_path):
    source = next(small_suite.glob("digits*zeroshot_classification.json"))
    body = json.loads(source.read_text()) | {"details": {"classnames": 7}}
    (tmp_path / "r.json").write_text(json.dumps(body))

    with serving(tmp_path) as port:
        code, body, _ = get(port)

    assert code == 500
    assert b"r.json are damaged" in body


def test_the_progress_file_goes_with_the_run_and_is_no_result(small_suite, tmp_path):
    shutil.copy(next(small_suite.glob("digits*.json")), tmp_path)

    with ProgressFile(NoProgress(), tmp_path, JobClock(1)):
        assert read_progress(tmp_path)[0]["file"].startswith(PROGRESS_PREFIX)
        assert load_results([tmp_path]).skipped == ()

    assert read_progress(tmp_path) == []


def test_a_port_in_use_is_an_error_with_advice(small_suite):
    with serving(small_suite) as port, pytest.raises(UsageError, match="--port 0"):
        serve.run(arguments(small_suite, "--port", port, "--no-browser"))


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="File or folder not found"):
        serve.run(arguments(tmp_path / "absent", "--no-browser"))


def test_the_command_prints_its_address(small_suite):
    command = [sys.executable, "-m", "eyechart", "serve", str(small_suite), "--port", "0", "--no-browser"]
    environment = os.environ | {"PYTHONPATH": "src"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            address = process.stdout.readline().split()[0]
            code, body, _ = get(int(address.rstrip("/").rpartition(":")[2]))
        finally:
            process.terminate()
    assert code == 200
    assert b"Eyechart report" in body
