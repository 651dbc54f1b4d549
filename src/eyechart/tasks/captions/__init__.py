"""Captions from a generator: scored against references, or written as a text retrieval dataset."""
