"""Scoring of generated answers: read (`rules`) -> judge policy (`scorer.POLICIES`) -> aggregate (`aggregates`)."""

from eyechart.scorers.scorer import Scorer, scorer_of

__all__ = ["Scorer", "scorer_of"]
