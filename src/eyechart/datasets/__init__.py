"""Readers: each turns one form of data on disk into a stream of samples."""
