"""Judges: a second generator that reads or grades answers, what it is asked (data), and how its replies are read."""

from eyechart.scorers.judging.forms import JudgeForm, option_block
from eyechart.scorers.judging.judge import JUDGE_SETTINGS, Ask, Judge
from eyechart.scorers.judging.prompts import JudgePrompts, read_prompts
from eyechart.scorers.judging.vlmeval import VLMEVAL, vlmeval_prompts


def load_prompts(name: str) -> JudgePrompts:
    """Return the judge prompts of a setting: ours (empty), a file's, or those of an installed VLMEvalKit."""
    return vlmeval_prompts() if name == VLMEVAL else read_prompts(name)


__all__ = ["JUDGE_SETTINGS", "Ask", "Judge", "JudgeForm", "JudgePrompts", "load_prompts", "option_block"]
