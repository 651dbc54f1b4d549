"""Real HTTP servers that accept exactly the documented requests of embedding services.

    with EmbeddingServer("cohere", key=KEY) as server:
        ModelSpec("api", "embed-v4.0", server.api_base, options={"image_form": "cohere"})

Any deviation from the documented form is a status 400 with the reason. The vector of an input depends on everything
that a service may use: its parts in their order, and its role.
"""

from __future__ import annotations

import base64
import io
import json
import random
from typing import Any

import numpy as np
from PIL import Image

from support.openai_server import OpenAIServer

ROOTS = {
    "cohere": "/v2",
    "voyage": "/v1",
    "gemini": "/v1beta",
    "jina": "/v1",
    "vllm": "/v1",
    "vllm_pooling": "",
}
OWN_SIZE = {"cohere": 1536, "voyage": 1024, "gemini": 3072, "jina": 2048, "vllm": 64, "vllm_pooling": 64}


class DeviationError(Exception):
    """What is wrong with a request."""


class EmbeddingServer(OpenAIServer):
    """One service: its path, its fields and their values, its limits, its header, its responses."""

    def __init__(self, service: str, **options: Any) -> None:
        super().__init__(**options)
        self.service = service
        self.batches: list[int] = []

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.port}{ROOTS[self.service]}"

    def given_key(self, headers: Any) -> str:
        if self.service != "gemini":
            return super().given_key(headers)
        return "" if "Authorization" in headers else headers.get("x-goog-api-key", "")

    def reply(self, path: str, body: Any) -> tuple[int, Any]:
        if body is None:
            return 404, {"message": "no such route"}
        try:
            return 200, getattr(self, f"_{self.service}")(path, body)
        except DeviationError as error:
            return 400, {"message": f"deviation: {error}"}

    def vector_of(self, parts: list[Any], role: str | None, size: int) -> np.ndarray:
        """The vector of an input with a role, before it is quantized."""
        generator = random.Random(json.dumps([parts, role, size]))
        return np.array([generator.gauss(0, 1) for _ in range(size)], np.float32)

    def numbers(self, parts: list[Any], role: str | None, size: int, dtype: str = "float") -> list[Any]:
        """The vector as the service writes it."""
        vector = self.vector_of(parts, role, size)
        if dtype == "int8":
            return np.clip(np.rint(vector * 40), -128, 127).astype(int).tolist()
        return np.packbits(vector > 0).tolist() if dtype == "ubinary" else vector.tolist()

    # The services

    def _cohere(self, path: str, body: Any) -> Any:
        expect(path == "/v2/embed", f"path {path}")
        fields(body, {"model", "input_type", "embedding_types"}, {"texts", "inputs", "output_dimension"})
        expect(("texts" in body) != ("inputs" in body), "one of texts and inputs")
        role = one_of(body["input_type"], "search_query", "search_document", "classification", "clustering", "image")
        expect(isinstance(body["embedding_types"], list) and len(body["embedding_types"]) == 1, "embedding_types")
        dtype = one_of(body["embedding_types"][0], "float", "int8", "uint8", "binary", "ubinary", "base64")
        size = one_of(body.get("output_dimension", 1536), 256, 512, 1024, 1536)
        rows = [[text(row)] for row in body.get("texts", [])]
        for row in body.get("inputs", []):
            fields(row, {"content"})
            rows.append([self._part(part, "image_url") for part in row["content"]])
        self._limit(rows, 96)
        found = [self.numbers(row, role, size, dtype) for row in rows]
        return {"id": "1", "embeddings": {dtype: found}, "meta": {"billed_units": {"input_tokens": 7}}}

    def _voyage(self, path: str, body: Any) -> Any:
        sees = "multimodal" in body.get("model", "")
        expect(path == ("/v1/multimodalembeddings" if sees else "/v1/embeddings"), f"path {path}")
        fields(body, {"model", "inputs" if sees else "input"}, {"input_type", "output_dimension", "output_dtype"})
        role = one_of(body.get("input_type"), None, "query", "document")
        dtype = one_of(body.get("output_dtype", "float"), "float", "int8", "uint8", "binary", "ubinary")
        size = one_of(body.get("output_dimension", 1024), 256, 512, 1024, 2048)
        rows = [] if sees else [[text(row)] for row in body["input"]]
        for row in body.get("inputs", []):
            fields(row, {"content"})
            rows.append([self._part(part, "image_base64") for part in row["content"]])
        self._limit(rows, 1000)
        found = [
            {"object": "embedding", "index": i, "embedding": self.numbers(row, role, size, dtype)}
            for i, row in enumerate(rows)
        ]
        return {"object": "list", "data": found[::-1], "model": body["model"], "usage": {"total_tokens": 7}}

    def _gemini(self, path: str, body: Any) -> Any:
        name, _, method = path.removeprefix("/v1beta/").partition(":")
        expect(path.startswith("/v1beta/models/") and method == "batchEmbedContents", f"path {path}")
        fields(body, {"requests"})
        two = "embedding-2" in name
        rows = []
        for one in body["requests"]:
            fields(one, {"model", "content"}, {"outputDimensionality"} | (set() if two else {"taskType"}))
            expect(one["model"] == name, f"model {one['model']}")
            fields(one["content"], {"parts"})
            role = one_of(one.get("taskType"), None, "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "CLASSIFICATION")
            parts = []
            for part in one["content"]["parts"]:
                if "text" in part:
                    fields(part, {"text"})
                    parts.append(text(part["text"]))
                else:
                    expect(two, "only text parts are embedded")
                    fields(part, {"inlineData"})
                    fields(part["inlineData"], {"mimeType", "data"})
                    one_of(part["inlineData"]["mimeType"], "image/png", "image/jpeg")
                    parts.append({"image": image(part["inlineData"]["data"])})
            size = one.get("outputDimensionality", 3072)
            expect(type(size) is int and 128 <= size <= 3072, f"outputDimensionality {size}")
            rows.append((parts, role, size))
        self._limit(rows, 6 if any(len(row[0]) > 1 or isinstance(row[0][0], dict) for row in rows) else 100)
        found = [{"values": self.numbers(*row)} for row in rows]
        return {"embeddings": found, "usageMetadata": {"promptTokenCount": 7}}

    def _jina(self, path: str, body: Any) -> Any:
        expect(path == "/v1/embeddings", f"path {path}")
        fields(body, {"model", "input"}, {"task", "dimensions", "embedding_type"})
        clip = "clip" in body["model"]
        tasks = ("retrieval.query",) if clip else ("retrieval.query", "retrieval.passage", "text-matching")
        role = one_of(body.get("task"), None, *tasks)
        dtype = one_of(body.get("embedding_type", "float"), "float", "base64", "binary", "ubinary")
        size = body.get("dimensions", 1024 if clip else 2048)
        expect(type(size) is int and 64 <= size <= 2048, f"dimensions {size}")
        rows = []
        for row in body["input"]:
            if not isinstance(row, str):
                fields(row, {"image"})
            rows.append([text(row) if isinstance(row, str) else {"image": image(row["image"])}])
        self._limit(rows, 512)
        found = [
            {"object": "embedding", "index": i, "embedding": self.numbers(row, role, size, dtype)}
            for i, row in enumerate(rows)
        ]
        return {"model": body["model"], "data": found, "usage": {"total_tokens": 7}}

    def _vllm(self, path: str, body: Any) -> Any:
        expect(path == "/v1/embeddings", f"path {path}")
        fields(body, {"model", "encoding_format"}, {"input", "messages", "dimensions"})
        return self._vllm_rows(body, "embedding")

    def _vllm_pooling(self, path: str, body: Any) -> Any:
        expect(path == "/pooling", f"path {path}")
        fields(body, {"model", "encoding_format", "task"}, {"input", "messages", "dimensions"})
        one_of(body["task"], "embed")
        return self._vllm_rows(body, "data")

    def _vllm_rows(self, body: Any, name: str) -> Any:
        expect(("input" in body) != ("messages" in body), "one of input and messages")
        one_of(body["encoding_format"], "float")
        size = one_of(body.get("dimensions", 64), 16, 32, 64)
        rows = [[text(row)] for row in body.get("input", [])]
        for message in body.get("messages", []):
            fields(message, {"role", "content"})
            one_of(message["role"], "user")
            rows.append([self._part(part, "image_url") for part in message["content"]])
        self._limit(rows, 2048)
        found = [{"index": i, name: self.numbers(row, None, size)} for i, row in enumerate(rows)]
        return {"object": "list", "model": body["model"], "data": found, "usage": {"prompt_tokens": 7}}

    def _limit(self, rows: list[Any], most: int) -> None:
        expect(0 < len(rows) <= most, f"{len(rows)} inputs, at most {most}")
        self.batches.append(len(rows))

    def _part(self, part: Any, kind: str) -> Any:
        """Check a part of an input, and return its text or its image."""
        if part.get("type") == "text":
            fields(part, {"type", "text"})
            return text(part["text"])
        fields(part, {"type", kind})
        one_of(part["type"], kind)
        place = part[kind]
        if kind == "image_url":
            fields(place, {"url"})
            place = place["url"]
        expect(isinstance(place, str) and place.startswith("data:image/png;base64,"), "not a data URL")
        return {"image": image(place.partition(",")[2])}


def expect(fine: bool, reason: str) -> None:
    if not fine:
        raise DeviationError(reason)


def fields(value: Any, needed: set[str], allowed: set[str] = frozenset()) -> None:
    expect(isinstance(value, dict), f"{value!r} is not an object")
    expect(needed <= value.keys() <= needed | allowed, f"fields {sorted(value)}, needed {sorted(needed)}")


def one_of(value: Any, *allowed: Any) -> Any:
    expect(any(value == one and type(value) is type(one) for one in allowed), f"{value!r} is none of {allowed}")
    return value


def text(value: Any) -> str:
    expect(isinstance(value, str) and bool(value), f"{value!r} is not a text")
    return value


def image(data: Any) -> str:
    """Check that an image in Base64 can be read, and return it."""
    try:
        Image.open(io.BytesIO(base64.b64decode(data, validate=True))).verify()
    except (OSError, ValueError, TypeError) as error:
        raise DeviationError(f"unreadable image: {error}") from error
    return data
