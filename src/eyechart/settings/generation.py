"""The settings of generative benchmarks: API access, generation, answer extraction and judges."""

from __future__ import annotations

from typing import Literal

from eyechart.messages import UserMessage
from eyechart.settings.declare import PathText, Settings, setting
from eyechart.settings.shared import QUESTIONS


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
        secret=True,
        record="never",
    )
    concurrency: int = setting(8, "concurrent requests", ge=1, record="never")
    timeout: float = setting(300.0, "seconds to wait for an answer", gt=0, record="never")
    tries: int = setting(6, "attempts per request", ge=1, record="never")
    prices: PathText = setting(
        "", "TOML or JSON with the price per million tokens of each model", metavar="FILE", record="never"
    )
    temperature: float | None = setting(
        None, "sampling temperature (default: the server's, or greedy decoding)", ge=0, record="never"
    )
    max_tokens: int | None = setting(None, "maximum length of an answer in tokens", ge=1, record="never")
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
        None, "environment variable that holds the judges' API key", secret=True, record="never"
    )
    judge_prompts: PathText = setting("", "judge prompts: a TOML file, or vlmeval", metavar="FILE")
    judge_repeats: int = setting(1, "judgements per answer and judge", ge=1)
    judge_temperature: float = setting(0.0, "sampling temperature of the judges", ge=0, record="never")
    human_verdicts: PathText = setting("", "table of human verdicts with columns index and correct", metavar="FILE")
    judge_fallback: Literal["", "exact_matching"] = setting("", "scorer to use if the judge fails")
    xlsx: bool = setting(True, "write predictions as JSON lines only", switch="off")
