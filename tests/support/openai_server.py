"""A real HTTP server that speaks the OpenAI API and misbehaves as told.

    with OpenAIServer(delay=0.2, fault=random_faults(0.2, Status(500), Cut(), seed=1)) as server:
        client = ApiClient(server.api_base)

Every request is recorded in `server.requests`, with the status it got; `server.paid` counts the whole answers.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Status:
    """Answer with a status, an error body and headers."""

    code: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """Break off the connection: before anything is sent, or in the middle of the body."""

    in_body: bool = True
    reset: bool = False


@dataclass(frozen=True)
class Raw:
    """Answer 200 with these bytes, whatever they are."""

    data: bytes
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stall:
    """Take this long before the answer."""

    seconds: float


@dataclass(frozen=True)
class Drip:
    """Send the body byte by byte, with a pause after each."""

    pause: float


Fault = Status | Cut | Raw | Stall | Drip


@dataclass(frozen=True)
class Recorded:
    """A request as it arrived; `attempt` counts equal ones from 1."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    attempt: int
    outcome: str
    at: float


def random_faults(rate: float, *faults: Fault, seed: int = 0) -> Callable[[str, Any, int], Fault | None]:
    """Make a fault function that picks one of `faults` for about `rate` of all POSTs."""
    generator, lock = random.Random(seed), threading.Lock()

    def fault(path: str, body: Any, attempt: int) -> Fault | None:
        with lock:
            return generator.choice(faults) if generator.random() < rate else None

    return fault


def first_attempts(count: int, fault: Fault) -> Callable[[str, Any, int], Fault | None]:
    """Make a fault function that spoils the first `count` attempts of each request."""
    return lambda path, body, attempt: fault if attempt <= count else None


