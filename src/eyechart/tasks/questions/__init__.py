"""Questions to a generator: how they are put, what was answered, and the numbers that come of it."""

from eyechart.tasks.questions.task import QuestionAnswering

__all__ = ["QuestionAnswering"]
