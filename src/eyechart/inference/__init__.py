"""Running models: batches, prefetch, out-of-memory back-off, and the caches in front of them."""
