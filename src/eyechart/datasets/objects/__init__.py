"""Datasets that are handed over as objects of Python."""
