"""OpenAI-compatible servers: chat, embeddings, rerank, through one client.

client = ApiClient("http://localhost:8000/v1", concurrency=32, budget=Budget(max_requests=10_000))
client.check("my-model")
for reply in client.map(chat_request(id, "my-model", [user("What is this?", image)]) for ...):
save(reply.id, reply.value, reply.error)
"""

from eyechart.api.budget import Budget, Usage
from eyechart.api.chat import ChatAnswer, ChatMessage, chat_body, chat_request, parse_chat, user
from eyechart.api.client import ApiClient
from eyechart.api.embeddings import embed_images, embed_texts, parse_embeddings
from eyechart.api.errors import ApiError
from eyechart.api.images import EncodedImage, encode_image
from eyechart.api.requests import Reply, Request
from eyechart.api.rerank import parse_rerank, rerank_request
from eyechart.api.retry import Retry
from eyechart.api.secret import Secret, find_key

__all__ = [
    "ApiClient",
    "ApiError",
    "Budget",
    "ChatAnswer",
    "ChatMessage",
    "EncodedImage",
    "Reply",
    "Request",
    "Retry",
    "Secret",
    "Usage",
    "chat_body",
    "chat_request",
    "embed_images",
    "embed_texts",
    "encode_image",
    "find_key",
    "parse_chat",
    "parse_embeddings",
    "parse_rerank",
    "rerank_request",
    "user",
]
