"""The public Python API: evaluate, score, load_model, compare."""
