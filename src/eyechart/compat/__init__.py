"""Translators from the names and conventions of other tools to Eyechart's settings, jobs and scoring."""

from eyechart.compat.import_shim import act_as

__all__ = ["act_as"]
