"""Tasks that learn from a training split."""
