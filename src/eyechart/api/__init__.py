"""Client for OpenAI-compatible servers: chat, embeddings and rerank.

client = ApiClient("http://localhost:8000/v1", concurrency=32, budget=Budget(max_requests=10_000))
client.check("my-model")
for reply in client.map(chat_request(id, "my-model", [user("What is this?", image)]) for ...):
save(reply.id, reply.value, reply.error)
"""

from eyechart.api.budget import Budget, Usage
from eyechart.api.client import ApiClient
from eyechart.api.embedding_forms import embed, parse_embeddings
from eyechart.api.endpoints import chat_body, chat_request, encode_ref, parse_chat, parse_rerank, rerank_request, user
from eyechart.api.errors import ApiError
from eyechart.api.image_payloads import EncodedImage, encode_image
from eyechart.api.limiter import Retry
from eyechart.api.requests import Reply, Request
from eyechart.io.secrets import Secret, find_key

__all__ = [
    "ApiClient", "ApiError", "Budget", "EncodedImage", "Reply", "Request", "Retry", "Secret", "Usage", "chat_body",
    "chat_request", "embed", "encode_image", "encode_ref", "find_key", "parse_chat", "parse_embeddings", "parse_rerank",
    "rerank_request", "user",
]  # fmt: skip
