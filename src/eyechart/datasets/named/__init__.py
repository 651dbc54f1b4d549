"""Readers for the folder layouts in which well-known datasets are distributed."""
