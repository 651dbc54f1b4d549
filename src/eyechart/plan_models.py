"""Which models a run's settings ask for, and with what options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from eyechart.config import Config
from eyechart.models.access import Access
from eyechart.models.registry import GENERATORS
from eyechart.models.resolve import choose_models
from eyechart.plugins import PYTHON
from eyechart.types import ModelSpec

MAX_BATCH = 8
"""Conversations per forward pass: far fewer than images per pass of an encoder."""


def model_specs(config: Config) -> list[ModelSpec]:
    """Return the models of ``--pretrained_model``, or every pair of ``--model`` and ``--pretrained``."""
    chosen = choose_models(config.model_type, config.model, config.pretrained, list_entries(config.pretrained_model))
    return [
        ModelSpec(
            choice.family,
            choice.name,
            choice.pretrained,
            precision_of(config),
            config.device,
            model_options(config) | ({"factory": choice.factory} if choice.factory else {}),
        )
        for choice in chosen
    ]


def with_generation(config: Config, spec: ModelSpec, benchmark: str) -> ModelSpec:
    """Return the same model as a generator: with its generation settings and how it is reached."""
    wished = {"temperature": config.questions.temperature, "max_tokens": config.questions.max_tokens}
    settings = {key: value for key, value in wished.items() if value is not None}
    options = {**spec.options, "settings": {**spec.options.get("settings", {}), **settings}}
    if config.questions.api_base:
        options["api_base"] = config.questions.api_base
    if getattr(GENERATORS.load(spec.family), "wants_benchmark", False):
        options["dataset"] = benchmark
    return replace(spec, options=options, access=access_of(config))


def access_of(config: Config) -> Access:
    """Return how generators are reached."""
    questions = config.questions
    return Access(
        key_variable=questions.api_key_variable,
        concurrency=questions.concurrency,
        timeout=questions.timeout,
        tries=questions.tries,
        batch_size=min(config.batch_size, MAX_BATCH),
    )


def short_name(spec: ModelSpec) -> str:
    """Return a generator's name as it stands in results and file names."""
    return Path(spec.name).name if Path(spec.name).exists() else spec.name.removeprefix(PYTHON)


def model_options(config: Config) -> dict[str, Any]:
    """Collect what a family is told beyond the model's name; what was not asked for is left out."""
    named = {
        "cache_dir": config.model_cache_dir,
        "revision": config.revision,
        "hub": config.hub,
        "trust_remote_code": config.trust_remote_code,
        "compile": config.compile,
    }
    return {**config.model_options, **{key: value for key, value in named.items() if value}}


def precision_of(config: Config) -> str:
    """Resolve ``auto``: float32. A wrong digit is worse than a slow run, and amp is one flag away."""
    return "fp32" if config.precision == "auto" else config.precision


def list_entries(names: Iterable[str]) -> Iterator[str]:
    """Yield names; a text file stands for the names in it, one a line."""
    for name in names:
        path = Path(name)
        if path.suffix == ".txt" and path.is_file():
            lines = (line.strip() for line in path.read_text(encoding="utf-8").split("\n"))
            yield from (line for line in lines if line and not line.startswith("#"))
        else:
            yield name
