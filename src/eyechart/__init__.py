"""Eyechart: the vision test for vision-language models."""
