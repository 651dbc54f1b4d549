"""The page on loopback, made anew when results change, with the progress of runs that are going on."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from eyechart.errors import EyechartError
from eyechart.io.progress.file import read_progress
from eyechart.report.load import result_files

HOST = "127.0.0.1"
STALE = 30.0
"""Seconds without news after which a run is no longer called running."""


class LiveResults:
    """Results on disk, the page made of them, and what is known of runs."""

    def __init__(self, arguments: Sequence[str], make: Callable[[], bytes]) -> None:
        self.arguments = arguments
        self.make = make
        self._lock = threading.Lock()
        self._made: tuple[str, bytes] | None = None
        self._runs: dict[str, dict[str, Any]] = {}

    def version(self) -> str:
        """Return a name for the state of the result files: it changes when one is added, changed or removed."""
        digest = hashlib.sha256()
        for argument in self.arguments:
            for file in result_files(Path(argument)):
                try:
                    state = file.stat()
                except FileNotFoundError:
                    continue  # replaced between listing and looking: the next look will tell
                digest.update(f"{file}\0{state.st_mtime_ns}\0{state.st_size}\n".encode())
        return digest.hexdigest()[:16]

    def page(self) -> bytes:
        """Return the page, made anew if results have changed."""
        with self._lock:
            version = self.version()
            if self._made is None or self._made[0] != version:
                self._made = (version, self.make())
            return self._made[1]

    def status(self) -> dict[str, Any]:
        """Return the version of the results and the state of every run seen so far."""
        now = time.time()
        seen = {}
        for argument in self.arguments:
            for run in read_progress(Path(argument)) if Path(argument).is_dir() else []:
                fresh = abs(now - run["updated"]) < STALE  # a clock may have been set back since
                seen[str(run["file"])] = run | {"state": "running" if fresh else "stalled"}
        with self._lock:
            ended = {
                name: run | {"state": "done", "step": None} for name, run in self._runs.items() if name not in seen
            }
            self._runs = ended | seen
            return {"version": self.version(), "runs": list(self._runs.values())}


def make_server(source: LiveResults, port: int = 0) -> ThreadingHTTPServer:
    """Make a server on loopback; port 0 takes a free one. It answers to its own name only."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            own = {f"{name}:{server.server_port}" for name in (HOST, "localhost")}
            if self.headers.get("Host") not in own:
                # A page elsewhere may have its name point to this address; it must not read the results.
                self._answer(403, "text/plain", b"wrong host")
                return
            try:
                if self.path == "/":
                    self._answer(200, "text/html; charset=utf-8", source.page())
                elif self.path == "/status.json":
                    self._answer(200, "application/json", json.dumps(source.status()).encode())
                else:
                    self._answer(404, "text/plain", b"not here")
            except EyechartError as error:  # a result is damaged, or the folder is gone
                self._answer(500, "text/plain; charset=utf-8", str(error).encode("utf-8", "backslashreplace"))

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("X-Frame-Options", "DENY")
            self.send_header("Referrer-Policy", "no-referrer")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing: a page that asks every second would fill the terminal."""

    server = ThreadingHTTPServer((HOST, port), Handler)
    server.daemon_threads = True
    return server
