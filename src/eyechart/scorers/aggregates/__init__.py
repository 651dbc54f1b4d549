"""Aggregates: plain functions that compute a benchmark's table from its scored rows; `means` serves most of them."""
