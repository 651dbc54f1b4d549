"""A stand-in for the two hubs on loopback: what their own client libraries ask for when they list and fetch.

It is not the hubs: they are out of reach of the tests. The clients are the real ones.
"""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TEXT = {".txt", ".md"}


class HubServer(ThreadingHTTPServer):
    """Serves ``root/owner/name`` as dataset and model repositories in both protocols."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.cut: dict[str, int] = {}
        """File name to the number of bytes after which its next transfer breaks off."""
        self.gated: set[str] = set()
        self.wrong_digest = False
        self.fetched: list[tuple[str, str]] = []
        """File and Range of every transfer of content."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def files(self, repo: str) -> dict[str, Path]:
        base = self.root / repo
        return {path.relative_to(base).as_posix(): path for path in sorted(base.rglob("*")) if path.is_file()}

    def digest(self, path: Path) -> str:
        return "0" * 64 if self.wrong_digest else hashlib.sha256(path.read_bytes()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HubServer

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        words = unquote(parts.path).strip("/").split("/")
        if words[:2] == ["api", "models"] and words[4:5] == ["tree"]:
            self._list("/".join(words[2:4]), "/".join(words[6:]))
        elif words[:2] in (["api", "datasets"], ["api", "models"]):
            self._describe("/".join(words[2:4]))
        elif words[2:3] == ["resolve"]:
            self._file("/".join(words[:2]), "/".join(words[4:]), huggingface=True)
        elif words[0] == "datasets" and words[3:4] == ["resolve"]:
            self._file("/".join(words[1:3]), "/".join(words[5:]), huggingface=True)
        elif words[:2] == ["api", "v1"] and words[5:] in (["repo", "tree"], ["repo", "files"]):
            self._tree("/".join(words[3:5]))
        elif words[:2] == ["api", "v1"] and words[5:] == ["repo"]:
            self._file("/".join(words[3:5]), parse_qs(parts.query)["FilePath"][0], huggingface=False)
        else:
            self._send(404, b"{}")

    def _describe(self, repo: str) -> None:
        files = self.server.files(repo)
        if repo in self.server.gated:
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        elif not files:
            self._send(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        else:
            siblings = [self._sibling(name, path) for name, path in files.items()]
            body = {"id": repo, "sha": COMMIT, "private": False, "tags": [], "downloads": 0, "likes": 0}
            self._send(200, json.dumps({**body, "siblings": siblings}).encode())

    def _list(self, repo: str, folder: str) -> None:
        """List the files of a model repository, or of a folder in it."""
        files = {name: path for name, path in self.server.files(repo).items() if name.startswith(folder)}
        if not files:
            missing = "EntryNotFound" if self.server.files(repo) else "RepoNotFound"
            self._send(404, b"{}", {"X-Error-Code": missing})
            return
        entries = [
            {"type": "file", "path": name, "size": path.stat().st_size, "oid": self.server.digest(path)[:40]}
            for name, path in files.items()
        ]
        self._send(200, json.dumps(entries).encode())

    def _sibling(self, name: str, path: Path) -> dict:
        size = path.stat().st_size
        entry = {"rfilename": name, "size": size, "blobId": hashlib.sha1(name.encode()).hexdigest()}  # noqa: S324
        if path.suffix not in TEXT:
            entry["lfs"] = {"sha256": self.server.digest(path), "size": size, "pointerSize": 130}
        return entry

    def _tree(self, repo: str) -> None:
        files = self.server.files(repo)
        if not files:
            self._send(404, json.dumps({"Code": 10010205001, "Message": "not found", "Success": False}).encode())
            return
        entries = [
            {"Path": name, "Name": Path(name).name, "Size": path.stat().st_size, "Type": "blob"}
            | {"Sha256": self.server.digest(path)}
            for name, path in files.items()
        ]
        self._send(200, json.dumps({"Code": 200, "Data": {"Files": entries}, "Success": True}).encode())

    def _file(self, repo: str, name: str, *, huggingface: bool) -> None:
        path = self.server.files(repo).get(name)
        if path is None:
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        data = path.read_bytes()
        wanted = self.headers.get("Range", "")
        if self.command == "GET":
            self.server.fetched.append((name, wanted))
        start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        tag = f'"{hashlib.sha256(data).hexdigest()}"'
        headers = {"ETag": tag, "Accept-Ranges": "bytes"}
        if huggingface:
            headers |= {"X-Repo-Commit": COMMIT, "X-Linked-Etag": tag, "X-Linked-Size": str(len(data))}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        cut = self.server.cut.pop(name, None) if self.command == "GET" else None
        self._send(206 if start else 200, data[start:], headers, cut)

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body if cut is None else body[:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@contextmanager
def hub_serving(root: Path):
    """Run a hub server in a thread while the block runs."""
    server = HubServer(root)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
