"""Words in the reader's language: one table, ``words/zh.toml``, applied where text meets a person.

The source is written in English, and the English text is the key. What has no translation stays English.

    translate("Unknown dataset: 'cifra10'.")   # with EYECHART_LANG=zh: 未知的数据集: 'cifra10'。
"""

from __future__ import annotations

import os
import re
import tomllib
from functools import cache
from importlib import resources

VARIABLE = "EYECHART_LANG"
_CHINESE = {"zh", "zh-cn", "zh-sg", "zh-hans", "zh-hans-cn", "zh-hans-sg", "chinese"}
"""Spellings of simplified Chinese. Traditional Chinese is another language."""
_PLACE = re.compile(r"\{(?P<name>\w+)(?P<deep>\|t)?\}")
"""Where a value stands in a text; ``|t`` in the Chinese text says that the value itself is words of ours."""
_VALUES = {"program": r"(?:eyechart|clip_benchmark\w*)(?: [\w-]+)*?", "n": r"[\d.,]+"}
"""What may stand in places of these names; in others, anything."""
_SENTENCE = re.compile(r"(?<=[.?!:;]) (?=\S)")


def language() -> str:
    """Return the language that ``$EYECHART_LANG`` asks for: ``zh``, else ``en``."""
    code = os.environ.get(VARIABLE, "").partition(".")[0].strip().lower().replace("_", "-")
    return "zh" if code in _CHINESE else "en"


def words(section: str) -> dict[str, str]:
    """Return a section of the table of Chinese words, by their English."""
    return _table()[section]


@cache
def _table() -> dict[str, dict[str, str]]:
    text = resources.files("eyechart").joinpath("words", "zh.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def translate(text: str) -> str:
    """Return a text for people in the reader's language: whole lines first, then sentence by sentence."""
    return text if language() == "en" or not text else "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    """Translate a line: whole if it is known, else the longest runs of sentences that are."""
    core = line.strip()
    sentences, said = _SENTENCE.split(core), ""
    while sentences:
        runs = ((end, _whole(" ".join(sentences[:end]))) for end in range(len(sentences), 0, -1))
        end, found = next(((end, found) for end, found in runs if found is not None), (1, sentences[0]))
        said += found if not said or _closed(said) else f" {found}"
        sentences = sentences[end:]
    return line.replace(core, said, 1) if core else line


def _closed(text: str) -> bool:
    """Tell whether a text ends with a full-width sign, which brings its own space."""
    return text[-1] in "\u3002\uff1a\uff1b\uff1f\uff01"


def _whole(text: str) -> str | None:
    exact, shapes = _known()
    if text in exact:
        return exact[text]
    for shape, chinese in shapes:
        found = shape.fullmatch(text)
        if found:
            return _filled(chinese, found)
    return None


def _filled(chinese: str, found: re.Match[str]) -> str:
    """Put values into their places."""
    return _PLACE.sub(lambda at: translate(found[at["name"]]) if at["deep"] else found[at["name"]], chinese)


@cache
def _known() -> tuple[dict[str, str], list[tuple[re.Pattern[str], str]]]:
    """Return the texts without places, and those with places as patterns, those with most words of their own first."""
    texts = {key: value for name, part in _table().items() if name != "page" for key, value in part.items()}
    exact = {key: value for key, value in texts.items() if not _PLACE.search(key)}
    shapes = sorted(texts.keys() - exact.keys(), key=lambda key: (-len(_PLACE.sub("", key)), key))
    return exact, [(_shape(key), texts[key]) for key in shapes]


def _shape(key: str) -> re.Pattern[str]:
    """Turn a text with places into a pattern; a name that comes twice must have the same value twice."""
    pattern, end, seen = "", 0, set()
    for place in _PLACE.finditer(key):
        name = place["name"]
        pattern += re.escape(key[end : place.start()]) + (
            f"(?P={name})" if name in seen else f"(?P<{name}>{_VALUES.get(name, '.+?')})"
        )
        seen.add(name)
        end = place.end()
    return re.compile(pattern + re.escape(key[end:]))
