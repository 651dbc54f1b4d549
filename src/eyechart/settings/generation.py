"""The settings of generative benchmarks: API access, generation, answer extraction and judges."""

import math
import re
import time
from typing import Literal

from eyechart.errors import UsageError
from eyechart.messages import UserMessage
from eyechart.settings.declare import PathText, Settings, setting
from eyechart.settings.evaluation import QUESTIONS

_DURATIONS = "Examples: 90s, 15m, 12h, 30d, 2w; 0 uses no stored answer."
_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _seconds(duration: str) -> float | None:
    """Parse ``90``, ``90s``, ``15m``, ``12h``, ``30d`` or ``2w``; None if it is not a duration."""
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s?([a-z]*)", duration.strip().lower())
    return float(found[1]) * _UNITS[found[2]] if found and found[2] in _UNITS else None


class QuestionSettings(Settings):
    """How questions are asked, and how answers are extracted and judged."""

    group = QUESTIONS

    mode: Literal["all", "infer", "eval"] = setting("all", "predict and score, predict only, or score only")
    api_base: str = setting(
        "",
        UserMessage("base URL of an OpenAI-compatible server, up to /v1 ({--model_type=api})"),
        common=True,
        record="never",
    )
    api_key_variable: str | None = setting(
        None,
        "environment variable that holds the API key (default: EYECHART_API_KEY, then OPENAI_API_KEY)",
        record="never",
    )
    concurrency: int = setting(8, "concurrent requests", ge=1, record="never")
    timeout: float = setting(300.0, "seconds to wait for an answer", gt=0, record="never")
    tries: int = setting(6, "attempts per request", ge=1, record="never")
    prices: PathText = setting(
        "", "TOML or JSON with the price per million tokens of each model", metavar="FILE", record="never"
    )
    temperature: float | Literal["default"] | None = setting(
        None, "sampling temperature (default: 0); default: the server's or the model's own", record="never"
    )
    max_tokens: int | None = setting(
        None, "maximum length of an answer in tokens (default: the benchmark's, else 2048)", ge=1, record="never"
    )
    cut_answers: Literal["read", "wrong"] = setting(
        "read", "answers truncated at the maximum length: read what is there, or count them as wrong", record="changed"
    )
    max_age: float | str | None = setting(
        None,
        "use stored answers of API models that are at most this old (12h, 30d), and request the others again",
        metavar="DURATION",
        record="never",
        constants={"--refresh-answers": ("0", "request all answers of API models again")},
    )
    system_prompt: str = setting("", "system prompt for every question")
    extractor: Literal["vlmeval", "strict"] = setting("vlmeval", "rules that extract the answer from the output")
    metric: str = setting("", "metric for open answers of a custom table")
    repeats: int = setting(1, "ask every question N times: mean, variance, pass@k, worst@k, vote@k", ge=1)
    blind: Literal["", "no_images", "swapped"] = setting(
        "", "ask every question again without its images, or with those of another question", bare="no_images"
    )
    judge: list[str] = setting(
        ["exact_matching"],
        "judge models for answers that the rules cannot decide, by majority vote; exact_matching: no judge model",
        common=True,
        min_length=1,
    )
    judge_type: list[str] = setting(
        ["api"], "model family of the judges, one or one per judge", min_length=1, record="never"
    )
    judge_api_base: list[str] = setting(
        [""], "base URL of the judges' server, one or one per judge", min_length=1, record="never"
    )
    judge_key_variable: str | None = setting(
        None, "environment variable that holds the judges' API key", record="never"
    )
    judge_prompts: PathText = setting("", "judge prompts: a TOML file, or vlmeval", metavar="FILE")
    judge_repeats: int = setting(1, "judgements per answer and judge", ge=1)
    judge_temperature: float = setting(0.0, "sampling temperature of the judges", ge=0, record="never")
    human_verdicts: PathText = setting("", "table of human verdicts with columns index and correct", metavar="FILE")
    judge_fallback: Literal["", "exact_matching"] = setting("", "scorer to use if the judge fails")
    xlsx: bool = setting(True, "write predictions as JSON lines only", switch="off")

    def check(self) -> None:
        """Reject a negative temperature and an invalid duration."""
        super().check()
        if isinstance(self.temperature, float) and not 0 <= self.temperature < math.inf:
            raise UsageError("{--temperature} must be 0 or more, or default.")
        if self.max_age is not None and _seconds(str(self.max_age)) is None:
            raise UsageError("{--max_age}: {value!r} is not a duration.", advice=_DURATIONS, value=self.max_age)

    @property
    def since(self) -> float | None:
        """The time, in seconds since 1970, before which stored answers are not used; None uses all."""
        age = None if self.max_age is None else _seconds(str(self.max_age))
        return None if age is None else max(0.0, time.time() - age)
