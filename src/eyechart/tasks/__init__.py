"""Tasks: one file each. A task reads a dataset through a model (predict) and turns that into numbers (score)."""
