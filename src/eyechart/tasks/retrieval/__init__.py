"""Retrieval: images by text, texts by image, documents by query."""
