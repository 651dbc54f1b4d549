"""How a model is driven: batches, prefetch, memory back-off, and the store in front of it."""
