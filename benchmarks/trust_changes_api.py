"""Changes for `trust.py`: what happens behind the URL of a server, and how its answers are requested and read."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from trust_edits import Change, Fault
from trust_world import draw, png

ASKS = ["--model", "m", "--model_type", "api", "--api_base", "{api}", "--dataset", "asks.tsv"]
ENCODE = ["--model", "m", "--model_type", "api", "--pretrained", "{api}", "--dataset", "photos"]
ENCODE += ["--model_option", "image_form=jina"]
NOT_VERIFIED = "cannot be verified"


@contextmanager
def server(world: Path) -> Iterator[Mapping[str, str]]:
    """Serve chat and embeddings; the file server.json holds the model: `weights`, and the reported `name`."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"world": world}))
    thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield {"api": f"http://127.0.0.1:{http.server_address[1]}/v1"}
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    world: Path

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send({"data": [{"id": "m"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        file = self.world / "server.json"
        state = {"weights": 1, "name": "m"} | (json.loads(file.read_text()) if file.exists() else {})
        reply = self._chat(body, state) if self.path.endswith("completions") else self._embed(body, state)
        self._send({"model": state["name"], **reply})

    def _chat(self, body: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        """Answer A or B by the question, the image, the weights and the parameters of the request."""
        content = body["messages"][-1]["content"]
        cut = body.get("max_tokens", 9999) < 5
        seen = [content, state["weights"], body.get("temperature"), body.get("seed"), cut]
        message = {"role": "assistant", "content": "AB"[hashlib.sha256(json.dumps(seen).encode()).digest()[0] % 2]}
        return {"choices": [{"message": message, "finish_reason": "length" if cut else "stop"}]}

    def _embed(self, body: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        vectors = [
            [ord(char) % 7 * state["weights"] % 5 + 0.1 for char in str(item)[-24:-16].ljust(8)]
            for item in body["input"]
        ]
        return {"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]}

    def _send(self, reply: dict[str, Any]) -> None:
        content = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def state(world: Path, **values: object) -> None:
    (world / "server.json").write_text(json.dumps(values))


def another_model(world: Path) -> None:
    """Serve another model under the same name, which the server reports, and add an image that needs a vector."""
    state(world, weights=3, name="m-2")
    (world / "photos" / "test" / "bag" / "new.png").write_bytes(png(draw(98)))


def fault(path: str, old: str, new: str) -> tuple[Fault, ...]:
    return (Fault(path, old, new),)


SETTINGS = fault(
    "models/api_models.py",
    "transform=digest_json([self.settings, self.max_edge]),",
    "transform=digest_json([]),",
)
AGE = fault("inference/answers.py", "if answer is None or since is None or not self.model.remote:", "if True:")
OTHER: Callable[[Path], None] = partial(state, weights=2)

CHANGES = [
    Change(
        "the weights behind the URL of a generator",
        ASKS,
        OTHER,
        serve=server,
        notice=NOT_VERIFIED,
        defence=fault(
            "models/api_models.py",
            'precision="unknown",\n            notes=(UNVERIFIED, *_downscaling(self.max_edge)),\n'
            '            role="generator",',
            'precision="unknown",\n            role="generator",',
        ),
    ),
    Change(
        "the weights behind the URL of an encoder",
        ENCODE,
        partial(state, weights=3),
        serve=server,
        notice=NOT_VERIFIED,
        defence=fault(
            "models/api_models.py",
            "embedding_dim=self.dimension,\n            notes=(UNVERIFIED, *_downscaling(self.max_edge)),",
            "embedding_dim=self.dimension,",
        ),
    ),
    Change(
        "the weights behind the URL, with --refresh_answers",
        ASKS,
        OTHER,
        [*ASKS, "--refresh_answers"],
        serve=server,
        defence=AGE,
    ),
    Change(
        "the weights behind the URL, with --max_age 0s",
        ASKS,
        OTHER,
        [*ASKS, "--max_age", "0s"],
        serve=server,
        defence=AGE,
    ),
    Change(
        "the weights behind the URL of an encoder, with --refresh_answers",
        ENCODE,
        partial(state, weights=3),
        [*ENCODE, "--refresh_answers"],
        serve=server,
        defence=fault("session.py", "refresh = model.remote and access_of(spec).since is not None", "refresh = False"),
    ),
    Change(
        "an encoder's server that reports another model and needs a new vector",
        ENCODE,
        another_model,
        serve=server,
        repeated=True,
        defence=(
            *fault("models/api_models.py", "[served] * (served != spec.name)", "[]"),
            *fault(
                "models/api_models.py",
                "embedding_dim=self.dimension,\n            notes=(UNVERIFIED, *_downscaling(self.max_edge)),",
                "embedding_dim=self.dimension,",
            ),
        ),
    ),
    Change(
        "the temperature of an API model", ASKS, bool, [*ASKS, "--temperature", "0.3"], serve=server, defence=SETTINGS
    ),
    Change(
        "the server's own temperature", ASKS, bool, [*ASKS, "--temperature", "default"], serve=server, defence=SETTINGS
    ),
    Change("the maximum length of an answer", ASKS, bool, [*ASKS, "--max_tokens", "3"], serve=server, defence=SETTINGS),
    Change(
        "a request field of an API model",
        ASKS,
        bool,
        [*ASKS, "--model_option", 'settings={{"seed":"1"}}'],
        serve=server,
        defence=SETTINGS,
    ),
    Change(
        "the size of the images that are sent",
        ASKS,
        bool,
        [*ASKS, "--model_option", "max_edge=16"],
        serve=server,
        defence=SETTINGS,
    ),
    Change(
        "truncated answers that count as wrong",
        [*ASKS, "--max_tokens", "3"],
        bool,
        [*ASKS, "--max_tokens", "3", "--cut_answers", "wrong", "--min_success", "0"],
        serve=server,
        defence=fault("types.py", "self.task, dict(self.settings), self.on_error", "self.task, self.on_error"),
    ),
]
