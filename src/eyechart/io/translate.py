"""Words in the reader's language: one table, ``words/zh.toml``, applied where text meets a person.

The source is written in English, and the English text is the key. What has no translation stays English.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache
from importlib import resources

VARIABLE = "EYECHART_LANG"
_CHINESE = {"zh", "zh-cn", "zh-sg", "zh-hans", "zh-hans-cn", "zh-hans-sg", "chinese"}
"""Spellings of simplified Chinese. Traditional Chinese is another language."""


def language() -> str:
    """Return the language that ``$EYECHART_LANG`` asks for: ``zh``, else ``en``."""
    code = os.environ.get(VARIABLE, "").partition(".")[0].strip().lower().replace("_", "-")
    return "zh" if code in _CHINESE else "en"


@cache
def words(section: str) -> dict[str, str]:
    """Return a section of the table of Chinese words, by their English."""
    text = resources.files("eyechart").joinpath("words", "zh.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text)[section])
