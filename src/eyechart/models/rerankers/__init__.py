"""Rerankers: models that read a query and a document together. One file per family."""
