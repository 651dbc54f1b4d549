"""Surfaces of other tools: their names and forms, translated to ours."""

from eyechart.compat.acting import act_as

__all__ = ["act_as"]
