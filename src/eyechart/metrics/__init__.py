"""Metrics as pure functions over small arrays and plain values, without access to files, models or settings."""
