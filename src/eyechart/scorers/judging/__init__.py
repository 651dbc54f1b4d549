"""Judges: a second generator that reads or grades answers, its prompts (data), and the parsers of its replies."""

from eyechart.scorers.judging.judge_forms import JudgeForm, option_block
from eyechart.scorers.judging.judges import (
    JUDGE_SETTINGS,
    VLMEVAL,
    Ask,
    Judge,
    JudgePrompts,
    read_prompts,
    vlmeval_prompts,
)


def load_prompts(name: str) -> JudgePrompts:
    """Return the judge prompts of a setting: built-in (empty), from a file, or of an installed VLMEvalKit."""
    return vlmeval_prompts() if name == VLMEVAL else read_prompts(name)


__all__ = ["JUDGE_SETTINGS", "Ask", "Judge", "JudgeForm", "JudgePrompts", "load_prompts", "option_block"]
