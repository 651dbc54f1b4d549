"""From somebody's questions (JSON, CSV, a dataset of Hugging Face on disk) to a table that ``eyechart eval`` runs."""

from eyechart.datasets.questions.conversion.convert import Conversion, Converted, convert

__all__ = ["Conversion", "Converted", "convert"]
