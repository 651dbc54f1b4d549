"""Judges: a second generator that reads or grades answers, its prompts (data), and the parsers of its replies."""

from eyechart.scorers.judging.judge_forms import JudgeForm, option_block
from eyechart.scorers.judging.judges import JUDGE_SETTINGS, Ask, Judge, JudgePrompts, load_prompts

__all__ = ["JUDGE_SETTINGS", "Ask", "Judge", "JudgeForm", "JudgePrompts", "load_prompts", "option_block"]
