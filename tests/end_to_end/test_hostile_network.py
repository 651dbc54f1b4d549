"""Requests that data or servers would like us to make."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import httpx2
import pytest

from eyechart.api.client import ApiClient, Request
from eyechart.api.errors import RedirectRefusedError
from eyechart.compat.vlmevalkit import ImageBaseDataset
from eyechart.datasets.annotation_files import open_jsonl
from eyechart.datasets.image_table import open_table
from eyechart.datasets.questions.prompt_items import to_messages
from eyechart.datasets.remote import download
from eyechart.datasets.remote.download import ResponseHead, refuse_inward, request
from eyechart.datasets.selection import open_selection
from eyechart.errors import DataError
from eyechart.io.progress import NoProgress, run_log
from eyechart.types import DatasetSpec
from eyechart.vlm import preproc_content
from support.data import png


@pytest.fixture
def site():
    """A server that gives an image, redirects, or never stops, and remembers every request."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            seen.append((self.path, None))
            self.send_response(200)
            self.send_header("Content-Length", str(len(png())))
            self.end_headers()

        def do_GET(self):
            seen.append((self.path, self.headers.get("Authorization")))
            if self.path.startswith("/moved"):
                self.send_response(307)
                self.send_header("Location", f"http://localhost:{self.server.server_port}/stolen")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(200 if self.path.startswith("/endless") else 1):
                    self.wfile.write(b"x" * 100_000 if self.path.startswith("/endless") else png())
            except OSError:
                self.close_connection = True

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            pass

    seen: list = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()


def spec(root):
    return DatasetSpec("x", "x", str(root))


def read_queries(folder, url):
    (folder / "image_queries.jsonl").write_text(json.dumps({"image_path": url, "query": "q"}))
    open_jsonl(spec(folder))


def read_questions(folder, url):
    (folder / "questions.jsonl").write_text(json.dumps({"images": [url, url], "texts": ["a", "b"]}))
    open_selection(spec(folder))


def read_csv(folder, url):
    (folder / "t.csv").write_text(f"image,caption\n{url},a\n")
    open_table(spec(folder / "t.csv"))


def read_benchmark(folder, url):
    (folder / "t.tsv").write_text(f"index\timage_path\tquestion\tanswer\n1\t{url}\tq\tyes\n")
    dataset = ImageBaseDataset("x", file=folder / "t.tsv")
    to_messages(dataset.build_prompt(0), "row 1")


@pytest.mark.parametrize("read", [read_queries, read_questions, read_csv, read_benchmark])
def test_an_image_that_data_name_by_its_address_is_not_fetched(read, site, tmp_path, monkeypatch):
    monkeypatch.setenv("LMUData", str(tmp_path / "lmu"))
    address, seen = site

    with pytest.raises(DataError):
        read(tmp_path, f"{address}/a.png")
    assert seen == []


def test_a_question_that_is_an_address_is_a_question(site, tmp_path, monkeypatch):
    monkeypatch.setenv("LMUData", str(tmp_path))
    address, seen = site
    item = {"type": "text", "value": f"{address}/a.png"}

    assert preproc_content([item]) == [item]
    assert to_messages([item], "row 1")[0].parts == (f"{address}/a.png",)
    assert seen == []


def test_whoever_trusts_the_data_can_allow_it(site, tmp_path, monkeypatch):
    monkeypatch.setenv("LMUData", str(tmp_path / "lmu"))
    monkeypatch.setenv("EYECHART_IMAGE_URLS", "1")
    address, seen = site

    [item] = preproc_content([f"{address}/a.png"])

    assert item["type"] == "image"
    assert seen


def test_a_redirect_does_not_take_the_key_along(site):
    address, seen = site
    client = ApiClient(f"{address}/moved", "sk-secret-key")

    with pytest.raises(RedirectRefusedError):
        client.call(Request("1", "chat/completions", {"model": "m"}, dict))
    assert [path for path, _ in seen] == ["/moved/chat/completions"]


def redirect(target, source="http://example.org/a"):
    return httpx2.Response(302, headers={"Location": target}, request=httpx2.Request("GET", source))


