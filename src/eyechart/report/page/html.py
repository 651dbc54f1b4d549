"""The page: one self-contained HTML file, and a loopback server that keeps it up to date during a run."""

import base64
import hashlib
import html
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

from eyechart.errors import EyechartError
from eyechart.io.files import write_atomic
from eyechart.io.progress import read_progress
from eyechart.io.terminal import language, words
from eyechart.report.loader import Argument, load_results, result_files
from eyechart.report.page.originals import OriginalImages
from eyechart.report.page.overview import pack, plain_json
from eyechart.report.page.payload import Payload, make_payload

TEMPLATES = resources.files("eyechart.report.page").joinpath("templates")


def write_report(
    arguments: Argument | Sequence[Argument],
    output: str | Path,
    *,
    references: str | Sequence[str] = (),
    title: str = "Eyechart report",
) -> Path:
    """Write the page of results, like ``eyechart report``.

    Args:
        arguments: Result files, folders of them, or results in memory: one, or a list.
        output: The HTML file.
        references: Published numbers to include, as named by ``--reference``.
        title: Title of the page.

    Returns:
        The path of the page.

    Example:
        ```python
        import eyechart

        results = eyechart.evaluate("eyechart-tiny", "demo/garments")
        eyechart.write_report(results, "report.html")
        ```
    """
    references = [references] if isinstance(references, str) else references
    loaded = load_results(arguments)
    payload = make_payload(loaded.found, skipped=loaded.skipped, references=references, title=title)
    write_atomic(Path(output), make_page(payload))
    return Path(output)


def make_page(payload: Payload, *, live: bool = False) -> bytes:
    """Render the page. A live page may query its own server, and only that one, for progress."""
    # The parts of the script share one scope; `main` starts the page, so it comes last.
    names = [file.name for file in TEMPLATES.iterdir() if file.name.endswith(".js")]
    body = "\n".join(map(_read, sorted(names, key=lambda name: (name == "main.js", name))))
    style, script = _read("page.css"), f'(() => {{\n"use strict";\n{body}\n}})();'
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "img-src data:" + (" 'self'" if live else ""),
            "base-uri 'none'",
            "form-action 'none'",
            *(["connect-src 'self'"] if live else []),
        ]
    )
    overview = payload.overview | {"live": live, "language": language()}
    # Without < JSON can neither end a script element nor start a comment.
    values = {"overview": overview, "words": {part: words(part) for part in ("page", "notes")}}
    plain = {name: plain_json(value).replace("<", "\\u003c") for name, value in values.items()}
    packed = {"pairs": pack(payload.pairs), "published": pack(payload.published)}
    packed |= {f"chunk-{number}": chunk for number, chunk in enumerate(payload.chunks)}
    blocks = [
        *(f'<script type="application/json" id="{name}">{text}</script>' for name, text in plain.items()),
        *(f'<script type="text/plain" id="{name}">{text}</script>' for name, text in packed.items()),
    ]
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(str(overview["title"])),
        "style": style,
        "data": "\n".join(blocks),
        "script": script,
    }
    page = _read("page.html")
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text, 1)
    return page.encode()


def _read(name: str) -> str:
    return TEMPLATES.joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


HOST = "127.0.0.1"
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STALE = 30.0
"""Seconds without an update after which a run is reported as stalled."""
IDLE_SECONDS = 10.0
"""Time after which a connection without a request, or whose client has stopped reading, is closed."""


class LiveResults:
    """Results on disk, the page built from them, and the state of runs."""

    def __init__(
        self, arguments: Sequence[str], make: Callable[[], bytes], originals: OriginalImages | None = None
    ) -> None:
        self.arguments, self.make, self.originals = arguments, make, originals
        self._lock = threading.Lock()
        self._made: tuple[str, bytes] | None = None
        self._runs: dict[str, dict[str, Any]] = {}

    def content(self, path: str) -> tuple[str, bytes] | None:
        """Return the content type and the bytes of a path of the server; None if there is nothing."""
        if path == "/":
            return "text/html; charset=utf-8", self.page()
        if path == "/status.json":
            return "application/json", json.dumps(self.status()).encode()
        return self.originals.read(path.removeprefix("/image/")) if self.originals else None

    def version(self) -> str:
        """Return a digest of the state of the result files: it changes when one is added, modified or removed."""
        digest = hashlib.sha256()
        for argument in self.arguments:
            for file in result_files(Path(argument)):
                try:
                    state = file.stat()
                except FileNotFoundError:
                    continue  # replaced since it was listed: the next call sees it
                digest.update(f"{file}\0{state.st_mtime_ns}\0{state.st_size}\n".encode())
        return digest.hexdigest()[:16]

    def page(self) -> bytes:
        """Return the page, rebuilt if results have changed."""
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
                fresh = abs(now - run["updated"]) < STALE  # the clock may have been set back since
                seen[str(run["file"])] = run | {"state": "running" if fresh else "stalled"}
        with self._lock:
            ended = {name: run | {"state": "done", "step": None} for name, run in self._runs.items()}
            self._runs = {name: run for name, run in ended.items() if name not in seen} | seen
            return {"version": self.version(), "runs": list(self._runs.values())}


def make_server(source: LiveResults, port: int = 0) -> ThreadingHTTPServer:
    """Create a server on loopback; port 0 chooses a free one. It only answers requests for its own host name."""

    class Handler(BaseHTTPRequestHandler):
        timeout = IDLE_SECONDS

        def do_GET(self) -> None:
            own = {f"{name}:{server.server_port}" for name in (HOST, "localhost")}
            if self.headers.get("Host") not in own:
                # DNS rebinding: a foreign page must not read the results.
                self._answer(403, "text/plain", b"wrong host")
                return
            try:
                found = source.content(self.path)
                self._answer(*(200, *found) if found else (404, "text/plain", b"not here"))
            except EyechartError as error:  # a result is damaged, or the folder is gone
                self._answer(500, "text/plain; charset=utf-8", str(error).encode("utf-8", "backslashreplace"))

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            headers = {"Content-Type": kind, "Content-Length": str(len(body)), **HEADERS}
            if not kind.startswith("text/html"):  # the page has its own policy
                headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
            """Log nothing: a page that polls every second would flood the terminal."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), OSError):  # the client broke off or stopped reading
                super().handle_error(request, client_address)

    server = Server((HOST, port), Handler)
    return server
