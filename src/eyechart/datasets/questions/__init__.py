"""Benchmarks of questions to generators: tables with images, their prompts, and the catalogue of those known."""