INSIDE = {
    "this machine": "127.0.0.1 127.8.9.1 0.0.0.0 0.1.2.3 localhost LocalHost localhost:8000 [::1] [::]",
    "a dot at the end": "localhost. 127.0.0.1. metadata.google.internal. a.localhost.",
    "other spellings": "2130706433 0x7f.1 0177.1 127.1 [0:0:0:0:0:0:0:1]",
    "private and shared": "10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.8 198.18.0.1",
    "private in IPv6": "[fc00::1] [fd12:3456::1] [fe80::1] [fe80::1%25eth0] [fec0::1] [100::1] [2001:db8::1] [3fff::1]",
    "to many": "224.0.0.1 255.255.255.255 240.0.0.1 [ff02::1]",
    "mapped, compatible, translated": "[::ffff:127.0.0.1] [::ffff:a9fe:a9fe] [::127.0.0.1] [::ffff:0:10.0.0.1]",
    "NAT64": "[64:ff9b::7f00:1] [64:ff9b::10.0.0.1] [64:ff9b::169.254.169.254] [64:ff9b:1::1] [64:ff9b:1::808:808]",
    "6to4": "[2002:7f00:1::] [2002:a00:1::1] [2002:a9fe:a9fe::] [2002:c0a8:101::5]",
    "Teredo": "[2001:0:7f00:1::] [2001:0:4136:e378:8000:63bf:80ff:fffe] [2001:0:4136:e378:8000:63bf:f5ff:fffe]",
    "names": "metadata router metadata.google.internal printer.local a.home.arpa localhost.localdomain box.lan",
}
OUTSIDE = (
    "example.net example.net. cdn.example.net:8443 localhost.example.net 8.8.8.8 134744072 [2606:4700::1111] "
    "[::ffff:8.8.8.8] [64:ff9b::8.8.8.8] [2002:808:808::1]"
)


@pytest.mark.parametrize(("kind", "host"), [(kind, host) for kind, hosts in INSIDE.items() for host in hosts.split()])
def test_a_public_server_does_not_redirect_us_into_our_own_network(kind, host):
    with pytest.raises(DataError, match="not followed"):
        refuse_inward(redirect(f"http://{host}/latest"))


@pytest.mark.parametrize("host", OUTSIDE.split())
def test_a_public_server_may_redirect_us_to_another(host):
    refuse_inward(redirect(f"http://{host}/b"))


@pytest.mark.parametrize("host", ["localhost:8000", "10.0.0.2", "[::1]"])
def test_a_server_of_our_own_network_may_redirect_within_it(host):
    refuse_inward(redirect("http://127.0.0.1:81/b", source=f"http://{host}/a"))


@pytest.mark.parametrize("target", ["http://\uff11\uff12\uff17.0.0.1/", "http://[::1", "http://256.1.1.1/"])
def test_a_redirect_to_an_address_that_is_none_is_an_error_that_says_so(target):
    with pytest.raises(DataError, match="redirects to an invalid URL"):
        refuse_inward(redirect(target.encode()))


def test_redirects_between_public_servers_are_followed_but_not_down_to_http():
    refuse_inward(redirect("https://cdn.example.net/b", source="https://example.org/a"))

    with pytest.raises(DataError, match="not followed"):
        refuse_inward(redirect("http://cdn.example.net/b", source="https://example.org/a"))


def test_a_small_file_that_never_ends_is_given_up(site, monkeypatch):
    address, _ = site
    monkeypatch.setattr(download, "MAX_SMALL", 1_000_000)

    with (
        httpx2.Client(trust_env=False) as client,
        pytest.raises(DataError, match="the file is larger than 1000000 bytes"),
    ):
        request(client, "GET", f"{address}/endless")


def test_a_download_that_brings_more_than_was_promised_is_given_up(site, tmp_path):
    address, _ = site
    arrived: list[int] = []

    class Counting(NoProgress):
        @contextmanager
        def step(self, name, total):
            yield SimpleNamespace(advance=arrived.append)

    with httpx2.Client(trust_env=False) as client, pytest.raises(DataError, match="bytes instead of 1000"):
        download.download(client, f"{address}/endless", tmp_path / "0.tar", ResponseHead(1000, ""), Counting())
    assert sum(arrived) < 1_000_000 < 200 * 100_000
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0


def test_a_key_in_a_traceback_does_not_reach_the_log(tmp_path):
    from eyechart.api import Secret

    with run_log(tmp_path / "x.log", NoProgress(), [Secret("sk-secret-key-of-mine")]) as log:
        try:
            raise ValueError("the server said: sk-secret-key-of-mine is wrong")
        except ValueError:
            log.exception("it failed with %s", "sk-secret-key-of-mine")

    text = (tmp_path / "x.log").read_text()
    assert "ValueError" in text
    assert "sk-secret-key-of-mine" not in text