class OpenAIServer:
    """Serves /chat/completions, /embeddings, /rerank and /models on a free port of the loopback."""

    def __init__(
        self,
        *,
        delay: float = 0.0,
        fault: Callable[[str, Any, int], Fault | None] | Fault | None = None,
        models: tuple[str, ...] | None = ("test-model",),
        key: str | None = None,
        dimension: int = 8,
        answer: Callable[[dict[str, Any]], Any] | None = None,
        usage: dict[str, int] | None = None,
        at_once: int | None = None,
        report: dict[str, Any] | None = None,
        finish_reason: str = "stop",
    ) -> None:
        self.at_once = at_once
        self.report = report or {}
        """Further fields of chat and embedding responses: model, system_fingerprint."""
        self.finish_reason = finish_reason
        self.delay = delay
        self.fault = fault
        self.models = models
        self.key = key
        self.dimension = dimension
        self.answer = answer or (lambda body: f"An image of {len(json.dumps(body))} characters.")
        self.usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15} if usage is None else usage
        self.requests: list[Recorded] = []
        self.paid: Counter[str] = Counter()
        self.in_flight = 0
        self.most_in_flight = 0
        self._attempts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _Handler, self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return self._http.server_address[1]

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        until = time.monotonic() + 1
        while self.in_flight and time.monotonic() < until:
            time.sleep(0.005)  # an answer is noted after it was sent: its client may be here first
        self._http.shutdown()
        self._http.close_connections()
        self._http.server_close()
        self._thread.join()

    @property
    def is_busy(self) -> bool:
        """Tell whether a request is under way, or may lie unread in a connection."""
        return bool(self.in_flight or self._http.connections)

    # What the handler asks

    def enter(self, identity: str) -> tuple[int, bool]:
        """Count a request that has come; return its attempt and whether it is served: not if it is one too many."""
        with self._lock:
            served = self.at_once is None or self.in_flight < self.at_once
            self.in_flight += served
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            self._attempts[identity] += 1
            return self._attempts[identity], served

    def leave(self, recorded: Recorded, identity: str, *, served: bool) -> None:
        with self._lock:
            self.in_flight -= served
            self.requests.append(recorded)
            if recorded.outcome == "200" and recorded.method == "POST":
                self.paid[identity] += 1

    def given_key(self, headers: Any) -> str:
        """The key of a request."""
        return headers.get("Authorization", "").removeprefix("Bearer ")

    def fault_for(self, path: str, body: Any, attempt: int) -> Fault | None:
        return self.fault(path, body, attempt) if callable(self.fault) else self.fault

    def reply(self, path: str, body: Any) -> tuple[int, Any]:
        if path == "/v1/models" and self.models is not None:
            return 200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
        routes = {
            "/v1/chat/completions": self._chat,
            "/v1/embeddings": self._embeddings,
            "/v1/rerank": self._rerank,
        }
        if path not in routes or body is None:
            return 404, {"detail": "Not Found"}
        if path == "/v1/rerank" and "texts" in body:
            return self._tei(body)
        if self.models is not None and body.get("model") not in self.models:
            message = f"The model `{body.get('model')}` does not exist."
            return 404, {"object": "error", "message": message, "type": "NotFoundError", "code": 404}
        return 200, routes[path](body)

    def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        said = self.answer(body)
        message = said if isinstance(said, dict) else {"role": "assistant", "content": said}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        return {"id": "chat-1", "object": "chat.completion", "choices": [choice], "usage": self.usage, **self.report}

    def _embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        items = [body["messages"]] if "messages" in body else body["input"]
        data = [{"object": "embedding", "index": i, "embedding": self.vector(item)} for i, item in enumerate(items)]
        # Any order is allowed: the index counts.
        return {"object": "list", "data": data[::-1], "usage": self.usage, **self.report}

    def vector(self, item: Any) -> list[float]:
        """The embedding of an input: random, but always the same for equal inputs."""
        generator = random.Random(json.dumps(item, sort_keys=True))
        return [generator.gauss(0, 1) for _ in range(self.dimension)]

    def _tei(self, body: dict[str, Any]) -> tuple[int, Any]:
        """Answer as Text Embeddings Inference does: a bare list, and no more than 32 texts at a time."""
        if len(body["texts"]) > 32:
            return 413, {"error": f"batch size {len(body['texts'])} > maximum allowed batch size 32"}
        rows = self._rerank({"query": body["query"], "documents": body["texts"]})["results"]
        return 200, [{"index": row["index"], "score": row["relevance_score"]} for row in rows]

    def _rerank(self, body: dict[str, Any]) -> dict[str, Any]:
        """Score a document by the share of the query's words that it holds."""
        words = set(body["query"].lower().split())
        scores = [len(words & set(document.lower().split())) / len(words) for document in body["documents"]]
        ranked = sorted(range(len(scores)), key=lambda i: -scores[i])
        return {
            "results": [{"index": i, "relevance_score": scores[i]} for i in ranked],
            "usage": {"total_tokens": self.usage.get("total_tokens", 0)},
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], owner: OpenAIServer) -> None:
        super().__init__(address, handler)
        self.owner = owner
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._open.discard(request)

    @property
    def connections(self) -> int:
        """How many clients are connected, or have gone away without our having noticed."""
        return len(self._open)

    def close_connections(self) -> None:
        """End the threads that wait for another request of a kept connection."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is part of the play."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    _under_way: tuple[Any, int, str, bool] | None = None

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._handle(None)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._handle(json.loads(content))

    def _handle(self, body: Any) -> None:
        identity = f"{self.path} {json.dumps(body, sort_keys=True)}"
        attempt, served = self.server.owner.enter(identity)
        self._under_way = (body, attempt, identity, served)
        outcome = "gone"
        try:
            if served:
                outcome = self._answer(body, attempt)
            else:
                outcome = self._send(429, {"error": {"message": "too many at once"}})
        finally:
            self._leave(outcome)

    def _leave(self, outcome: str) -> None:
        """Record the request, once: whoever has an answer finds its request in the list."""
        if self._under_way is not None:
            (body, attempt, identity, served), self._under_way = self._under_way, None
            recorded = Recorded(self.command, self.path, dict(self.headers), body, attempt, outcome, time.monotonic())
            self.server.owner.leave(recorded, identity, served=served)

    def _answer(self, body: Any, attempt: int) -> str:
        time.sleep(self.server.owner.delay)
        given = self.server.owner.given_key(self.headers)
        if self.server.owner.key is not None and given != self.server.owner.key:
            error = {"message": f"Incorrect API key provided: {given}.", "code": "invalid_api_key"}
            return self._send(401, {"error": error})
        fault = self.server.owner.fault_for(self.path, body, attempt)
        if isinstance(fault, Status):
            default = {"error": {"message": f"scripted failure {fault.code}"}}
            return self._send(fault.code, default if fault.body is None else fault.body, fault.headers)
        if isinstance(fault, Raw):
            return self._send_bytes(200, fault.data, fault.headers, outcome="raw")
        if isinstance(fault, Stall):
            time.sleep(fault.seconds)
        status, reply = self.server.owner.reply(self.path, body)
        content = json.dumps(reply).encode()
        if isinstance(fault, Cut):
            return self._cut(content, fault)
        if isinstance(fault, Drip):
            return self._drip(content, fault.pause)
        return self._send_bytes(status, content, {})

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> str:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._send_bytes(status, content, headers or {})

    def _send_bytes(self, status: int, content: bytes, headers: dict[str, str], outcome: str = "") -> str:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self._leave(outcome or str(status))
        self.wfile.write(content)
        return outcome or str(status)

    def _cut(self, content: bytes, cut: Cut) -> str:
        self.close_connection = True
        if cut.in_body:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
        if cut.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
        return "cut"

    def _drip(self, content: bytes, pause: float) -> str:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        for byte in content:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(pause)
        return "200"
