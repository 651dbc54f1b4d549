"""Surfaces of other tools: their names and forms, translated to ours."""
