"""Tasks: ``predict`` runs a model on a dataset, ``score`` turns the predictions into numbers."""
