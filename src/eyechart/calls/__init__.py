"""What people call from Python: evaluate, score, load a model, compare."""
