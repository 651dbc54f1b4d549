"""A real web server on loopback for folders of files: Range requests, ETags, and faults on demand."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


class FileServer(ThreadingHTTPServer):
    """Serves a folder. ``cut`` maps a path to the numbers of bytes after which its next transfers break off."""

    daemon_threads = True

    def __init__(self, root: Path, *, ranges: bool = True, tags: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.ranges, self.tags = ranges, tags
        self.redirects: dict[str, str] = {}
        """Where the clients are sent who ask for a path."""
        self.compresses = False
        """Whether clients that can read it get gzip, as many servers do with texts."""
        self.cut: dict[str, list[int]] = defaultdict(list)
        self.after_cut: Callable[[], object] = lambda: None
        """What happens on the server when a transfer has been broken off."""
        self.tells_length = True
        """Whether Content-Length is sent; without it, the end of the connection is the end of a file."""
        self.obeys_if_range = True
        self.weak = False
        """Whether ETags are weak and do not change with the content, as those of some proxies."""
        self.statuses: dict[str, list[int]] = defaultdict(list)
        """Statuses with which the next requests for a path are answered."""
        self.requests: list[tuple[str, str, str]] = []
        """Method, path and Range of every request."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def count(self, method: str, path: str) -> int:
        return sum((m, p) == (method, path) for m, p, _ in self.requests)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        wanted = self.headers.get("Range", "")
        self.server.requests.append((self.command, path, wanted))
        file = self.server.root / path
        if self._refused(path, file):
            return
        data = file.read_bytes()
        compressed = self.server.compresses and "gzip" in self.headers.get("Accept-Encoding", "")
        if compressed:
            data = gzip.compress(data)
        tag = 'W/"same"' if self.server.weak else f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        start = self._start(wanted, tag)
        self.send_response(206 if start else 200)
        if compressed:
            self.send_header("Content-Encoding", "gzip")
        if self.server.tags:
            self.send_header("ETag", tag)
        if self.server.tells_length:
            self.send_header("Content-Length", str(len(data) - start))
        else:
            self.send_header("Connection", "close")
        if self.server.ranges:
            self.send_header("Accept-Ranges", "bytes")
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if body:
            self._send(path, data[start:])

    def _refused(self, path: str, file: Path) -> bool:
        if self.server.statuses[path]:
            self._refuse(self.server.statuses[path].pop(0))
        elif path in self.server.redirects:
            self._refuse(302, self.server.redirects[path])
        elif not file.is_file():
            self._refuse(404)
        else:
            return False
        return True

    def _start(self, wanted: str, tag: str) -> int:
        if not wanted or not self.server.ranges or not self._is_meant(tag):
            return 0
        return int(wanted.removeprefix("bytes=").split("-")[0])

    def _is_meant(self, tag: str) -> bool:
        return not self.server.obeys_if_range or self.headers.get("If-Range", tag) == tag

    def _send(self, path: str, data: bytes) -> None:
        if self.server.cut[path]:
            self.wfile.write(data[: self.server.cut[path].pop(0)])
            self.wfile.flush()
            self.server.after_cut()
            self.close_connection = True
            return
        self.wfile.write(data)

    def _refuse(self, status: int, location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@contextmanager
def serving(root: Path, *, ranges: bool = True, tags: bool = True):
    """Run a file server in a thread while the block runs."""
    server = FileServer(root, ranges=ranges, tags=tags)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
