"""Shared code of the torch families: running towers, precision, checkpoints, preprocessing."""
