"""Judges: a second generator that reads or grades answers, what it is asked (data), and how its replies are read."""

from eyechart.scorers.judging.forms import JudgeForm, option_block
from eyechart.scorers.judging.judge import JUDGE_SETTINGS, Ask, Judge
from eyechart.scorers.judging.prompts import JudgePrompts, load_prompts

__all__ = ["JUDGE_SETTINGS", "Ask", "Judge", "JudgeForm", "JudgePrompts", "load_prompts", "option_block"]
